//! Normalisations.
//!
//! Invariant: mean and variance are population statistics in `f64` over the whole group.

use super::error::{Result, refuse, require};
use super::{Element, Tensor, index};

/// The result of a group normalisation.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalised {
    /// The normalised tensor.
    pub y: Tensor,
    /// The mean of each group, in group order.
    pub mean: Vec<f64>,
    /// One over the standard deviation of each group.
    pub inverse: Vec<f64>,
}

/// Normalises each group along `axes`: minus the mean if `centre`, over the root of the mean square (or
/// variance) plus `epsilon`; then scaled and shifted by tensors that broadcast to `x`.
///
/// # Errors
/// If the scale or bias does not broadcast.
pub fn normalise(
    x: &Tensor,
    axes: &[usize],
    centre: bool,
    epsilon: f64,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Normalised> {
    let mut v = x.to_f64s()?;
    let (bases, offsets) = index::groups(x.shape(), axes);
    let n = offsets.len() as f64;
    let (mut means, mut inverses) = (Vec::new(), Vec::new());
    for b in bases {
        let at = |o: &usize| b + o;
        let mean = if centre {
            offsets.iter().map(|o| v[at(o)]).sum::<f64>() / n
        } else {
            0.0
        };
        let square = offsets.iter().map(|o| (v[at(o)] - mean).powi(2)).sum::<f64>() / n;
        let inverse = 1.0 / (square + epsilon).sqrt();
        offsets
            .iter()
            .for_each(|o| v[at(o)] = (v[at(o)] - mean) * inverse);
        means.push(mean);
        inverses.push(inverse);
    }
    if let Some(scale) = scale {
        let s = scale.to_f64s()?;
        let at = index::broadcast_index(scale.shape(), x.shape())?;
        v.iter_mut().zip(at).for_each(|(v, i)| *v *= s[i]);
    }
    if let Some(bias) = bias {
        let s = bias.to_f64s()?;
        let at = index::broadcast_index(bias.shape(), x.shape())?;
        v.iter_mut().zip(at).for_each(|(v, i)| *v += s[i]);
    }
    let element = scale.map_or(x.element(), |s| {
        if x.element() == Element::F64 {
            x.element()
        } else {
            s.element()
        }
    });
    Ok(Normalised {
        y: Tensor::from_f64s(element, x.shape().to_vec(), &v)?,
        mean: means,
        inverse: inverses,
    })
}

/// A vector of `[c]` shaped so that it broadcasts to `[n, c, …]` of `rank`.
///
/// # Errors
/// If it has another number of elements.
pub fn per_channel(v: &Tensor, channels: usize, rank: usize) -> Result<Tensor> {
    require!(v.len() == channels, "{} values for {channels} channels", v.len());
    let mut shape = vec![1; rank];
    shape[usize::from(rank > 1)] = channels;
    v.reshaped(shape)
}

/// Batch normalisation of `[n, c, …]` with given statistics of `[c]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn batch(
    x: &Tensor,
    scale: &Tensor,
    bias: &Tensor,
    (mean, variance): (&[f64], &[f64]),
    epsilon: f64,
) -> Result<Tensor> {
    require!(x.rank() >= 1, "a batch needs a shape");
    let channels = if x.rank() > 1 { x.shape()[1] } else { 1 };
    let inner = index::product(&x.shape()[2.min(x.rank())..]);
    for len in [scale.len(), bias.len(), mean.len(), variance.len()] {
        require!(len == channels, "{len} values for {channels} channels");
    }
    let (s, b) = (scale.to_f64s()?, bias.to_f64s()?);
    let mut v = x.to_f64s()?;
    for (i, v) in v.iter_mut().enumerate() {
        let c = i / inner.max(1) % channels;
        *v = (*v - mean[c]) / (variance[c] + epsilon).sqrt() * s[c] + b[c];
    }
    Tensor::from_f64s(x.element(), x.shape().to_vec(), &v)
}

/// The mean and variance of each channel of `[n, c, …]`.
///
/// # Errors
/// If there is no channel dim.
pub fn channel_statistics(x: &Tensor) -> Result<(Vec<f64>, Vec<f64>)> {
    require!(x.rank() >= 2, "[n, c, …] wanted, shape {:?} seen", x.shape());
    let axes: Vec<usize> = (0..x.rank()).filter(|&a| a != 1).collect();
    let (bases, offsets) = index::groups(x.shape(), &axes);
    let v = x.to_f64s()?;
    let n = offsets.len() as f64;
    Ok(bases
        .iter()
        .map(|&b| {
            let mean = offsets.iter().map(|o| v[b + o]).sum::<f64>() / n;
            let variance = offsets.iter().map(|o| (v[b + o] - mean).powi(2)).sum::<f64>() / n;
            (mean, variance)
        })
        .unzip())
}

/// Local response normalisation over `size` neighbouring channels of `[n, c, …]`.
///
/// # Errors
/// If there is no channel dim.
pub fn lrn(x: &Tensor, size: usize, alpha: f64, beta: f64, bias: f64) -> Result<Tensor> {
    require!(
        x.rank() >= 2 && size > 0,
        "[n, c, …] wanted, shape {:?} seen",
        x.shape()
    );
    let (n, c, inner) = index::around(x.shape(), 1);
    let v = x.to_f64s()?;
    let mut out = v.clone();
    let (before, after) = ((size - 1) / 2, size - 1 - (size - 1) / 2);
    for b in 0..n {
        for ch in 0..c {
            for i in 0..inner {
                let at = |ch: usize| (b * c + ch) * inner + i;
                let sum: f64 = (ch.saturating_sub(before)..=(ch + after).min(c - 1))
                    .map(|j| v[at(j)].powi(2))
                    .sum();
                out[at(ch)] = v[at(ch)] / (bias + alpha / size as f64 * sum).powf(beta);
            }
        }
    }
    Tensor::from_f64s(x.element(), x.shape().to_vec(), &out)
}

/// Each line along `axis` divided by its p-norm (p is 1 or 2); a line of zeros stays.
///
/// # Errors
/// If `p` is something else.
pub fn lp(x: &Tensor, axis: usize, p: i64) -> Result<Tensor> {
    let mut v = x.to_f64s()?;
    let (bases, offsets) = index::groups(x.shape(), &[axis]);
    for b in bases {
        let values = offsets.iter().map(|o| v[b + o]);
        let norm = match p {
            1 => values.map(f64::abs).sum::<f64>(),
            2 => values.map(|a| a * a).sum::<f64>().sqrt(),
            _ => refuse!("a norm of p = {p}"),
        };
        if norm != 0.0 {
            offsets.iter().for_each(|o| v[b + o] /= norm);
        }
    }
    Tensor::from_f64s(x.element(), x.shape().to_vec(), &v)
}
