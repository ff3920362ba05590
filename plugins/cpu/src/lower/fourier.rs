//! DFT and STFT of f32 whose sizes are constants.
//!
//! Not here: half a spectrum back to real numbers, which is the reference's.

use polychip_cpu_kernels::fourier::{FourierParams, FourierPlan, Lines};
use polychip_ops::operator::{Dft, Stft};
use polychip_ops::{Op, axis};
use polychip_sdk::{Error, Result};

use super::builder::{Lowering, kernel_error};
use super::encoding::stands_for_f32;
use crate::part::{Node, TensorIndex};
use crate::step::ValueId;
use crate::work::Class;

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let empty = [x, y]
        .iter()
        .any(|&t| l.part.dims(t).is_none_or(|dims| dims.contains(&0)));
    if empty || ![x, y].iter().all(|&t| stands_for_f32(l.part, t)) {
        return Ok(false);
    }
    match node.op {
        Op::DFT => dft(l, node, x, y),
        Op::STFT => stft(l, node, x, y),
        _ => Ok(false),
    }
}

/// The size that a constant states.
fn size(l: &Lowering<'_>, tensor: TensorIndex) -> Option<usize> {
    match l.part.integers(tensor)?[..] {
        [size] => usize::try_from(size).ok(),
        _ => None,
    }
}

fn dft(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let Ok(Dft { inverse, onesided }) = node.typed() else {
        return Ok(false);
    };
    let (dims, out) = (l.shape(x)?, l.shape(y)?);
    let along = match node.input(2).map(|t| l.part.integers(t)) {
        None => -2,
        Some(Some(axes)) if axes.len() == 1 => axes[0],
        Some(_) => return Ok(false),
    };
    let (rank, parts) = (dims.len(), dims.last().copied().unwrap_or(0));
    let Some(axis) = axis::normalise(along, rank).filter(|&axis| axis + 1 < rank) else {
        return Ok(false);
    };
    let length = match node.input(1) {
        None => Some(dims[axis]),
        Some(t) => size(l, t),
    };
    let Some(length) = length.filter(|&length| length > 0) else {
        return Ok(false);
    };
    if (inverse && onesided) || !(1..=2).contains(&parts) || out.last() != Some(&2) || out.len() != rank {
        return Ok(false);
    }
    let bins = if onesided { length / 2 + 1 } else { length };
    let inner: usize = dims[axis + 1..rank - 1].iter().product();
    let outer: usize = dims[..axis].iter().product();
    if out.iter().product::<usize>() != outer * bins * inner * 2 {
        return Err(Error::bad_argument(format!(
            "{bins} bins of {dims:?} do not give {out:?}"
        )));
    }
    let params = FourierParams {
        length,
        bins,
        is_complex: parts == 2,
        inverse,
    };
    let lines = Lines {
        count: [outer, inner],
        from: [dims[axis] * inner * parts, parts],
        step: inner * parts,
        len: dims[axis],
        to: [bins * inner * 2, 2],
        to_step: inner * 2,
    };
    transform(l, params, lines, [x, y], None)?;
    Ok(true)
}

fn stft(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Result<bool> {
    let (dims, out) = (l.shape(x)?, l.shape(y)?);
    let (batch, samples, parts) = match *dims {
        [batch, samples] => (batch, samples, 1),
        [batch, samples, parts @ 1..=2] => (batch, samples, parts),
        _ => return Ok(false),
    };
    let window = node.input(2);
    let weights = window.map(|t| l.shape(t)).transpose()?;
    let Some(step) = node.input(1).and_then(|t| size(l, t)).filter(|&step| step > 0) else {
        return Ok(false);
    };
    let length = match (node.input(3), weights) {
        (Some(t), _) => size(l, t),
        (None, Some(&[length])) => Some(length),
        _ => None,
    };
    let Some(length) = length.filter(|length| (1..=samples).contains(length)) else {
        return Ok(false);
    };
    let fits = weights.is_none_or(|weights| weights == [length]);
    if !fits || !window.is_none_or(|t| stands_for_f32(l.part, t)) {
        return Ok(false);
    }
    let Ok(Stft { onesided }) = node.typed() else {
        return Ok(false);
    };
    let bins = if onesided { length / 2 + 1 } else { length };
    let frames = (samples - length) / step + 1;
    if out != [batch, frames, bins, 2] {
        return Err(Error::bad_argument(format!(
            "{frames} frames of {bins} bins do not give {out:?}"
        )));
    }
    let params = FourierParams {
        length,
        bins,
        is_complex: parts == 2,
        inverse: false,
    };
    let lines = Lines {
        count: [batch, frames],
        from: [samples * parts, step * parts],
        step: parts,
        len: length,
        to: [frames * bins * 2, bins * 2],
        to_step: 2,
    };
    let window = window.map(|t| l.rows(t)).transpose()?;
    transform(l, params, lines, [x, y], window)?;
    Ok(true)
}

fn transform(
    l: &mut Lowering<'_>,
    params: FourierParams,
    lines: Lines,
    [x, y]: [TensorIndex; 2],
    window: Option<ValueId>,
) -> Result<()> {
    let plan = FourierPlan::new(params).map_err(kernel_error)?;
    let mut reads = vec![l.rows(x)?];
    reads.extend(window);
    let result = l.write_rows(y)?;
    let scratch = l.scratch(plan.scratch_len())?;
    // a transform of n elements takes n log n turns
    let depth = (usize::BITS - params.length.leading_zeros()) as usize;
    let turns = lines.count.iter().product::<usize>() * params.length * depth;
    l.step(
        "fourier",
        &reads,
        &[result],
        scratch,
        Box::new(move |o| {
            let window = window.map(|_| o.read::<f32>(1));
            let (y, scratch) = (o.write::<f32>(0), o.scratch(1));
            plan.run(&lines, o.read(0), window, y, scratch);
            Ok(())
        }),
    )
    .does(Class::Fourier, turns);
    Ok(())
}
