//! Normalisation ops.
//!
//! Invariant: optional statistics outputs are computed whenever the node names them.

use polychip_cpu_kernels::reference::{Element, Result, Tensor, index, norm as kernel};
use polychip_ops::{Attr, Op};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{FLOATS, Row};

pub(crate) fn row(op: Op) -> Option<Row> {
    let run: fn(&Call<'_>) -> Outputs = match op {
        Op::BatchNormalization => batch,
        Op::InstanceNormalization => instance,
        Op::GroupNormalization => group,
        Op::LayerNormalization => layer,
        Op::RMSNormalization => rms,
        Op::MeanVarianceNormalization => mean_variance,
        Op::LpNormalization => lp,
        Op::LRN => lrn,
        _ => return None,
    };
    Some(Row {
        takes: &[FLOATS],
        run,
    })
}

fn epsilon(c: &Call<'_>) -> f64 {
    c.float(Attr::Epsilon, 1e-5)
}

fn batch(c: &Call<'_>) -> Outputs {
    let (x, scale, bias) = (c.input(0)?, c.input(1)?, c.input(2)?);
    let (mean, variance) = (c.input(3)?.to_f64s()?, c.input(4)?.to_f64s()?);
    if !c.flag(Attr::TrainingMode, false) {
        return one(kernel::batch(x, scale, bias, (&mean, &variance), epsilon(c)));
    }
    let (now_mean, now_variance) = kernel::channel_statistics(x)?;
    let y = kernel::batch(x, scale, bias, (&now_mean, &now_variance), epsilon(c))?;
    let momentum = c.float(Attr::Momentum, 0.9);
    let running = |i: usize, old: &[f64], now: &[f64]| -> Result<Tensor> {
        if old.len() != now.len() {
            return bad(format!("{} statistics for {} channels", old.len(), now.len()));
        }
        let v: Vec<f64> = old
            .iter()
            .zip(now)
            .map(|(o, n)| o * momentum + n * (1.0 - momentum))
            .collect();
        Tensor::from_f64s(c.input(i)?.element(), vec![v.len()], &v)
    };
    Ok(vec![
        y,
        running(3, &mean, &now_mean)?,
        running(4, &variance, &now_variance)?,
    ])
}

fn channels(x: &Tensor) -> Result<usize> {
    match x.shape() {
        [_, c, ..] => Ok(*c),
        other => bad(format!("[n, c, …] wanted, shape {other:?} seen")),
    }
}

fn instance(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let ch = channels(x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let scale = kernel::per_channel(c.input(1)?, ch, x.rank())?;
    let bias = kernel::per_channel(c.input(2)?, ch, x.rank())?;
    let n = kernel::normalise(x, &axes, true, epsilon(c), Some(&scale), Some(&bias))?;
    Ok(vec![n.y])
}

fn group(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let ch = channels(x)?;
    let groups = c.required_size(Attr::NumGroups)?;
    if groups == 0 || ch % groups != 0 {
        return bad(format!("{ch} channels in {groups} groups"));
    }
    let rest = index::product(&x.shape()[2..]);
    let split = x.reshaped(vec![x.shape()[0], groups, ch / groups, rest])?;
    let shaped = |i: usize| -> Result<Tensor> {
        let t = c.input(i)?;
        if t.len() != ch {
            return bad(format!("{} values for {ch} channels", t.len()));
        }
        t.reshaped(vec![1, groups, ch / groups, 1])
    };
    let (scale, bias) = (shaped(1)?, shaped(2)?);
    let n = kernel::normalise(&split, &[2, 3], true, epsilon(c), Some(&scale), Some(&bias))?;
    one(n.y.reshaped(x.shape().to_vec()))
}

fn trailing(c: &Call<'_>, x: &Tensor) -> Result<Vec<usize>> {
    let first = index::axis(c.int(Attr::Axis, -1), x.rank())?;
    Ok((first..x.rank()).collect())
}

fn layer(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axes = trailing(c, x)?;
    let n = kernel::normalise(x, &axes, true, epsilon(c), Some(c.input(1)?), c.optional(2))?;
    let shape: Vec<usize> = x
        .shape()
        .iter()
        .enumerate()
        .map(|(d, &s)| if axes.contains(&d) { 1 } else { s })
        .collect();
    let element = match u32::try_from(c.int(Attr::StashType, 1))
        .ok()
        .and_then(Element::from_code)
    {
        Some(e) if e.is_float() => e,
        _ => return bad("stash_type names no float type"),
    };
    let mean = Tensor::from_f64s(element, shape.clone(), &n.mean)?;
    let inverse = Tensor::from_f64s(element, shape, &n.inverse)?;
    Ok(vec![n.y, mean, inverse])
}

fn rms(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axes = trailing(c, x)?;
    let n = kernel::normalise(x, &axes, false, epsilon(c), Some(c.input(1)?), None)?;
    Ok(vec![n.y])
}

fn mean_variance(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axes = index::axes(c.attributes.ints(Attr::Axes).unwrap_or(&[0, 2, 3]), x.rank())?;
    // ONNX adds 1e-9 to the deviation, which no float32 of a usual size shows
    Ok(vec![kernel::normalise(x, &axes, true, 1e-18, None, None)?.y])
}

fn lp(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axis = index::axis(c.int(Attr::Axis, -1), x.rank())?;
    one(kernel::lp(x, axis, c.int(Attr::P, 2)))
}

fn lrn(c: &Call<'_>) -> Outputs {
    let size = c.required_size(Attr::Size)?;
    one(kernel::lrn(
        c.input(0)?,
        size,
        c.float(Attr::Alpha, 1e-4),
        c.float(Attr::Beta, 0.75),
        c.float(Attr::Bias, 1.0),
    ))
}
