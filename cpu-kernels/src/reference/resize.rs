//! Resampling: Resize in all its modes, grid sampling, affine grids.
//!
//! Invariant: resampling is separable; along each axis an output element is a weighted sum of inputs whose
//! weights sum to 1, or the extrapolation value.

use super::error::{Result, refuse, require};
use super::{Tensor, index};

/// How an output coordinate becomes an input coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Transform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfHalfPixelForNn,
    TfCropAndResize,
}

/// How [`Interpolation::Nearest`] rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// How values between inputs are interpolated.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Interpolation {
    Nearest(Nearest),
    Linear,
    Cubic { a: f64 },
}

impl Interpolation {
    /// How far the kernel reaches, and its weight at a distance.
    fn weight(self, distance: f64) -> f64 {
        let d = distance.abs();
        match self {
            Self::Nearest(_) => f64::from(u8::from(d == 0.0)),
            Self::Linear => (1.0 - d).max(0.0),
            Self::Cubic { a } if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
            Self::Cubic { a } if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
            Self::Cubic { .. } => 0.0,
        }
    }

    /// Radius of the filter, in pixels.
    #[must_use]
    pub fn reach(self) -> f64 {
        match self {
            Self::Nearest(_) => 0.0,
            Self::Linear => 1.0,
            Self::Cubic { .. } => 2.0,
        }
    }
}

/// The resampling of one axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The output size.
    pub output: usize,
    /// Ratio of output to input size, as the model states it.
    pub scale: f64,
    /// The region of interest, as fractions.
    pub roi: (f64, f64),
}

/// The parameters that all axes share.
#[derive(Clone, Copy, Debug)]
pub struct Resize {
    /// The interpolation.
    pub interpolation: Interpolation,
    /// The coordinate transformation.
    pub transform: Transform,
    /// Whether the filter widens when the image shrinks, so that every input counts.
    pub antialias: bool,
    /// Whether inputs outside the image have weight zero; if not, the edge is repeated.
    pub exclude_outside: bool,
    /// The value outside the region of interest.
    pub extrapolation: f64,
}

fn origin(o: usize, n: usize, axis: Axis, transform: Transform) -> f64 {
    let (o_f, input, resized) = (o as f64, n as f64, axis.scale * n as f64);
    let half_pixel = (o_f + 0.5) / axis.scale - 0.5;
    match transform {
        Transform::HalfPixel => half_pixel,
        // `input / 2 * (1 - output / resized) + half_pixel`, but the share is no difference of rounded quotients: what lies on a
        // pixel stays there
        Transform::HalfPixelSymmetric => {
            ((resized - axis.output as f64) / 2.0 + o_f + 0.5) / axis.scale - 0.5
        }
        Transform::PytorchHalfPixel if axis.output > 1 => half_pixel,
        Transform::PytorchHalfPixel => 0.0,
        Transform::TfHalfPixelForNn => half_pixel + 0.5,
        Transform::AlignCorners if resized == 1.0 => 0.0,
        Transform::AlignCorners => o_f * (input - 1.0) / (resized - 1.0),
        Transform::Asymmetric => o_f / axis.scale,
        Transform::TfCropAndResize => {
            // regions are 32-bit floats, and so are their lengths: what lies in the middle shall not move
            let (start, end) = (axis.roi.0 as f32, axis.roi.1 as f32);
            let (first, span) = (start * (n as f32 - 1.0), f64::from(end - start));
            if axis.output > 1 {
                f64::from(first) + o_f * span * (input - 1.0) / (axis.output as f64 - 1.0)
            } else {
                0.5 * f64::from(start + end) * (input - 1.0)
            }
        }
    }
}

/// The weighted inputs of output `o`; none if it is extrapolated.
#[must_use]
pub fn taps(o: usize, n: usize, axis: Axis, p: &Resize) -> Option<Vec<(usize, f64)>> {
    let x = origin(o, n, axis, p.transform);
    let last = n as f64 - 1.0;
    if p.transform == Transform::TfCropAndResize && !(0.0..=last).contains(&x) {
        return None;
    }
    if let Interpolation::Nearest(how) = p.interpolation {
        let whole = match how {
            Nearest::Floor => x.floor(),
            Nearest::Ceil => x.ceil(),
            Nearest::RoundPreferFloor => (x - 0.5).ceil(),
            Nearest::RoundPreferCeil => (x + 0.5).floor(),
        };
        return Some(vec![(whole.clamp(0.0, last) as usize, 1.0)]);
    }
    let squeeze = if p.antialias { axis.scale.min(1.0) } else { 1.0 };
    let reach = p.interpolation.reach() / squeeze;
    let (from, to) = ((x - reach).floor(), (x + reach).ceil());
    let mut found = Vec::new();
    let mut i = from;
    while i <= to {
        let weight = p.interpolation.weight((i - x) * squeeze);
        let outside = !(0.0..=last).contains(&i);
        if weight != 0.0 && !(outside && p.exclude_outside) {
            found.push((i.clamp(0.0, last) as usize, weight));
        }
        i += 1.0;
    }
    let sum: f64 = found.iter().map(|t| t.1).sum();
    if p.antialias || p.exclude_outside {
        found.iter_mut().for_each(|t| t.1 /= sum);
    }
    Some(found)
}

