//! Pools: windows and regions reduced to one number.
//!
//! Invariant: padding never wins a maximum and never counts in a sum; NaN wins a maximum only as
//! the first tap of a window: nothing compares larger.

use super::conv::bilinear;
use super::error::{Result, refuse, require};
use super::window::Window;
use super::{Tensor, index};

fn planes<'a>(x: &'a Tensor, window: &Window) -> Result<(&'a [usize], usize, Vec<usize>)> {
    require!(
        x.rank() >= 3,
        "a pool needs [n, c, spatial…], shape {:?} seen",
        x.shape()
    );
    let spatial = &x.shape()[2..];
    window.check(spatial)?;
    let mut shape = x.shape()[..2].to_vec();
    let planes = index::product(&shape);
    shape.extend(&window.output);
    Ok((spatial, planes, shape))
}

/// The largest element of each window and where it is in the whole tensor, counted row-major or, with
/// `column_major`, with the first spatial dim fastest.
///
/// # Errors
/// If the window does not fit the shape.
pub fn max_pool(x: &Tensor, window: &Window, column_major: bool) -> Result<(Tensor, Tensor)> {
    let (spatial, planes, shape) = planes(x, window)?;
    let (image, places) = (index::product(spatial), index::product(&window.output));
    let v = x.to_f64s()?;
    let mut out = vec![f64::NEG_INFINITY; super::tensor::elements(&[planes, places])?];
    let mut at = vec![0i64; planes * places];
    if x.element().is_int() {
        let low = x.element().int_range().map_or(0, |r| r.0) as f64;
        out.fill(low);
    }
    let reversed: Vec<usize> = spatial.iter().rev().copied().collect();
    let mut place = 0;
    index::each(&window.output, |o| {
        let taps: Vec<usize> = window.taps(spatial, o).iter().filter_map(|t| t.input).collect();
        for p in 0..planes {
            let values = &v[p * image..][..image];
            let mut best: Option<usize> = None;
            for &i in &taps {
                if best.is_none_or(|b| values[i] > values[b]) {
                    best = Some(i);
                }
            }
            if let Some(b) = best {
                out[p * places + place] = values[b];
                let inner = if column_major {
                    let mut coords = index::unravel(b, spatial);
                    coords.reverse();
                    index::ravel(&coords, &reversed)
                } else {
                    b
                };
                at[p * places + place] = (p * image + inner) as i64;
            }
        }
        place += 1;
    });
    Ok((
        Tensor::from_f64s(x.element(), shape.clone(), &out)?,
        Tensor::from_i64s(shape, at)?,
    ))
}

/// How a window is reduced to a mean or norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PoolSum {
    /// The mean of what is inside the input, or with the flag of what is inside its padding too.
    Average {
        /// Whether padding counts.
        include_pad: bool,
    },
    /// The p-norm.
    Norm {
        /// The exponent.
        p: f64,
    },
}

/// The mean or norm of each window.
///
/// # Errors
/// If the window does not fit the shape.
pub fn sum_pool(x: &Tensor, window: &Window, how: PoolSum) -> Result<Tensor> {
    let (spatial, planes, shape) = planes(x, window)?;
    let (image, places) = (index::product(spatial), index::product(&window.output));
    let v = x.to_f64s()?;
    let mut out = vec![0f64; super::tensor::elements(&[planes, places])?];
    let mut place = 0;
    index::each(&window.output, |o| {
        let all = window.taps(spatial, o);
        let taps: Vec<usize> = all.iter().filter_map(|t| t.input).collect();
        for p in 0..planes {
            let values = taps.iter().map(|&i| v[p * image + i]);
            out[p * places + place] = match how {
                PoolSum::Average { include_pad } => {
                    let n = if include_pad {
                        all.iter().filter(|t| t.padded).count()
                    } else {
                        taps.len()
                    };
                    values.sum::<f64>() / n as f64
                }
                PoolSum::Norm { p } => values.map(|a| a.abs().powf(p)).sum::<f64>().powf(1.0 / p),
            };
        }
        place += 1;
    });
    Tensor::from_f64s(x.element(), shape, &out)
}

