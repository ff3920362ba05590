//! Ops that put tensors together, repeat them or run along an axis.
//!
//! Invariant: a tensor with the encoding of its sources keeps their integers; others are moved as real values.

use polychip_gpu_kernels::{Concat, CumSum, OneHot, Pad, PadMode, Scalar, Tile, Trilu};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::operator::{self, Along, Cumulative};
use polychip_ops::{Op, axis};
use polychip_sdk::Reason;

use super::builder::Lowering;
use super::map::wide;
use super::movement::{around, carried, kept, list};
use super::values::ValueId;

/// Lowers a node of this family.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    match node.op {
        Op::Concat => concat(l, node, y)?,
        Op::Pad => pad(l, node, x, y)?,
        Op::Expand | Op::Tile => tile(l, node, x, y)?,
        Op::CumSum => sums(l, node, x, y)?,
        Op::Trilu => triangle(l, node, x, y)?,
        Op::OneHot => one_hot(l, node, x, y)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn concat(l: &mut Lowering<'_>, node: &Node, y: TensorIndex) -> Outcome<()> {
    let out = l.dims(y)?;
    let rank = out.len();
    let along = node.typed::<Along>()?.axis;
    let axis = axis::normalise(along, rank)
        .ok_or_else(|| Refusal::attribute(format!("axis {along} of a tensor of rank {rank}")))?;
    let inputs: Vec<TensorIndex> = node
        .reads()
        .filter(|&t| l.part.dims(t).is_some_and(|dims| !dims.contains(&0)))
        .collect();
    let mut sum = 0;
    for &x in &inputs {
        let dims = l.dims(x)?;
        let alike = dims.len() == rank && (0..rank).all(|i| i == axis || dims[i] == out[i]);
        if !alike {
            return Err(Refusal::shape(format!(
                "{dims:?} does not join {out:?} along axis {axis}"
            )));
        }
        sum += dims[axis];
    }
    if sum != out[axis] {
        return Err(Refusal::shape(format!(
            "sizes of {sum} joined to {out:?} along axis {axis}"
        )));
    }
    let kind = if inputs.iter().all(|&x| carried(l, x, y) == Storage::Stored) {
        Storage::Stored
    } else {
        Storage::Real
    };
    let channels = |&&x: &&TensorIndex| l.is_channels_only(x) && !l.part.is_constant(x);
    let layout = if !Layout::is_same(out) && 2 * inputs.iter().filter(channels).count() >= inputs.len() {
        Layout::ChannelsLast
    } else {
        Layout::RowMajor
    };
    let mut operands: Vec<(ValueId, Vec<usize>)> = Vec::with_capacity(inputs.len());
    for &x in &inputs {
        let dims = l.dims(x)?;
        operands.push((l.get(x, layout, kind)?, layout.dims(dims)));
    }
    let at = layout.place(axis, rank);
    let (scalar, target) = l.destination(y, layout, kind)?;
    l.define(y, layout, kind, target)?;
    let most = (l.target.limits.bindings as usize).saturating_sub(1).max(2);
    while operands.len() > most {
        let mut joined = Vec::new();
        for some in operands.chunks(most) {
            if let [one] = some {
                joined.push(one.clone());
                continue;
            }
            let mut dims = some[0].1.clone();
            dims[at] = some.iter().map(|(_, dims)| dims[at]).sum();
            let value = l.fresh(scalar, &dims)?;
            join(l, scalar, some, at, value)?;
            joined.push((value, dims));
        }
        operands = joined;
    }
    join(l, scalar, &operands, at, target)
}

fn join(
    l: &mut Lowering<'_>,
    scalar: Scalar,
    operands: &[(ValueId, Vec<usize>)],
    axis: usize,
    target: ValueId,
) -> Outcome<()> {
    let kernel = Concat {
        scalar,
        shapes: operands.iter().map(|(_, dims)| wide(dims)).collect(),
        axis,
    };
    let mut values: Vec<ValueId> = operands.iter().map(|(value, _)| *value).collect();
    values.push(target);
    l.launch(&kernel, &values)
}

fn pad(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let (dims, out) = (l.dims(x)?, l.dims(y)?);
    let rank = dims.len();
    let mode = match node.typed::<operator::Pad>()?.mode {
        operator::PadMode::Constant => PadMode::Constant,
        operator::PadMode::Reflect => PadMode::Reflect,
        operator::PadMode::Edge => PadMode::Edge,
        operator::PadMode::Wrap => PadMode::Wrap,
    };
    let pads = list(l, node, 1)?.ok_or_else(|| Refusal::constant("the pads come from the run"))?;
    let axes: Vec<usize> = match list(l, node, 3)? {
        None => (0..rank).collect(),
        Some(axes) => axis::normalise_all(&axes, rank)
            .ok_or_else(|| Refusal::attribute(format!("axes {axes:?} of a tensor of rank {rank}")))?,
    };
    if pads.len() != 2 * axes.len() {
        return Err(Refusal::attribute(format!(
            "{} pads of {} axes",
            pads.len(),
            axes.len()
        )));
    }
    let value = match node.input(2) {
        None => 0.0,
        Some(t) => l
            .part
            .scalar(t)
            .ok_or_else(|| Refusal::constant("the value of Pad comes from the run"))?,
    };
    let layout = kept(l, x)?;
    let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
    for (i, &axis) in axes.iter().enumerate() {
        let at = layout.place(axis, rank);
        (before[at], after[at]) = (pads[i], pads[axes.len() + i]);
    }
    let memory = layout.dims(dims);
    for (axis, &size) in layout.dims(out).iter().enumerate() {
        if memory[axis] as i64 + before[axis] + after[axis] != size as i64 {
            return Err(Refusal::shape(format!(
                "{dims:?} padded by {pads:?} is not {out:?}"
            )));
        }
    }
    let from = l.get(x, layout, Storage::Real)?;
    let (scalar, target) = l.destination(y, layout, Storage::Real)?;
    l.define(y, layout, Storage::Real, target)?;
    let kernel = Pad {
        scalar,
        shape: wide(&memory),
        before,
        after,
        mode,
        fill: bits(scalar, value),
    };
    l.launch(&kernel, &[from, target])
}

