//! Ops that take an axis as a whole: sums, normalisations, running totals.

use polychip_ops::operator::{
    Along, ArgReduce, BatchNorm, Cumulative, LpNorm, MeanVariance, Norm, Reduce, TopK,
};
use polychip_ops::{Op, axis};

use crate::NodeId;
use crate::independence::step::{PREFIX, Step, Verdict};

pub(super) fn rule(step: &Step<'_>) -> Verdict {
    let rank = step.prefix(0)?.len();
    match step.node.op {
        Op::BatchNormalization => {
            step.must(!step.typed::<BatchNorm>()?.training && step.node.output(1).is_none())?;
            step.same_from(1)?;
            step.prefix_but(0, &[1])?;
        }
        Op::LRN => {
            step.prefix_but(0, &[1])?;
        }
        Op::GroupNormalization | Op::InstanceNormalization => {
            step.same_from(1)?;
            step.prefix_along(0, &[0])?;
        }
        Op::LayerNormalization | Op::RMSNormalization => {
            step.same_from(1)?;
            let first = step.axis(step.typed::<Norm>()?.axis, rank)?;
            step.prefix_but(0, &(first..rank).collect::<Vec<_>>())?;
        }
        Op::LogSoftmax | Op::Softmax | Op::Hardmax => {
            step.prefix_but(0, &[step.axis(step.typed::<Along>()?.axis, rank)?])?;
        }
        Op::LpNormalization => {
            step.prefix_but(0, &[step.axis(step.typed::<LpNorm>()?.axis, rank)?])?;
        }
        Op::ArgMax | Op::ArgMin => {
            step.prefix_but(0, &[step.axis(step.typed::<ArgReduce>()?.axis, rank)?])?;
        }
        Op::MeanVarianceNormalization => {
            let axes = step.typed::<MeanVariance>()?.axes;
            step.prefix_but(0, &step.some(axis::normalise_all(&axes, rank))?)?;
        }
        Op::CumSum | Op::CumProd => {
            let along = step.integers(1)?.and_then(|axes| axes.first().copied());
            let along = step.some(along.and_then(|along| axis::normalise(along, rank)))?;
            // a total from the front reads what stands before it
            if step.typed::<Cumulative>()?.reverse {
                step.prefix_but(0, &[along])?;
            }
        }
        Op::TopK => {
            step.integers(1)?;
            step.prefix_but(0, &[step.axis(step.typed::<TopK>()?.axis, rank)?])?;
        }
        _ => {
            step.prefix_but(0, &reduced(step, rank)?)?;
        }
    }
    PREFIX
}

/// The axes of a reduction.
fn reduced(step: &Step<'_>, rank: usize) -> Result<Vec<usize>, NodeId> {
    match step.integers(1)? {
        Some(axes) if !axes.is_empty() => step.some(axis::normalise_all(&axes, rank)),
        _ if step.typed::<Reduce>()?.noop_with_empty_axes => Ok(Vec::new()),
        _ => Ok((0..rank).collect()),
    }
}
