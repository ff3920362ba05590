//! Convolutions over any number of spatial dims: forward, transposed, deformable; and columns to image.
//!
//! Invariants: layouts are ONNX's, `[n, c, spatial…]` and `[m, c/group, kernel…]`; one output element is
//! one sum, rounded once. Padding adds zeros, which take part: by a weight that is not finite they make NaN.

use super::error::{Result, refuse, require};
use super::matmul::Number;
use super::window::Window;
use super::{Tensor, index};

/// A convolution of plain numbers: `x` `[n, c, spatial…]`, `w` `[m, c/group, kernel…]`; the result is
/// `[n, m, output…]`.
///
/// # Errors
/// If shapes, groups and window do not fit.
pub fn convolve<T: Number>(
    x: &[T],
    x_shape: &[usize],
    w: &[T],
    w_shape: &[usize],
    window: &Window,
    group: usize,
) -> Result<Vec<T>> {
    require!(
        x_shape.len() >= 3 && w_shape.len() == x_shape.len(),
        "convolution of shape {x_shape:?} with weights {w_shape:?}"
    );
    let (n, c, spatial) = (x_shape[0], x_shape[1], &x_shape[2..]);
    let (m, per_group) = (w_shape[0], w_shape[1]);
    window.check(spatial)?;
    require!(
        group > 0 && c == per_group * group && m % group == 0 && w_shape[2..] == window.kernel,
        "convolution of {c} channels with weights {w_shape:?} in {group} groups"
    );
    let (image, taps) = (index::product(spatial), index::product(&window.kernel));
    let places = index::product(&window.output);
    let mut out = vec![T::ZERO; super::tensor::elements(&[n, m, places])?];
    let mut place = 0;
    index::each(&window.output, |o| {
        let seen = window.taps(spatial, o);
        for b in 0..n {
            for f in 0..m {
                let first = f / (m / group) * per_group;
                let mut sum = T::ZERO;
                for ch in 0..per_group {
                    let xs = &x[(b * c + first + ch) * image..][..image];
                    let ws = &w[(f * per_group + ch) * taps..][..taps];
                    for tap in &seen {
                        let x = tap.input.map_or(T::ZERO, |i| xs[i]);
                        sum = sum.add_product(x, ws[tap.kernel]);
                    }
                }
                out[(b * m + f) * places + place] = sum;
            }
        }
        place += 1;
    });
    Ok(out)
}

fn add_bias(out: &mut [f64], bias: Option<&Tensor>, channels: usize, places: usize) -> Result<()> {
    if let Some(bias) = bias {
        require!(
            bias.len() == channels,
            "a bias of {} for {channels} channels",
            bias.len()
        );
        let bias = bias.to_f64s()?;
        for (i, v) in out.iter_mut().enumerate() {
            *v += bias[i / places % channels];
        }
    }
    Ok(())
}

/// The convolution of a float tensor.
///
/// # Errors
/// If shapes, groups and window do not fit.
pub fn conv(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, window: &Window, group: usize) -> Result<Tensor> {
    let mut out = convolve(&x.to_f64s()?, x.shape(), &w.to_f64s()?, w.shape(), window, group)?;
    let mut shape = vec![x.shape()[0], w.shape()[0]];
    shape.extend(&window.output);
    add_bias(&mut out, bias, w.shape()[0], index::product(&window.output))?;
    Tensor::from_f64s(x.element(), shape, &out)
}