/// Puts each element of `x` where `places` (row-major in the whole result) says, zero elsewhere.
///
/// # Errors
/// If a place is outside.
pub fn max_unpool(x: &Tensor, places: &[i64], shape: Vec<usize>) -> Result<Tensor> {
    require!(
        places.len() == x.len(),
        "{} places for {} elements",
        places.len(),
        x.len()
    );
    let v = x.to_f64s()?;
    let mut out = vec![0f64; super::tensor::elements(&shape)?];
    for (&p, v) in places.iter().zip(v) {
        let place = usize::try_from(p).ok().and_then(|place| out.get_mut(place));
        let Some(place) = place else {
            refuse!("place {p} to unpool to is outside {shape:?}");
        };
        *place = v;
    }
    Tensor::from_f64s(x.element(), shape, &out)
}

/// The largest element in each cell of each region: `x` `[n, c, h, w]`, `rois` `[r, 5]`
/// (image, x1, y1, x2, y2); the result is `[r, c, ph, pw]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn max_roi_pool(x: &Tensor, rois: &Tensor, (ph, pw): (usize, usize), scale: f64) -> Result<Tensor> {
    let (&[n, c, h, w], &[r, 5]) = (x.shape(), rois.shape()) else {
        refuse!("regions {:?} of images {:?}", rois.shape(), x.shape());
    };
    let (v, boxes) = (x.to_f64s()?, rois.to_f64s()?);
    let mut out = Vec::with_capacity(super::tensor::elements(&[r, c, ph, pw])?);
    for roi in boxes.chunks_exact(5) {
        let image = roi[0] as usize;
        require!(
            roi[0] >= 0.0 && image < n,
            "a region of image {}, there are {n}",
            roi[0]
        );
        let edge = |i: usize| (roi[i] * scale).round();
        let (x1, y1, x2, y2) = (edge(1), edge(2), edge(3), edge(4));
        let (rh, rw) = ((y2 - y1 + 1.0).max(1.0), (x2 - x1 + 1.0).max(1.0));
        let (bh, bw) = (rh / ph as f64, rw / pw as f64);
        let limit = |v: f64, top: usize| v.clamp(0.0, top as f64) as usize;
        for ch in 0..c {
            let plane = &v[(image * c + ch) * h * w..][..h * w];
            for i in 0..ph {
                for j in 0..pw {
                    let (i, j) = (i as f64, j as f64);
                    let rows = limit((i * bh).floor() + y1, h)..limit(((i + 1.0) * bh).ceil() + y1, h);
                    let cols = limit((j * bw).floor() + x1, w)..limit(((j + 1.0) * bw).ceil() + x1, w);
                    let best = rows
                        .flat_map(|y| cols.clone().map(move |x| y * w + x))
                        .map(|at| plane[at])
                        .reduce(f64::max);
                    out.push(best.unwrap_or(0.0));
                }
            }
        }
    }
    Tensor::from_f64s(x.element(), vec![r, c, ph, pw], &out)
}

/// How [`roi_align`] samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoiAlign {
    /// Cells of one region, `(height, width)`.
    pub output: (usize, usize),
    /// Samples along each side of a cell; 0 chooses as many as the cell has pixels.
    pub sampling_ratio: usize,
    /// From region coordinates to pixels.
    pub scale: f64,
    /// Whether coordinates mean pixel centres (shifted by a half).
    pub half_pixel: bool,
    /// Whether a cell takes its largest weighted neighbour instead of the mean.
    pub max: bool,
}

