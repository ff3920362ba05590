//! Ops that take an axis as a whole: sums, normalisations, running totals.

use polychip_ops::{Attr, Op, axis};

use crate::NodeId;
use crate::independence::step::{PREFIX, Step, Verdict};

pub(super) fn rule(step: &Step<'_>) -> Verdict {
    let rank = step.prefix(0)?.len();
    match step.node.op {
        Op::BatchNormalization => {
            step.must(step.int(Attr::TrainingMode, 0) == 0 && step.node.output(1).is_none())?;
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
            let first = step.axis(Attr::Axis, -1, rank)?;
            step.prefix_but(0, &(first..rank).collect::<Vec<_>>())?;
        }
        Op::LogSoftmax | Op::Softmax | Op::Hardmax | Op::LpNormalization => {
            step.prefix_but(0, &[step.axis(Attr::Axis, -1, rank)?])?;
        }
        Op::ArgMax | Op::ArgMin => {
            step.prefix_but(0, &[step.axis(Attr::Axis, 0, rank)?])?;
        }
        Op::MeanVarianceNormalization => {
            let axes = step.node.attributes.ints(Attr::Axes).unwrap_or(&[0, 2, 3]);
            step.prefix_but(0, &step.some(axis::normalise_all(axes, rank))?)?;
        }
        Op::CumSum | Op::CumProd => {
            let along = step.integers(1)?.and_then(|axes| axes.first().copied());
            let along = step.some(along.and_then(|along| axis::normalise(along, rank)))?;
            // a total from the front reads what stands before it
            if step.int(Attr::Reverse, 0) != 0 {
                step.prefix_but(0, &[along])?;
            }
        }
        Op::TopK => {
            step.integers(1)?;
            step.prefix_but(0, &[step.axis(Attr::Axis, -1, rank)?])?;
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
        _ if step.int(Attr::NoopWithEmptyAxes, 0) != 0 => Ok(Vec::new()),
        _ => Ok((0..rank).collect()),
    }
}