/// The transposed convolution: `x` `[n, c, spatial…]`, `w` `[c, m/group, kernel…]`; `window.output` holds
/// the sizes of the (larger) result and `window.pads` what is cut from its border.
///
/// # Errors
/// If shapes, groups and window do not fit.
pub fn conv_transpose(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    window: &Window,
    group: usize,
) -> Result<Tensor> {
    require!(
        x.rank() >= 3 && w.rank() == x.rank(),
        "convolution of shape {:?} with weights {:?}",
        x.shape(),
        w.shape()
    );
    let (n, c, spatial) = (x.shape()[0], x.shape()[1], &x.shape()[2..]);
    window.check(spatial)?;
    let per_group = w.shape()[1];
    require!(
        group > 0 && c % group == 0 && w.shape()[0] == c && w.shape()[2..] == window.kernel,
        "convolution of {c} channels with weights {:?} in {group} groups",
        w.shape()
    );
    let m = per_group * group;
    let (image, taps) = (index::product(spatial), index::product(&window.kernel));
    let places = index::product(&window.output);
    let (xs, ws) = (x.to_f64s()?, w.to_f64s()?);
    let mut out = vec![0f64; super::tensor::elements(&[n, m, places])?];
    let mut at = 0;
    index::each(spatial, |i| {
        let mut k_flat = 0;
        index::each(&window.kernel, |k| {
            let (mut place, mut inside) = (0, true);
            for d in 0..spatial.len() {
                let p = window.position(d, i[d], k[d]);
                inside &= (0..window.output[d] as i64).contains(&p);
                place = place * window.output[d] + usize::try_from(p).unwrap_or(0);
            }
            if inside {
                for b in 0..n {
                    for ch in 0..c {
                        let g = ch / (c / group);
                        let v = xs[(b * c + ch) * image + at];
                        for f in 0..per_group {
                            out[(b * m + g * per_group + f) * places + place] +=
                                v * ws[(ch * per_group + f) * taps + k_flat];
                        }
                    }
                }
            }
            k_flat += 1;
        });
        at += 1;
    });
    add_bias(&mut out, bias, m, places)?;
    let mut shape = vec![n, m];
    shape.extend(&window.output);
    Tensor::from_f64s(x.element(), shape, &out)
}

/// The value of an image `[h, w]` between its pixels, zero outside.
#[must_use]
pub fn bilinear(image: &[f64], (h, w): (usize, usize), y: f64, x: f64) -> f64 {
    let (y0, x0) = (y.floor(), x.floor());
    let mut sum = 0.0;
    for (yy, wy) in [(y0, 1.0 - (y - y0)), (y0 + 1.0, y - y0)] {
        for (xx, wx) in [(x0, 1.0 - (x - x0)), (x0 + 1.0, x - x0)] {
            if (0.0..h as f64).contains(&yy) && (0.0..w as f64).contains(&xx) {
                sum += wy * wx * image[yy as usize * w + xx as usize];
            }
        }
    }
    sum
}

/// The deformable convolution of images: `x` `[n, c, h, w]`, `w` `[m, c/group, kh, kw]`,
/// `offset` `[n, offset_group·kh·kw·2, oh, ow]`, `mask` `[n, offset_group·kh·kw, oh, ow]`.
///
/// # Errors
/// If shapes, groups and window do not fit, or there are not two spatial dims.
pub fn deform_conv(
    x: &Tensor,
    w: &Tensor,
    offset: &Tensor,
    bias: Option<&Tensor>,
    mask: Option<&Tensor>,
    window: &Window,
    (group, offset_group): (usize, usize),
) -> Result<Tensor> {
    let (&[n, c, h, width], &[m, per_group, kh, kw]) = (x.shape(), w.shape()) else {
        refuse!(
            "a deformable convolution needs images, shape {:?} seen",
            x.shape()
        );
    };
    window.check(&[h, width])?;
    let (oh, ow) = (window.output[0], window.output[1]);
    let taps = kh * kw;
    require!(
        group > 0
            && offset_group > 0
            && c == per_group * group
            && m % group == 0
            && c % offset_group == 0
            && window.kernel == [kh, kw]
            && offset.shape() == [n, offset_group * taps * 2, oh, ow]
            && mask.is_none_or(|t| t.shape() == [n, offset_group * taps, oh, ow]),
        "deformable convolution of {:?} with weights {:?} and offsets {:?}",
        x.shape(),
        w.shape(),
        offset.shape()
    );
    let (xs, ws, offsets) = (x.to_f64s()?, w.to_f64s()?, offset.to_f64s()?);
    let masks = mask.map(Tensor::to_f64s).transpose()?;
    let mut out = vec![0f64; super::tensor::elements(&[n, m, oh, ow])?];
    for b in 0..n {
        for y in 0..oh {
            for xo in 0..ow {
                // the sampled and masked value of each channel and tap, shared by all filters
                let mut seen = vec![0f64; c * taps];
                for ch in 0..c {
                    let og = ch / (c / offset_group);
                    for k in 0..taps {
                        let at = |plane: usize, planes: usize| ((b * planes + plane) * oh + y) * ow + xo;
                        let planes = offset_group * taps * 2;
                        let dy = offsets[at((og * taps + k) * 2, planes)];
                        let dx = offsets[at((og * taps + k) * 2 + 1, planes)];
                        let py = window.position(0, y, k / kw) as f64 + dy;
                        let px = window.position(1, xo, k % kw) as f64 + dx;
                        let image = &xs[(b * c + ch) * h * width..][..h * width];
                        let weight = masks
                            .as_ref()
                            .map_or(1.0, |v| v[at(og * taps + k, offset_group * taps)]);
                        seen[ch * taps + k] = weight * bilinear(image, (h, width), py, px);
                    }
                }
                for f in 0..m {
                    let first = f / (m / group) * per_group * taps;
                    let filter = &ws[f * per_group * taps..][..per_group * taps];
                    out[((b * m + f) * oh + y) * ow + xo] =
                        filter.iter().zip(&seen[first..]).map(|(a, b)| a * b).sum();
                }
            }
        }
    }
    add_bias(&mut out, bias, m, oh * ow)?;
    Tensor::from_f64s(x.element(), vec![n, m, oh, ow], &out)
}

