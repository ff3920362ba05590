//! Softmax ops and losses.
//!
//! Invariant: a loss ignores exactly the class that `ignore_index` names, and none without it.

use polychip_cpu_kernels::reference::index;
use polychip_cpu_kernels::reference::softmax::{self as kernel, LossReduction, Softmax};
use polychip_ops::Op;
use polychip_ops::operator::{self, Along, Loss};

use crate::call::{Call, Outputs, one};
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
        index::axis(c.typed::<Along>()?.axis, x.rank())?,
        f,
    ))
}

fn reduction(node: Loss) -> LossReduction {
    match node.reduction {
        operator::LossReduction::None => LossReduction::None,
        operator::LossReduction::Sum => LossReduction::Sum,
        operator::LossReduction::Mean => LossReduction::Mean,
    }
}

fn nll(c: &Call<'_>) -> Outputs {
    let node: Loss = c.typed()?;
    one(kernel::nll_loss(
        c.input(0)?,
        c.input(1)?,
        c.optional(2),
        node.ignore_index,
        reduction(node),
    ))
}

fn cross_entropy(c: &Call<'_>) -> Outputs {
    let x = c.input(0)?;
    let log_prob = kernel::softmax(x, index::axis(1, x.rank())?, Softmax::LogSoftmax)?;
    let node: Loss = c.typed()?;
    let loss = kernel::nll_loss(
        &log_prob,
        c.input(1)?,
        c.optional(2),
        node.ignore_index,
        reduction(node),
    )?;
    Ok(vec![loss, log_prob])
}
