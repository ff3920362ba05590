//! A picture in another size: linear between pixels, and over all pixels that become one where it gets smaller, as Pillow's
//! `BILINEAR` does.

use super::decode::{LIMIT, Pixels};
use crate::media_arguments::Resize;

/// Grey around a picture, as detectors are trained with.
const AROUND: u8 = 114;

/// The picture in a size; `None` where it takes more than [`LIMIT`] bytes on the way, as very long ones do.
pub(super) fn resize(pixels: &Pixels, width: usize, height: usize, how: Resize) -> Option<Pixels> {
    let (across, down) = (
        width as f64 / pixels.width as f64,
        height as f64 / pixels.height as f64,
    );
    let by = match how {
        Resize::Separate => return scaled(pixels, width, height),
        Resize::Crop => across.max(down),
        Resize::Pad => across.min(down),
    };
    // the side that decides is exact
    let side = |of: usize, to: usize, own: f64| {
        let size = (of as f64 * by).round() as usize;
        let size = if own == by { to } else { size };
        match how {
            Resize::Pad => size.clamp(1, to),
            _ => size.max(to),
        }
    };
    let inner = scaled(
        pixels,
        side(pixels.width, width, across),
        side(pixels.height, height, down),
    )?;
    Some(placed(&inner, width, height))
}

/// A picture in the middle of another size: what is beyond is cut, and grey is where nothing is.
fn placed(pixels: &Pixels, width: usize, height: usize) -> Pixels {
    let mut rgb = vec![AROUND; width * height * 3];
    let (rows, columns) = (pixels.height.min(height), pixels.width.min(width));
    for row in 0..rows {
        let from = ((pixels.height - rows) / 2 + row) * pixels.width + (pixels.width - columns) / 2;
        let to = ((height - rows) / 2 + row) * width + (width - columns) / 2;
        rgb[to * 3..(to + columns) * 3].copy_from_slice(&pixels.rgb[from * 3..(from + columns) * 3]);
    }
    Pixels {
        width,
        height,
        rgb,
        is_grey: pixels.is_grey,
    }
}

/// Columns first, then rows, each rounded to bytes.
fn scaled(pixels: &Pixels, width: usize, height: usize) -> Option<Pixels> {
    let bytes = pixels.height.max(height).checked_mul(width)?.checked_mul(3)?;
    if bytes > LIMIT {
        return None;
    }
    let mut across = Vec::with_capacity(width * pixels.height * 3);
    let taps = taps(pixels.width, width);
    for row in pixels.rgb.chunks_exact(pixels.width * 3) {
        for (first, weights) in &taps {
            across.extend(mixed(weights, |at| &row[(first + at) * 3..][..3]));
        }
    }
    let mut rgb = Vec::with_capacity(width * height * 3);
    for (first, weights) in &self::taps(pixels.height, height) {
        for column in 0..width {
            rgb.extend(mixed(weights, |at| {
                &across[((first + at) * width + column) * 3..][..3]
            }));
        }
    }
    Some(Pixels {
        width,
        height,
        rgb,
        is_grey: pixels.is_grey,
    })
}

fn mixed<'a>(weights: &[f64], pixel: impl Fn(usize) -> &'a [u8]) -> [u8; 3] {
    let mut sums = [0.5; 3];
    for (at, weight) in weights.iter().enumerate() {
        for (sum, value) in sums.iter_mut().zip(pixel(at)) {
            *sum += weight * f64::from(*value);
        }
    }
    sums.map(|sum| sum as u8)
}

/// For each of `to` pixels the first of `from` that it is made of, and their weights.
fn taps(from: usize, to: usize) -> Vec<(usize, Vec<f64>)> {
    let step = from as f64 / to as f64;
    let reach = step.max(1.0);
    (0..to)
        .map(|index| {
            let middle = (index as f64 + 0.5) * step;
            let first = (middle - reach + 0.5).max(0.0) as usize;
            let end = ((middle + reach + 0.5) as usize).min(from).max(first + 1);
            let weight = |at: usize| (1.0 - ((at as f64 + 0.5 - middle) / reach).abs()).max(0.0);
            let weights: Vec<f64> = (first..end).map(weight).collect();
            let sum: f64 = weights.iter().sum();
            (first, weights.iter().map(|weight| weight / sum).collect())
        })
        .collect()
}