/// A number in a type, as bits.
fn bits(scalar: Scalar, value: f64) -> u64 {
    match scalar {
        Scalar::F32 => u64::from((value as f32).to_bits()),
        Scalar::F16 => u64::from(half::f16::from_f64(value).to_bits()),
        Scalar::I64 => (value as i64) as u64,
        Scalar::I32 => u64::from((value as i32) as u32),
        Scalar::U32 => u64::from(value as u32),
        Scalar::I16 => u64::from((value as i16) as u16),
        Scalar::U16 => u64::from(value as u16),
        Scalar::I8 => u64::from((value as i8) as u8),
        Scalar::U8 | Scalar::Bool => u64::from(value as u8),
    }
}

fn tile(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    if node.input(1).is_some_and(|t| !l.part.is_constant(t)) {
        return Err(Refusal::new(
            Reason::NotConstant,
            format!("the shape of {} comes from the run", node.op_name),
        ));
    }
    let (dims, out) = (l.dims(x)?, l.dims(y)?);
    if dims.len() > out.len() {
        return Err(Refusal::shape(format!("{dims:?} does not expand to {out:?}")));
    }
    let mut aligned = vec![1; out.len() - dims.len()];
    aligned.extend_from_slice(dims);
    if aligned
        .iter()
        .zip(out)
        .any(|(&from, &to)| from == 0 || to % from != 0)
    {
        return Err(Refusal::shape(format!("{dims:?} does not expand to {out:?}")));
    }
    let kind = carried(l, x, y);
    let value = l.get(x, Layout::RowMajor, kind)?;
    if aligned == out {
        return l.define(y, Layout::RowMajor, kind, value);
    }
    let (scalar, target) = l.destination(y, Layout::RowMajor, kind)?;
    l.define(y, Layout::RowMajor, kind, target)?;
    let kernel = Tile {
        scalar,
        shape: wide(&aligned),
        to: wide(out),
    };
    l.launch(&kernel, &[value, target])
}

fn sums(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    let along = list(l, node, 1)?
        .and_then(|list| list.first().copied())
        .and_then(|along| axis::normalise(along, dims.len()))
        .ok_or_else(|| Refusal::attribute("CumSum without an axis"))?;
    let [outer, count, inner] = around(dims, along);
    let value = l.rows(x)?;
    let scalar = l.stored(value).scalar;
    if !matches!(scalar, Scalar::F32 | Scalar::F16 | Scalar::I32 | Scalar::I64) {
        return Err(Refusal::dtype(format!(
            "CumSum of {} is not offered",
            scalar.name()
        )));
    }
    let target = l.result(y, Layout::RowMajor)?;
    let attributes: Cumulative = node.typed()?;
    let kernel = CumSum {
        scalar,
        outer,
        count,
        inner,
        exclusive: attributes.exclusive,
        reverse: attributes.reverse,
    };
    l.launch(&kernel, &[value, target])
}

fn triangle(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    if dims.len() < 2 {
        return Err(Refusal::shape(format!("Trilu of {dims:?}")));
    }
    let diagonal = list(l, node, 1)?
        .and_then(|list| list.first().copied())
        .unwrap_or(0);
    let value = l.rows(x)?;
    let target = l.result(y, Layout::RowMajor)?;
    let kernel = Trilu {
        scalar: l.stored(value).scalar,
        shape: wide(dims),
        upper: node.typed::<operator::Trilu>()?.upper,
        diagonal,
    };
    l.launch(&kernel, &[value, target])
}

fn one_hot(l: &mut Lowering<'_>, node: &Node, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let out = l.dims(y)?;
    let Some(values) = node.input(2) else {
        return Err(Refusal::op("OneHot without values"));
    };
    let along = node.typed::<Along>()?.axis;
    let axis = axis::normalise(along, out.len())
        .ok_or_else(|| Refusal::attribute(format!("axis {along} of a tensor of rank {}", out.len())))?;
    let [outer, depth, inner] = around(out, axis);
    let (index, values) = (l.rows(x)?, l.rows(values)?);
    let kind = l.stored(index).scalar;
    if !matches!(kind, Scalar::I64 | Scalar::I32) {
        return Err(Refusal::dtype(format!(
            "OneHot of {} is not offered",
            kind.name()
        )));
    }
    let target = l.result(y, Layout::RowMajor)?;
    let kernel = OneHot {
        scalar: l.stored(values).scalar,
        index: kind,
        outer,
        depth,
        inner,
    };
    l.launch(&kernel, &[index, values, target])
}