/// `x` resampled along every axis (an axis with output = input and scale 1 stays as it is).
///
/// # Errors
/// If there is not one entry per axis, an input axis is empty, or the result is too large.
pub fn resize(x: &Tensor, axes: &[Axis], p: &Resize) -> Result<Tensor> {
    require!(
        axes.len() == x.rank(),
        "{} axes for shape {:?}",
        axes.len(),
        x.shape()
    );
    let mut out = x.clone();
    for (d, &axis) in axes.iter().enumerate() {
        let (outer, n, inner) = index::around(out.shape(), d);
        if axis.output == n && axis.scale == 1.0 && p.transform != Transform::TfCropAndResize {
            continue;
        }
        require!(n > 0 || axis.output == 0, "an empty axis cannot be resampled");
        let positive = axis.scale > 0.0;
        require!(positive, "axis {d} is scaled by {}", axis.scale);
        let mut shape = out.shape().to_vec();
        shape[d] = axis.output;
        super::tensor::elements(&shape)?;
        let lines: Vec<_> = (0..axis.output).map(|o| taps(o, n, axis, p)).collect();
        if matches!(p.interpolation, Interpolation::Nearest(_)) && lines.iter().all(Option::is_some) {
            let mut from = Vec::new();
            for o in 0..outer {
                for line in lines.iter().flatten() {
                    from.extend((0..inner).map(|i| (o * n + line[0].0) * inner + i));
                }
            }
            out = out.select(shape, &from)?;
            continue;
        }
        let v = out.to_f64s()?;
        let mut values = Vec::new();
        for o in 0..outer {
            for line in &lines {
                for i in 0..inner {
                    values.push(match line {
                        None => p.extrapolation,
                        Some(taps) => taps.iter().map(|&(t, w)| w * v[(o * n + t) * inner + i]).sum(),
                    });
                }
            }
        }
        // between axes nothing is rounded; the element type returns at the end
        out = Tensor::from_f64s(super::Element::F64, shape, &values)?;
    }
    if out.element() == x.element() {
        return Ok(out);
    }
    let mut values = out.to_f64s()?;
    if let Some((low, high)) = x.element().int_range() {
        values
            .iter_mut()
            .for_each(|v| *v = v.round_ties_even().clamp(low as f64, high as f64));
    }
    Tensor::from_f64s(x.element(), out.shape().to_vec(), &values)
}

/// The values outside the image that [`grid_sample`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Outside {
    Zeros,
    Border,
    Reflection,
}

fn place(i: f64, n: usize, outside: Outside, align_corners: bool) -> Option<usize> {
    let last = n as f64 - 1.0;
    if (0.0..=last).contains(&i) {
        return Some(i as usize);
    }
    match outside {
        Outside::Zeros => None,
        Outside::Border => Some(i.clamp(0.0, last) as usize),
        Outside::Reflection => {
            let period = if align_corners { 2.0 * last } else { 2.0 * n as f64 };
            if period == 0.0 {
                return Some(0);
            }
            let j = i.rem_euclid(period);
            let j = match (j > last, align_corners) {
                (false, _) => j,
                (true, true) => period - j,
                (true, false) => period - 1.0 - j,
            };
            Some(j.clamp(0.0, last) as usize)
        }
    }
}

