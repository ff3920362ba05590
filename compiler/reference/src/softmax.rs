//! Softmax ops and losses.
//!
//! Invariant: a loss ignores exactly the class that `ignore_index` names, and none without it.

use polychip_cpu_kernels::reference::softmax::{self as kernel, LossReduction, Softmax};
use polychip_cpu_kernels::reference::{Result, index};
use polychip_ops::{Attr, Op};

use crate::call::{Call, Outputs, bad, one};
use crate::row::{FLOATS, INDEX, Row};

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::Softmax | Op::LogSoftmax | Op::Hardmax => Row {
            takes: &[FLOATS],
            run: softmax,
        },
        Op::NegativeLogLikelihoodLoss => Row {
            takes: &[FLOATS, INDEX, FLOATS],
            run: nll,
        },
        Op::SoftmaxCrossEntropyLoss => Row {
            takes: &[FLOATS, INDEX, FLOATS],
            run: cross_entropy,
        },
        _ => return None,
    })
}

fn softmax(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let f = match c.op {
        Op::Softmax => Softmax::Softmax,
        Op::LogSoftmax => Softmax::LogSoftmax,
        _ => Softmax::Hardmax,
    };
    one(kernel::softmax(
        x,
        index::axis(c.int(Attr::Axis, -1), x.rank())?,
        f,
    ))
}

fn reduction(c: &Call<'_>) -> Result<LossReduction> {
    Ok(match c.text(Attr::Reduction, "mean") {
        "none" => LossReduction::None,
        "sum" => LossReduction::Sum,
        "mean" => LossReduction::Mean,
        other => return bad(format!("reduction is {other:?}, not none, sum or mean")),
    })
}

fn nll(c: &Call<'_>) -> Outputs {
    let ignore = c.attributes.int(Attr::IgnoreIndex);
    one(kernel::nll_loss(
        c.input(0)?,
        c.input(1)?,
        c.optional(2),
        ignore,
        reduction(c)?,
    ))
}

fn cross_entropy(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let log_prob = kernel::softmax(x, index::axis(1, x.rank())?, Softmax::LogSoftmax)?;
    let ignore = c.attributes.int(Attr::IgnoreIndex);
    let loss = kernel::nll_loss(&log_prob, c.input(1)?, c.optional(2), ignore, reduction(c)?)?;
    Ok(vec![loss, log_prob])
}