/// Samples between the pixels of each region's cells: `x` `[n, c, h, w]`, `rois` `[r, 4]`, `images` `[r]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn roi_align(x: &Tensor, rois: &Tensor, images: &[i64], p: RoiAlign) -> Result<Tensor> {
    let (&[n, c, h, w], &[r, 4]) = (x.shape(), rois.shape()) else {
        refuse!("regions {:?} of images {:?}", rois.shape(), x.shape());
    };
    require!(
        images.len() == r,
        "{} image numbers for {r} regions",
        images.len()
    );
    let (v, boxes) = (x.to_f64s()?, rois.to_f64s()?);
    let (ph, pw) = p.output;
    let shift = if p.half_pixel { 0.5 } else { 0.0 };
    let mut out = Vec::with_capacity(super::tensor::elements(&[r, c, ph, pw])?);
    require!(
        p.sampling_ratio <= 4096,
        "{} samples along a cell",
        p.sampling_ratio
    );
    for (roi, &image) in boxes.chunks_exact(4).zip(images) {
        let Some(image) = usize::try_from(image).ok().filter(|&i| i < n) else {
            refuse!("a region of image {image}, there are {n}");
        };
        let edge = |i: usize| roi[i] * p.scale - shift;
        let (x1, y1) = (edge(0), edge(1));
        let (mut rw, mut rh) = (edge(2) - x1, edge(3) - y1);
        if !p.half_pixel {
            rw = rw.max(1.0);
            rh = rh.max(1.0);
        }
        let (bh, bw) = (rh / ph as f64, rw / pw as f64);
        let samples = |side: f64| match p.sampling_ratio {
            0 => side.ceil().clamp(0.0, 4096.0) as usize,
            given => given,
        };
        let (gh, gw) = (samples(bh), samples(bw));
        for ch in 0..c {
            let plane = &v[(image * c + ch) * h * w..][..h * w];
            for i in 0..ph {
                for j in 0..pw {
                    let mut values = Vec::with_capacity(gh * gw);
                    for sy in 0..gh {
                        for sx in 0..gw {
                            let y = y1 + (i as f64 + (sy as f64 + 0.5) / gh as f64) * bh;
                            let xx = x1 + (j as f64 + (sx as f64 + 0.5) / gw as f64) * bw;
                            values.extend(align_sample(plane, (h, w), y, xx, p.max));
                        }
                    }
                    let cell = if p.max {
                        values.into_iter().reduce(larger).unwrap_or(0.0)
                    } else {
                        values.iter().sum::<f64>() / (gh * gw).max(1) as f64
                    };
                    out.push(cell);
                }
            }
        }
    }
    Tensor::from_f64s(x.element(), vec![r, c, ph, pw], &out)
}

/// One sample of a region: zero a whole pixel outside, else clamped to the image. With `max`, the largest
/// weighted neighbour instead of their sum.
fn align_sample(plane: &[f64], (h, w): (usize, usize), y: f64, x: f64, max: bool) -> Option<f64> {
    if !(-1.0..=h as f64).contains(&y) || !(-1.0..=w as f64).contains(&x) {
        return Some(0.0);
    }
    if h == 0 || w == 0 {
        return Some(0.0);
    }
    let (y, x) = (y.clamp(0.0, h as f64 - 1.0), x.clamp(0.0, w as f64 - 1.0));
    if !max {
        return Some(bilinear(plane, (h, w), y, x));
    }
    let (y0, x0) = (y.floor() as usize, x.floor() as usize);
    let (y1, x1) = ((y0 + 1).min(h - 1), (x0 + 1).min(w - 1));
    let (ly, lx) = (y - y0 as f64, x - x0 as f64);
    [
        (1.0 - ly) * (1.0 - lx) * plane[y0 * w + x0],
        (1.0 - ly) * lx * plane[y0 * w + x1],
        ly * (1.0 - lx) * plane[y1 * w + x0],
        ly * lx * plane[y1 * w + x1],
    ]
    .into_iter()
    .reduce(larger)
}

/// The larger of two: the first where nothing compares, which a NaN does not.
fn larger(a: f64, b: f64) -> f64 {
    if a < b { b } else { a }
}
