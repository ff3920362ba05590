//! Ops that multiply, slide windows or carry states: rows and batches are independent.

use polychip_ops::operator::{AspectRatio, Coordinates, Einsum, Gemm, Resize, Rnn};
use polychip_ops::{Op, Operator};

use crate::NodeId;
use crate::independence::pair::Axis;
use crate::independence::step::{PREFIX, Step, Verdict, broadcasts};

pub(super) fn rule(step: &Step<'_>) -> Verdict {
    match step.node.op {
        Op::MatMul => matmul(step, 0, 1)?,
        Op::MatMulInteger => {
            step.same_from(2)?;
            matmul(step, 0, 1)?;
        }
        Op::QLinearMatMul => {
            [1, 2, 4, 5, 6, 7]
                .iter()
                .try_for_each(|&input| step.same(input))?;
            matmul(step, 0, 3)?;
        }
        Op::Gemm => gemm(step)?,
        Op::Einsum => einsum(step)?,
        Op::Conv | Op::ConvInteger | Op::ConvTranspose | Op::QLinearConv => {
            step.same_from(1)?;
            step.prefix_along(0, &[0])?;
        }
        Op::DeformConv => {
            step.same(1)?;
            step.same(3)?;
            batches(step, &[0, 2, 4])?;
        }
        Op::AveragePool | Op::GlobalAveragePool | Op::GlobalLpPool | Op::GlobalMaxPool | Op::LpPool => {
            step.prefix_along(0, &[0, 1])?;
        }
        Op::MaxPool => {
            // indices count all channels
            let allowed: &[usize] = if step.node.output(1).is_none() {
                &[0, 1]
            } else {
                &[0]
            };
            step.prefix_along(0, allowed)?;
        }
        Op::GridSample => batches(step, &[0, 1])?,
        Op::Resize => resize(step)?,
        Op::GRU | Op::LSTM | Op::RNN => recurrent(step)?,
        Op::Attention => attention(step)?,
        Op::RotaryEmbedding => {
            step.same(1)?;
            step.same(2)?;
            if step.has(3) {
                step.must(step.pads_zeros(3))?;
                let (ids, x) = (step.prefix_along(3, &[0])?, step.prefix_along(0, &[0])?);
                step.must(ids.first() == x.first())?;
            }
            step.prefix_along(0, &[0])?;
        }
        Op::Det => {
            let rank = step.prefix(0)?.len();
            step.prefix_but(0, &[rank.wrapping_sub(2), rank.wrapping_sub(1)])?;
        }
        Op::TreeEnsemble | Op::TreeEnsembleRegressor => {
            step.prefix_along(0, &[0])?;
        }
        _ => step.mixes()?,
    }
    PREFIX
}

/// These inputs, where they are there, have padding along their first axes only, and as much of it.
fn batches(step: &Step<'_>, inputs: &[usize]) -> Result<(), NodeId> {
    let mut first: Option<Axis> = None;
    for &input in inputs.iter().filter(|&&input| step.has(input)) {
        let axes = step.prefix_along(input, &[0])?;
        let own = step.some(axes.first().cloned())?;
        step.must(*first.get_or_insert_with(|| own.clone()) == own)?;
    }
    Ok(())
}

fn matmul(step: &Step<'_>, left: usize, right: usize) -> Result<(), NodeId> {
    let (a, b, into) = (step.prefix(left)?, step.prefix(right)?, step.output(0)?);
    step.must(!a.is_empty() && !b.is_empty())?;
    let summed = [&a[a.len() - 1], &b[b.len().saturating_sub(2)]];
    step.must(summed.iter().all(|axis| !axis.is_padded()))?;
    let batch = |axes: &[Axis]| axes[..axes.len().saturating_sub(2)].to_vec();
    let rows = usize::from(a.len() > 1) + usize::from(b.len() > 1);
    let into = &into[..into.len().saturating_sub(rows)];
    step.must(broadcasts(&batch(&a), into) && broadcasts(&batch(&b), into))
}

