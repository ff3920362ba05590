//! Fourier transforms, window functions and mel weights.
//!
//! Invariant: transforms are the plain sum of their definition, in `f64`.

use std::f64::consts::TAU;

use super::error::{Result, refuse, require};
use super::{Element, Tensor, index};

/// The discrete Fourier transform of one line of complex numbers: `count` of its `n` bins.
fn transform(line: &[[f64; 2]], n: usize, count: usize, inverse: bool) -> Vec<[f64; 2]> {
    let sign = if inverse { 1.0 } else { -1.0 };
    let scale = if inverse { 1.0 / n as f64 } else { 1.0 };
    (0..count)
        .map(|k| {
            let (mut re, mut im) = (0.0, 0.0);
            for (t, [a, b]) in line.iter().take(n).enumerate() {
                // the product is reduced first, so that the angle stays small and exact
                let angle = sign * TAU * (k * t % n) as f64 / n as f64;
                let (s, c) = angle.sin_cos();
                re += a * c - b * s;
                im += a * s + b * c;
            }
            [re * scale, im * scale]
        })
        .collect()
}

/// The discrete Fourier transform along `axis` of `x`, whose last dim holds 1 (real) or 2 (complex) numbers;
/// lines are cut or filled with zeros to `length`. `onesided` keeps the first half of the bins; inverted, it
/// takes half the bins and gives `length` real numbers.
///
/// # Errors
/// If the last dim or the axis does not fit.
pub fn dft(x: &Tensor, axis: usize, length: Option<usize>, inverse: bool, onesided: bool) -> Result<Tensor> {
    let Some((&parts, lead)) = x.shape().split_last() else {
        refuse!("a signal needs a shape");
    };
    require!(
        (1..=2).contains(&parts),
        "the last dim holds 1 or 2 parts, {parts} seen"
    );
    require!(axis < lead.len(), "axis {axis} of shape {:?}", x.shape());
    let (outer, have, inner) = index::around(lead, axis);
    let real_out = inverse && onesided;
    let n = length.unwrap_or(if real_out {
        have.saturating_sub(1) * 2
    } else {
        have
    });
    require!((1..=1 << 20).contains(&n), "a transform of length {n}");
    let count = if onesided && !inverse { n / 2 + 1 } else { n };
    let v = x.to_f64s()?;
    let out_parts = if real_out { 1 } else { 2 };
    let mut out = vec![0f64; super::tensor::elements(&[outer, count, inner, out_parts])?];
    for o in 0..outer {
        for i in 0..inner {
            let mut line: Vec<[f64; 2]> = (0..have)
                .map(|t| {
                    let at = ((o * have + t) * inner + i) * parts;
                    [v[at], if parts == 2 { v[at + 1] } else { 0.0 }]
                })
                .collect();
            if real_out {
                line.resize(n / 2 + 1, [0.0; 2]);
                for k in n / 2 + 1..n {
                    let [a, b] = line[n - k];
                    line.push([a, -b]);
                }
            }
            for (k, bin) in transform(&line, n, count, inverse).into_iter().enumerate() {
                let at = ((o * count + k) * inner + i) * out_parts;
                out[at..at + out_parts].copy_from_slice(&bin[..out_parts]);
            }
        }
    }
    let mut shape = lead.to_vec();
    shape[axis] = count;
    shape.push(out_parts);
    Tensor::from_f64s(x.element(), shape, &out)
}

/// The short-time Fourier transform of `signal` `[b, samples, 1 or 2]`: `[b, frames, bins, 2]`.
///
/// # Errors
/// If the shapes do not fit.
pub fn stft(
    signal: &Tensor,
    step: usize,
    window: Option<&Tensor>,
    length: usize,
    onesided: bool,
) -> Result<Tensor> {
    let (b, samples, parts) = match *signal.shape() {
        [b, samples] => (b, samples, 1),
        [b, samples, parts @ 1..=2] => (b, samples, parts),
        _ => refuse!(
            "a signal [b, samples, parts] wanted, shape {:?} seen",
            signal.shape()
        ),
    };
    require!(
        step > 0 && (1..=samples).contains(&length),
        "frames of {length} every {step} in {samples} samples"
    );
    let weights = match window {
        Some(w) => {
            require!(
                w.len() == length,
                "a window of {} for frames of {length}",
                w.len()
            );
            w.to_f64s()?
        }
        None => vec![1.0; length],
    };
    let frames = (samples - length) / step + 1;
    let bins = if onesided { length / 2 + 1 } else { length };
    let v = signal.to_f64s()?;
    let mut out = Vec::with_capacity(b * frames * bins * 2);
    for entry in 0..b {
        for f in 0..frames {
            let line: Vec<[f64; 2]> = (0..length)
                .map(|t| {
                    let at = (entry * samples + f * step + t) * parts;
                    let im = if parts == 2 { v[at + 1] } else { 0.0 };
                    [v[at] * weights[t], im * weights[t]]
                })
                .collect();
            out.extend(transform(&line, length, bins, false).into_iter().flatten());
        }
    }
    Tensor::from_f64s(signal.element(), vec![b, frames, bins, 2], &out)
}

/// A window that is a sum of cosines: `a0 - a1 cos(2πi/n) + a2 cos(4πi/n)`.
///
/// # Errors
/// If the size is too large.
pub fn window(element: Element, size: usize, periodic: bool, [a0, a1, a2]: [f64; 3]) -> Result<Tensor> {
    super::tensor::elements(&[size])?;
    let n = if periodic { size as f64 } else { size as f64 - 1.0 };
    let v: Vec<f64> = (0..size)
        .map(|i| {
            // of one element that is not periodic the formula makes 0 / 0
            let angle = TAU * i as f64 / n;
            // in this order 0.42, 0.5 and 0.08 sum up to exactly one and zero
            (a2 * (2.0 * angle).cos() - a1 * angle.cos()) + a0
        })
        .collect();
    Tensor::from_f64s(element, vec![size], &v)
}

/// Weights `[dft/2 + 1, bins]` that turn a spectrum into mel bins.
///
/// # Errors
/// If a bin lies outside the spectrum.
pub fn mel_weights(
    element: Element,
    bins: usize,
    dft: usize,
    rate: usize,
    (low, high): (f64, f64),
) -> Result<Tensor> {
    require!(
        rate > 0 && bins > 0 && bins < 1 << 24,
        "{bins} bins at a rate of {rate}"
    );
    let spectrum = dft / 2 + 1;
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bins + 2) as f64;
    let edges: Vec<usize> = (0..bins + 2)
        .map(|i| {
            let hertz = 700.0 * (10f64.powf((mel(low) + i as f64 * step) / 2595.0) - 1.0);
            ((dft as f64 + 1.0) * hertz / rate as f64).floor() as usize
        })
        .collect();
    require!(
        edges.iter().all(|&e| e <= spectrum) && edges[bins] < spectrum,
        "mel bins up to {high} Hz leave a spectrum of {spectrum}"
    );
    let mut out = vec![0f64; super::tensor::elements(&[spectrum, bins])?];
    for b in 0..bins {
        let (low, centre, high) = (edges[b], edges[b + 1], edges[b + 2]);
        if low == centre {
            out[centre * bins + b] = 1.0;
        }
        for j in low..=centre {
            if centre > low {
                out[j * bins + b] = (j - low) as f64 / (centre - low) as f64;
            }
        }
        for j in centre..high {
            out[j * bins + b] = (high - j) as f64 / (high - centre) as f64;
        }
    }
    Tensor::from_f64s(element, vec![spectrum, bins], &out)
}