/// Samples `x` `[n, c, spatial…]` at `grid` `[n, output…, d]`, whose last dim holds coordinates from -1 to 1,
/// the last spatial dim first. The result is `[n, c, output…]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn grid_sample(
    x: &Tensor,
    grid: &Tensor,
    interpolation: Interpolation,
    outside: Outside,
    align_corners: bool,
) -> Result<Tensor> {
    require!(
        x.rank() >= 3
            && grid.rank() == x.rank()
            && grid.shape()[0] == x.shape()[0]
            && grid.shape()[grid.rank() - 1] == x.rank() - 2,
        "a grid {:?} on shape {:?}",
        grid.shape(),
        x.shape()
    );
    let (n, c, spatial) = (x.shape()[0], x.shape()[1], &x.shape()[2..]);
    let output = &grid.shape()[1..grid.rank() - 1];
    let (dims, image, places) = (spatial.len(), index::product(spatial), index::product(output));
    require!(
        image > 0 || places == 0 || outside == Outside::Zeros,
        "an image of shape {:?} has no border to read",
        x.shape()
    );
    let (v, g) = (x.to_f64s()?, grid.to_f64s()?);
    let mut out = vec![0f64; super::tensor::elements(&[n, c, places])?];
    for b in 0..n {
        for at in 0..places {
            // (element of the image, weight), the product over the dims
            let mut seen = vec![(Some(0usize), 1.0f64)];
            for (d, &size) in spatial.iter().enumerate() {
                let unit = g[(b * places + at) * dims + dims - 1 - d];
                let pos = if align_corners {
                    (unit + 1.0) / 2.0 * (size as f64 - 1.0)
                } else {
                    ((unit + 1.0) * size as f64 - 1.0) / 2.0
                };
                let mut line: Vec<(f64, f64)> = Vec::new();
                if let Interpolation::Nearest(_) = interpolation {
                    line.push((pos.round_ties_even(), 1.0));
                } else {
                    let reach = interpolation.reach() as i32;
                    let base = pos.floor();
                    for k in 1 - reach..=reach {
                        let i = base + f64::from(k);
                        line.push((i, interpolation.weight(pos - i)));
                    }
                }
                seen = seen
                    .iter()
                    .flat_map(|&(flat, w)| {
                        line.iter().map(move |&(i, wi)| {
                            let i = place(i, size, outside, align_corners);
                            (flat.zip(i).map(|(f, i)| f * size + i), w * wi)
                        })
                    })
                    .collect();
            }
            for ch in 0..c {
                let plane = &v[(b * c + ch) * image..][..image];
                out[(b * c + ch) * places + at] =
                    seen.iter().filter_map(|&(i, w)| i.map(|i| w * plane[i])).sum();
            }
        }
    }
    let mut shape = vec![n, c];
    shape.extend(output);
    Tensor::from_f64s(x.element(), shape, &out)
}

/// The sampling grid of affine maps `theta` `[n, d, d+1]` for `size` `[n, c, spatial…]`: `[n, spatial…, d]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn affine_grid(theta: &Tensor, size: &[usize], align_corners: bool) -> Result<Tensor> {
    require!(size.len() >= 3, "[n, c, spatial…] wanted, size {size:?} seen");
    let (n, spatial) = (size[0], &size[2..]);
    let d = spatial.len();
    if theta.shape() != [n, d, d + 1] {
        refuse!("maps {:?} for size {size:?}", theta.shape());
    }
    let t = theta.to_f64s()?;
    let mut out = Vec::with_capacity(super::tensor::elements(&[n, index::product(spatial), d])?);
    for b in 0..n {
        index::each(spatial, |c| {
            // coordinates, the last spatial dim first
            let unit: Vec<f64> = c
                .iter()
                .zip(spatial)
                .rev()
                .map(|(&i, &s)| {
                    if !align_corners {
                        (2.0 * i as f64 + 1.0) / s as f64 - 1.0
                    } else if s == 1 {
                        0.0
                    } else {
                        2.0 * i as f64 / (s as f64 - 1.0) - 1.0
                    }
                })
                .collect();
            for row in 0..d {
                let line = &t[(b * d + row) * (d + 1)..][..d + 1];
                out.push(line.iter().zip(&unit).map(|(a, u)| a * u).sum::<f64>() + line[d]);
            }
        });
    }
    let mut shape = vec![n];
    shape.extend(spatial);
    shape.push(d);
    Tensor::from_f64s(theta.element(), shape, &out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Element;

    #[test]
    fn empty_image_has_no_border() {
        let x = Tensor::from_f64s(Element::F32, vec![1, 1, 0, 2], &[]).unwrap();
        let grid = Tensor::from_f64s(Element::F32, vec![1, 1, 1, 2], &[0.0, 3.0]).unwrap();
        for align in [false, true] {
            let sample = |outside| grid_sample(&x, &grid, Interpolation::Linear, outside, align);
            let zeros = sample(Outside::Zeros).unwrap();
            assert_eq!(
                (zeros.shape(), zeros.to_f64s().unwrap()),
                (&[1, 1, 1, 1][..], vec![0.0])
            );
            for outside in [Outside::Border, Outside::Reflection] {
                let words = sample(outside).unwrap_err().to_string();
                assert!(words.contains("no border"), "{words}");
            }
        }
    }
}