/// Columns `[n, c·taps, windows]` added back into images `[n, c, image…]`: each window's taps return to
/// where they came from. `window.output` holds the number of windows along each dim.
///
/// # Errors
/// If the shapes do not fit.
pub fn col2im(columns: &Tensor, image: &[usize], window: &Window) -> Result<Tensor> {
    window.check(image)?;
    let taps = index::product(&window.kernel);
    let places = index::product(&window.output);
    let &[n, rows, l] = columns.shape() else {
        refuse!(
            "columns [n, c·taps, windows] wanted, shape {:?} seen",
            columns.shape()
        );
    };
    require!(
        taps > 0 && rows % taps == 0 && l == places,
        "columns {:?} for {taps} taps and {places} windows",
        columns.shape()
    );
    let (c, pixels) = (rows / taps, index::product(image));
    let v = columns.to_f64s()?;
    let mut out = vec![0f64; super::tensor::elements(&[n, c, pixels])?];
    let mut place = 0;
    index::each(&window.output, |o| {
        for tap in window.taps(image, o) {
            if let Some(i) = tap.input {
                for plane in 0..n * c {
                    out[plane * pixels + i] += v[(plane * taps + tap.kernel) * l + place];
                }
            }
        }
        place += 1;
    });
    let mut shape = vec![n, c];
    shape.extend(image);
    Tensor::from_f64s(columns.element(), shape, &out)
}

/// The causal depthwise convolution with a carried state: `x` `[n, c, t]`, `w` `[c, 1, k]`,
/// `past` `[n, c, k-1]`; the result (before any activation) and the new state.
///
/// # Errors
/// If the shapes do not fit.
pub fn causal_conv(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    past: Option<&Tensor>,
    activation: impl Fn(f64) -> f64,
) -> Result<(Tensor, Tensor)> {
    let (&[n, c, t], &[wc, 1, k]) = (x.shape(), w.shape()) else {
        refuse!(
            "causal convolution of {:?} with weights {:?}",
            x.shape(),
            w.shape()
        );
    };
    require!(
        wc == c && k > 0,
        "causal convolution of {c} channels with weights {:?}",
        w.shape()
    );
    require!(
        past.is_none_or(|p| p.shape() == [n, c, k - 1]),
        "the past state is not [{n}, {c}, {}]",
        k - 1
    );
    let (xs, ws) = (x.to_f64s()?, w.to_f64s()?);
    let past = match past {
        Some(p) => p.to_f64s()?,
        None => vec![0.0; n * c * (k - 1)],
    };
    let mut out = vec![0f64; n * c * t];
    let mut state = Vec::with_capacity(n * c * (k - 1));
    for plane in 0..n * c {
        let mut line = past[plane * (k - 1)..][..k - 1].to_vec();
        line.extend(&xs[plane * t..][..t]);
        for i in 0..t {
            out[plane * t + i] = (0..k).map(|j| line[i + j] * ws[plane % c * k + j]).sum();
        }
        state.extend(&line[t..]);
    }
    add_bias(&mut out, bias, c, t)?;
    out.iter_mut().for_each(|v| *v = activation(*v));
    Ok((
        Tensor::from_f64s(x.element(), x.shape().to_vec(), &out)?,
        Tensor::from_f64s(x.element(), vec![n, c, k - 1], &state)?,
    ))
}