fn gemm(step: &Step<'_>) -> Result<(), NodeId> {
    let (a, b, into) = (step.prefix(0)?, step.prefix(1)?, step.output(0)?);
    let gemm: Gemm = step.typed()?;
    let summed = |axes: &[Axis], transposed: bool, last: usize| {
        let place = if transposed { 1 - last } else { last };
        axes.get(place).is_some_and(|axis| !axis.is_padded())
    };
    step.must(summed(&a, gemm.trans_a, 1) && summed(&b, gemm.trans_b, 0))?;
    if step.has(2) {
        step.must(broadcasts(&step.prefix(2)?, &into))?;
    }
    Ok(())
}

/// Each label of a padded axis is an axis of the result, and has the same sizes wherever it occurs.
fn einsum(step: &Step<'_>) -> Result<(), NodeId> {
    let equation = step.typed::<Einsum>()?.equation;
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (terms, result) = step.some(equation.split_once("->"))?;
    step.must(!equation.contains('.'))?;
    let into = step.output(0)?;
    step.must(into.len() == result.chars().count())?;
    for (input, term) in terms.split(',').enumerate() {
        let axes = step.prefix(input)?;
        step.must(axes.len() == term.chars().count())?;
        for (axis, label) in axes.iter().zip(term.chars()) {
            let place = result.chars().position(|other| other == label);
            match place {
                Some(place) => step.must(*axis == into[place] || axis.is_one())?,
                None => step.must(!axis.is_padded())?,
            }
        }
    }
    Ok(())
}

/// The first axis is as it was, at a scale of exactly one.
fn resize(step: &Step<'_>) -> Result<(), NodeId> {
    let (from, into) = (step.prefix_along(0, &[0])?, step.output(0)?);
    step.must(from.len() >= 3 && into.first() == from.first())?;
    let resize: Resize = step.typed()?;
    step.must(resize.aspect == AspectRatio::Ignored)?;
    step.must(resize.coordinates != Coordinates::TfCropAndResize)?;
    let of_first = match resize.axes {
        Some(axes) => {
            let axes = step.some(polychip_ops::axis::normalise_all(&axes, from.len()))?;
            axes.iter().position(|&axis| axis == 0)
        }
        None => Some(0),
    };
    if step.has(2) {
        let scales = step.some(step.floats(2))?;
        if let Some(place) = of_first.filter(|_| !scales.is_empty()) {
            step.must(scales.get(place) == Some(&1.0))?;
        }
    }
    Ok(())
}

/// The batch is the second axis of the sequence and of the states, or the first one of all (`layout`).
fn recurrent(step: &Step<'_>) -> Result<(), NodeId> {
    let layer: Rnn = match step.some(step.node.operator().ok())? {
        Operator::RNN(layer) => layer,
        Operator::GRU(layer) => layer.into(),
        Operator::LSTM(layer) => layer.into(),
        _ => return step.must(false),
    };
    let batch = usize::from(!layer.batch_first);
    // a length of zero is not one that every device takes
    step.must(!step.has(4))?;
    [1, 2, 3, 7].iter().try_for_each(|&input| step.same(input))?;
    let x = step.prefix_along(0, &[batch])?;
    for input in [5, 6].into_iter().filter(|&input| step.has(input)) {
        let state = step.prefix_along(input, &[batch])?;
        step.must(state.get(batch) == x.get(batch))?;
    }
    Ok(())
}

fn attention(step: &Step<'_>) -> Result<(), NodeId> {
    batches(step, &[0, 1, 2, 4, 5, 6])?;
    if step.has(3) {
        let (mask, q) = (step.prefix(3)?, step.prefix(0)?);
        match mask.len() {
            4 => {
                step.prefix_along(3, &[0])?;
                step.must(!mask[0].is_padded() || mask[0] == q[0])?;
                // a mask for another number of batches than there are is one that is repeated
                step.must(!q[0].is_padded() || mask[0] == q[0] || mask[0].is_one())?;
            }
            _ => step.same(3)?,
        }
    }
    Ok(())
}
