//! PNG and JPEG pictures as inputs: (value · scale − mean) / std of each channel, in planes or side by side.
//!
//! Invariant: a picture changes its size only by `--resize`; what does not fit is an error.

mod decode;
mod resize;

use anyhow::Context as _;
use polychip::DType;
use polychip_ops::{Dim, TensorType};

use crate::array::{Array, convert};
use crate::media_arguments::{Colors, Layout, MediaArguments};
use decode::{LIMIT, decode};

/// Whether bytes begin as a picture that [`read`] reads.
pub(crate) fn is_picture(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG") || bytes.starts_with(b"\xff\xd8\xff")
}

/// The places of a picture's axes in an input, and the sizes that the input fixes.
struct Axes {
    layout: Layout,
    rank: usize,
    channels: Option<usize>,
    height: Option<usize>,
    width: Option<usize>,
}

impl Axes {
    fn of(ty: &TensorType, media: &MediaArguments) -> anyhow::Result<Axes> {
        let wrong = || {
            format!(
                "a picture needs an input of f32 [1, 3, h, w], [1, h, w, 3] or of u8 or f16 alike; this one is {ty}"
            )
        };
        let dims = ty.shape.as_deref();
        let rank = dims.map_or(4, <[Dim]>::len);
        let takes = matches!(
            ty.dtype,
            DType::F32 | DType::F64 | DType::F16 | DType::BF16 | DType::U8
        );
        anyhow::ensure!(takes && (3..=4).contains(&rank), wrong());
        let known = |axis: usize| dims.and_then(|dims| dims.get(axis)).and_then(Dim::known);
        let is_colour = |axis: usize| matches!(known(axis), Some(1 | 3));
        let layout = media.layout.unwrap_or_else(|| {
            if !is_colour(rank - 3) && is_colour(rank - 1) {
                Layout::Nhwc
            } else {
                Layout::Nchw
            }
        });
        let (channel, height) = match layout {
            Layout::Nchw => (rank - 3, rank - 2),
            Layout::Nhwc => (rank - 1, rank - 3),
        };
        Ok(Axes {
            layout,
            rank,
            channels: known(channel),
            height: known(height),
            width: known(height + 1),
        })
    }

    fn shape(&self, channels: usize, height: usize, width: usize) -> Vec<usize> {
        let mut shape = match self.layout {
            Layout::Nchw => vec![channels, height, width],
            Layout::Nhwc => vec![height, width, channels],
        };
        if self.rank == 4 {
            shape.insert(0, 1);
        }
        shape
    }
}

/// Reads a picture for an input of this type. Of 3 channels: red, green, blue, grey repeated; of 1: grey, and a picture in
/// colour fits only as `--colors grey`. Alpha is dropped.
pub(crate) fn read(bytes: &[u8], ty: &TensorType, media: &MediaArguments) -> anyhow::Result<Array> {
    let axes = Axes::of(ty, media)?;
    let mut pixels = decode(bytes)?;
    let grey = media.colors == Some(Colors::Grey);
    let channels = axes.channels.unwrap_or(if grey { 1 } else { 3 });
    anyhow::ensure!(
        channels == 3 || channels == 1,
        "the input has {channels} channels, a picture 1 or 3"
    );
    anyhow::ensure!(
        channels == 3 || pixels.is_grey || grey,
        "the picture is in colour, the input has one channel; convert it with --colors grey"
    );
    let (width, height) = (
        axes.width.unwrap_or(pixels.width),
        axes.height.unwrap_or(pixels.height),
    );
    if (width, height) != (pixels.width, pixels.height) {
        let resize = media.resize.with_context(|| {
            format!(
                "the picture is {} × {}, the input takes {width} × {height}; choose --resize stretch, crop or pad",
                pixels.width, pixels.height
            )
        })?;
        anyhow::ensure!(
            width > 0 && height > 0 && width.saturating_mul(height) <= LIMIT / 3,
            "a picture of {width} × {height} is not possible"
        );
        pixels = resize::resize(&pixels, width, height, resize)
            .with_context(|| format!("the picture is too long to be made {width} by {height}"))?;
    }
    let order: &[usize] = match (channels, media.colors) {
        (3, Some(Colors::Bgr)) => &[2, 1, 0],
        (3, _) => &[0, 1, 2],
        _ => &[0],
    };
    if grey {
        for pixel in pixels.rgb.as_chunks_mut::<3>().0 {
            *pixel = [luminance(*pixel); 3];
        }
    }
    let shape = axes.shape(channels, height, width);
    let rgb = pixels.rgb.as_chunks::<3>().0;
    let samples: Vec<u8> = match axes.layout {
        Layout::Nchw => order
            .iter()
            .flat_map(|&channel| rgb.iter().map(move |pixel| pixel[channel]))
            .collect(),
        Layout::Nhwc => rgb
            .iter()
            .flat_map(|pixel| order.iter().map(|&channel| pixel[channel]))
            .collect(),
    };
    let plane = if axes.layout == Layout::Nchw {
        width * height
    } else {
        1
    };
    values(samples, shape, (channels, plane), ty.dtype, media)
}

/// Samples as numbers; `plane` of them are of one channel before the next one's.
fn values(
    samples: Vec<u8>,
    shape: Vec<usize>,
    (channels, plane): (usize, usize),
    dtype: DType,
    media: &MediaArguments,
) -> anyhow::Result<Array> {
    for (option, values) in [("--mean", &media.mean), ("--std", &media.std)] {
        anyhow::ensure!(
            values.len() <= 1 || values.len() == channels,
            "{option} has {} numbers, the input {channels} channels",
            values.len()
        );
    }
    anyhow::ensure!(!media.std.contains(&0.0), "--std must not be 0");
    if dtype == DType::U8 {
        anyhow::ensure!(
            media.scale.is_none() && media.mean.is_empty() && media.std.is_empty(),
            "the input takes u8, the picture's own values: --scale, --mean and --std have no meaning"
        );
        return Ok(Array {
            dtype,
            shape,
            bytes: samples,
        });
    }
    let of = |values: &[f64], channel: usize, other: f64| match values {
        [] => other,
        [one] => *one,
        all => all[channel],
    };
    let tables: Vec<Vec<f32>> = (0..channels)
        .map(|channel| {
            let (mean, std) = (of(&media.mean, channel, 0.0), of(&media.std, channel, 1.0));
            (0..=255u8)
                .map(|value| {
                    let value = f64::from(value);
                    let scaled = media.scale.map_or(value / 255.0, |scale| value * scale);
                    ((scaled - mean) / std) as f32
                })
                .collect()
        })
        .collect();
    let bytes = samples
        .iter()
        .enumerate()
        .flat_map(|(at, &sample)| tables[at / plane % channels][usize::from(sample)].to_le_bytes())
        .collect();
    let array = Array {
        dtype: DType::F32,
        shape,
        bytes,
    };
    convert(&array, dtype).context("the input takes no floats")
}

/// The luminance of ITU-R BT.601.
fn luminance([red, green, blue]: [u8; 3]) -> u8 {
    let sum = u32::from(red) * 299 + u32::from(green) * 587 + u32::from(blue) * 114;
    ((sum + 500) / 1000) as u8
}

#[cfg(test)]
mod tests;
