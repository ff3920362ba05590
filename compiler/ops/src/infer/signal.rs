//! Shapes of spectra: signals with a last axis of 1 (real) or 2 (real and imaginary part).
//!
//! Invariant: a one-sided spectrum of `n` values has `n / 2 + 1` bins.
//! Not here: windows (`generate`).

use crate::infer::call::{Call, Out, Result, bad_input, bail, unknown};
use crate::{Attr, Dim, Op};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    if call.op == Op::STFT {
        stft(call)
    } else {
        dft(call)
    }
}

fn bins(length: &Dim) -> Dim {
    length
        .known()
        .map_or(Dim::Unknown, |length| Dim::Known(length / 2 + 1))
}

/// A positive length that is the only value of an input.
fn length(call: &Call<'_>, index: usize, what: &str) -> Result<Dim> {
    match call.scalar(index)? {
        Some(value) if value < 1 => bail!(call, Value, "{what} is {value}, less than 1"),
        Some(value) => call.size(&crate::Element::Int(value), what),
        None => Ok(Dim::Unknown),
    }
}

fn dft(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 2)?;
    let (inverse, onesided) = (call.flag(Attr::Inverse), call.flag(Attr::Onesided));
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let last = dims.len() - 1;
    let parts = match &dims[last] {
        Dim::Known(parts @ 1..=2) => Some(*parts),
        Dim::Known(_) => bad_input!(call, 0, "its last axis is neither 1 nor 2"),
        _ => None,
    };
    match (onesided, inverse, parts) {
        (true, false, Some(2)) => bad_input!(call, 0, "complex, onesided takes a real signal"),
        (true, true, Some(1)) => bad_input!(call, 0, "real, the inverse takes a complex signal"),
        _ => {}
    }
    let stated = if call.has(1) {
        Some(length(call, 1, "dft_length")?)
    } else {
        None
    };
    let mut shape = dims.to_vec();
    shape[last] = Dim::Known(if onesided && inverse { 1 } else { 2 });
    let axis = if call.has(2) { call.scalar(2)? } else { Some(-2) };
    let Some(axis) = axis else {
        let mut shape = unknown(dims.len());
        shape[last] = Dim::Known(if onesided && inverse { 1 } else { 2 });
        return Ok(vec![Out::dims(shape)]);
    };
    let axis = call.axis(axis, dims.len())?;
    if axis == last {
        bail!(call, Value, "axis {axis} is that of real and imaginary parts");
    }
    shape[axis] = match (onesided, inverse) {
        (false, _) => stated.unwrap_or_else(|| dims[axis].clone()),
        (true, false) => bins(&stated.unwrap_or_else(|| dims[axis].clone())),
        (true, true) => match (stated, &dims[axis]) {
            (Some(stated), _) => stated,
            (None, Dim::Known(0)) => bad_input!(call, 0, "empty on axis {axis}"),
            (None, Dim::Known(bins)) => Dim::Known((bins - 1).checked_mul(2).ok_or_else(|| call.overflow())?),
            (None, _) => Dim::Unknown,
        },
    };
    Ok(vec![Out::dims(shape)])
}

fn stft(call: &Call<'_>) -> Result<Vec<Out>> {
    call.rank_at_least(0, 2)?;
    call.rank_is(2, 1)?;
    if let Some(dims) = call.dims(0)
        && dims.len() > 3
    {
        bad_input!(call, 0, "not of rank 2 or 3");
    }
    let onesided = call.flag(Attr::Onesided);
    let step = length(call, 1, "frame_step")?;
    let signal = call.dims(0).map_or_else(|| unknown(2), <[_]>::to_vec);
    let mut frame = if call.has(3) {
        length(call, 3, "frame_length")?
    } else {
        Dim::Unknown
    };
    if let Some(window) = call.dims(2) {
        frame = call.merge(&frame, &window[0], "the length of a frame")?;
    } else if !call.has(2) && !call.has(3) {
        frame = signal[1].clone();
    }
    let frames = match (&signal[1], &frame, &step) {
        (Dim::Known(signal), Dim::Known(frame), Dim::Known(step)) => match signal.checked_sub(*frame) {
            Some(room) => Dim::Known(room / step + 1),
            None => bad_input!(call, 0, "shorter than a frame of {frame}"),
        },
        _ => Dim::Unknown,
    };
    let bins = if onesided { bins(&frame) } else { frame };
    Ok(vec![Out::dims(vec![
        signal[0].clone(),
        frames,
        bins,
        Dim::Known(2),
    ])])
}
