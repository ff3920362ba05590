//! Normalisation ops.
//!
//! Invariant: optional statistics outputs are computed whenever the node names them.

use polychip_cpu_kernels::reference::{Result, Tensor, index, norm as kernel};
use polychip_ops::Op;
use polychip_ops::operator::{BatchNorm, GroupNorm, InstanceNorm, LpNorm, Lrn, MeanVariance, Norm};

use crate::call::{Call, Outputs, bad, one};
use crate::literal::element;
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

fn batch(c: &Call<'_>) -> Outputs {
    let (x, scale, bias) = (c.input(0)?, c.input(1)?, c.input(2)?);
    let (mean, variance) = (c.input(3)?.to_f64s()?, c.input(4)?.to_f64s()?);
    let norm: BatchNorm = c.typed()?;
    let epsilon = f64::from(norm.epsilon);
    if !norm.training {
        return one(kernel::batch(x, scale, bias, (&mean, &variance), epsilon));
    }
    let (now_mean, now_variance) = kernel::channel_statistics(x)?;
    let y = kernel::batch(x, scale, bias, (&now_mean, &now_variance), epsilon)?;
    let momentum = f64::from(norm.momentum);
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
    let epsilon = f64::from(c.typed::<InstanceNorm>()?.epsilon);
    let n = kernel::normalise(x, &axes, true, epsilon, Some(&scale), Some(&bias))?;
    Ok(vec![n.y])
}

fn group(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let ch = channels(x)?;
    let norm: GroupNorm = c.typed()?;
    let groups = norm.groups.get();
    if ch % groups != 0 {
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
    let n = kernel::normalise(
        &split,
        &[2, 3],
        true,
        f64::from(norm.epsilon),
        Some(&scale),
        Some(&bias),
    )?;
    one(n.y.reshaped(x.shape().to_vec()))
}

fn trailing(norm: Norm, x: &Tensor) -> Result<Vec<usize>> {
    let first = index::axis(norm.axis, x.rank())?;
    Ok((first..x.rank()).collect())
}

fn layer(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let norm: Norm = c.typed()?;
    let (axes, epsilon) = (trailing(norm, x)?, f64::from(norm.epsilon));
    let n = kernel::normalise(x, &axes, true, epsilon, Some(c.input(1)?), c.optional(2))?;
    let shape: Vec<usize> = x
        .shape()
        .iter()
        .enumerate()
        .map(|(d, &s)| if axes.contains(&d) { 1 } else { s })
        .collect();
    let element = element(norm.stash);
    if !element.is_float() {
        return bad("stash_type names no float type");
    }
    let mean = Tensor::from_f64s(element, shape.clone(), &n.mean)?;
    let inverse = Tensor::from_f64s(element, shape, &n.inverse)?;
    Ok(vec![n.y, mean, inverse])
}

fn rms(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let norm: Norm = c.typed()?;
    let (axes, epsilon) = (trailing(norm, x)?, f64::from(norm.epsilon));
    let n = kernel::normalise(x, &axes, false, epsilon, Some(c.input(1)?), None)?;
    Ok(vec![n.y])
}

fn mean_variance(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let axes = index::axes(&c.typed::<MeanVariance>()?.axes, x.rank())?;
    // ONNX adds 1e-9 to the deviation, which no float32 of a usual size shows
    Ok(vec![kernel::normalise(x, &axes, true, 1e-18, None, None)?.y])
}

fn lp(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let norm: LpNorm = c.typed()?;
    one(kernel::lp(x, index::axis(norm.axis, x.rank())?, norm.p))
}

fn lrn(c: &Call<'_>) -> Outputs {
    let norm: Lrn = c.typed()?;
    one(kernel::lrn(
        c.input(0)?,
        norm.size.get(),
        norm.alpha.into(),
        norm.beta.into(),
        norm.bias.into(),
    ))
}
