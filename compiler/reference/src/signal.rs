//! Fourier transforms, window functions and mel weights.
//!
//! Invariant: sizes come from scalar inputs and are checked before anything is made.

use polychip_cpu_kernels::reference::{Result, Tensor, index, signal as kernel};
use polychip_ops::Op;
use polychip_ops::operator::{Dft, MelWeights, SignalWindow, Stft};

use crate::call::{Call, Outputs, bad, one, sizes};
use crate::literal::element;
use crate::row::{FLOATS, INDEX, Row};

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::DFT => Row {
            takes: &[FLOATS, INDEX, INDEX],
            run: dft,
        },
        Op::STFT => Row {
            takes: &[FLOATS, INDEX, FLOATS, INDEX],
            run: stft,
        },
        Op::HannWindow | Op::HammingWindow | Op::BlackmanWindow => Row {
            takes: &[INDEX],
            run: window,
        },
        Op::MelWeightMatrix => Row {
            takes: &[INDEX, INDEX, INDEX, FLOATS],
            run: mel,
        },
        _ => return None,
    })
}

fn size(c: &Call<'_>, i: usize) -> Result<usize> {
    Ok(sizes(&[c.scalar(i)?])?[0])
}

fn dft(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = match c.optional(2) {
        Some(_) => c.scalar(2)?,
        None => -2,
    };
    let axis = index::axis(axis, x.rank())?;
    let length = match c.optional(1) {
        Some(_) => Some(size(c, 1)?),
        None => None,
    };
    let node: Dft = c.typed()?;
    one(kernel::dft(x, axis, length, node.inverse, node.onesided))
}

fn stft(c: &Call<'_>) -> Outputs {
    let signal = c.input(0)?;
    let step = size(c, 1)?;
    let length = match (c.optional(3), c.optional(2)) {
        (Some(_), _) => size(c, 3)?,
        (None, Some(w)) => w.len(),
        (None, None) => return bad("a window or a frame length is wanted"),
    };
    one(kernel::stft(
        signal,
        step,
        c.optional(2),
        length,
        c.typed::<Stft>()?.onesided,
    ))
}

fn window(c: &Call<'_>) -> Outputs {
    let coefficients = match c.op {
        Op::HannWindow => [0.5, 0.5, 0.0],
        Op::HammingWindow => [25.0 / 46.0, 21.0 / 46.0, 0.0],
        _ => [0.42, 0.5, 0.08],
    };
    let node: SignalWindow = c.typed()?;
    one(kernel::window(
        element(node.output),
        size(c, 0)?,
        node.periodic,
        coefficients,
    ))
}

fn mel(c: &Call<'_>) -> Outputs {
    let hertz = |i: usize| -> Result<f64> {
        match c.input(i)?.to_f64s()?.as_slice() {
            [v] => Ok(*v),
            _ => bad(format!("input {i} is not a scalar")),
        }
    };
    let to = element(c.typed::<MelWeights>()?.output);
    let weights: Result<Tensor> =
        kernel::mel_weights(to, size(c, 0)?, size(c, 1)?, size(c, 2)?, (hertz(3)?, hertz(4)?));
    one(weights)
}
