//! Normalisations and softmax.
//!
//! Invariant: sums are in f32 in the kernels, whatever the storage.

use std::num::NonZeroUsize;

use polychip_gpu_kernels::{Binary, Expression, GroupNorm, LayerNorm, LpNorm, Lrn, Softmax, Unary};
use polychip_lowering::{Layout, Node, Outcome, Refusal, Storage, TensorIndex};
use polychip_ops::operator::{self, BatchNorm, LpNorm as UnitLength, Norm};
use polychip_ops::{Op, Operator, axis};

use super::builder::Lowering;
use super::map::{self, Operand};
use super::movement::{around, kept};
use super::values::{ValueId, is_float};

/// Lowers a node of this family.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    if !matches!(
        node.op,
        Op::LayerNormalization
            | Op::RMSNormalization
            | Op::InstanceNormalization
            | Op::GroupNormalization
            | Op::BatchNormalization
            | Op::LpNormalization
            | Op::LRN
            | Op::Softmax
            | Op::LogSoftmax
    ) {
        return Ok(false);
    }
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Err(Refusal::op(format!("{} without operands", node.op_name)));
    };
    if !is_float(l.part.real(x)) || l.part.real(x) != l.part.real(y) {
        return Err(Refusal::dtype(format!(
            "{} of {} is not offered",
            node.op_name,
            l.part.real(x).name()
        )));
    }
    if node.outputs.iter().skip(1).any(Option::is_some) {
        return Err(Refusal::op(format!("{} with more than one output", node.op_name)));
    }
    match node.operator()? {
        Operator::LayerNormalization(own) | Operator::RMSNormalization(own) => rows(l, node, own, x, y)?,
        Operator::InstanceNormalization(own) => groups(l, node, (None, own.epsilon), x, y)?,
        Operator::GroupNormalization(own) => groups(l, node, (Some(own.groups), own.epsilon), x, y)?,
        Operator::BatchNormalization(own) => batch(l, node, own, x, y)?,
        Operator::LpNormalization(own) => unit(l, own, x, y)?,
        Operator::LRN(own) => response(l, own, x, y)?,
        Operator::Softmax(own) => softmax(l, (own.axis, false), x, y)?,
        Operator::LogSoftmax(own) => softmax(l, (own.axis, true), x, y)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn along(along: i64, rank: usize) -> Outcome<usize> {
    axis::normalise(along, rank)
        .ok_or_else(|| Refusal::attribute(format!("axis {along} of a tensor of rank {rank}")))
}

fn softmax(l: &mut Lowering<'_>, (axis, log): (i64, bool), x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    let axis = along(axis, dims.len())?;
    let [outer, count, inner] = around(dims, axis);
    let from = l.rows(x)?;
    let target = l.result(y, Layout::RowMajor)?;
    let kernel = Softmax {
        scalar: l.stored(from).scalar,
        outer,
        count,
        inner,
        log,
    };
    l.launch(&kernel, &[from, target])
}

/// Scale and bias, and how both are bound.
fn parameters(
    l: &mut Lowering<'_>,
    tensors: &[TensorIndex],
) -> Outcome<(Vec<ValueId>, polychip_gpu_kernels::Access)> {
    let mut values = Vec::new();
    for &tensor in tensors {
        values.push(l.rows(tensor)?);
    }
    let constant = values
        .iter()
        .all(|&value| l.access(value) == polychip_gpu_kernels::Access::Constant);
    let access = if constant {
        polychip_gpu_kernels::Access::Constant
    } else {
        polychip_gpu_kernels::Access::Read
    };
    Ok((values, access))
}

fn rows(l: &mut Lowering<'_>, node: &Node, own: Norm, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let epsilon = own.epsilon;
    let dims = l.dims(x)?;
    let axis = along(own.axis, dims.len())?;
    let count: usize = dims[axis..].iter().product();
    let outer: usize = dims[..axis].iter().product();
    let given: Vec<TensorIndex> = [node.input(1), node.input(2)].into_iter().flatten().collect();
    if node.input(1).is_none() {
        return Err(Refusal::op(format!("{} without a scale", node.op_name)));
    }
    for &tensor in &given {
        let own = l.dims(tensor)?;
        let tail = own.iter().skip_while(|&&dim| dim == 1);
        let whole = own.iter().product::<usize>() == count
            && tail.clone().eq(dims[axis..].iter().skip_while(|&&dim| dim == 1));
        if !whole || !is_float(l.part.real(tensor)) || l.part.real(tensor) != l.part.real(x) {
            return Err(Refusal::shape(format!(
                "a scale or bias of {own:?} for rows of {count}"
            )));
        }
    }
    let from = l.rows(x)?;
    let (values, access) = parameters(l, &given)?;
    let target = l.result(y, Layout::RowMajor)?;
    let kernel = LayerNorm {
        scalar: l.stored(from).scalar,
        rows: outer as u64,
        count: count as u64,
        epsilon,
        rms: node.op == Op::RMSNormalization,
        bias: given.len() > 1,
        access,
    };
    let mut all = vec![from];
    all.extend(values);
    all.push(target);
    l.launch(&kernel, &all)
}

fn groups(
    l: &mut Lowering<'_>,
    node: &Node,
    (groups, epsilon): (Option<NonZeroUsize>, f32),
    x: TensorIndex,
    y: TensorIndex,
) -> Outcome<()> {
    let dims = l.dims(x)?;
    let (Some(scale), Some(bias)) = (node.input(1), node.input(2)) else {
        return Err(Refusal::op(format!("{} without scale or bias", node.op_name)));
    };
    if dims.len() < 3 {
        return Err(Refusal::shape(format!("{} of {dims:?}", node.op_name)));
    }
    let channels = dims[1];
    for tensor in [scale, bias] {
        if l.dims(tensor)? != [channels] || l.part.real(tensor) != l.part.real(x) {
            return Err(Refusal::shape(format!("a scale or bias for {channels} channels")));
        }
    }
    let groups = groups.map_or(channels, NonZeroUsize::get);
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Refusal::attribute(format!(
            "{groups} groups of {channels} channels"
        )));
    }
    let layout = kept(l, x)?;
    let from = l.get(x, layout, Storage::Real)?;
    let (values, access) = parameters(l, &[scale, bias])?;
    let target = l.result(y, layout)?;
    let kernel = GroupNorm {
        scalar: l.stored(from).scalar,
        images: dims[0] as u64,
        channels: channels as u64,
        groups: groups as u64,
        places: dims[2..].iter().product::<usize>() as u64,
        channels_last: layout == Layout::ChannelsLast,
        epsilon,
        access,
    };
    l.launch(&kernel, &[from, values[0], values[1], target])
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias`, per channel.
fn batch(l: &mut Lowering<'_>, node: &Node, own: BatchNorm, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    let rank = dims.len();
    if own.training || rank < 2 {
        return Err(Refusal::attribute(
            "BatchNormalization that trains is not offered",
        ));
    }
    let layout = kept(l, x)?;
    let from = l.get(x, layout, Storage::Real)?;
    let mut operands = vec![Operand::of(from, dims, layout)?];
    for i in 1..5 {
        let tensor = node
            .input(i)
            .ok_or_else(|| Refusal::op("BatchNormalization without statistics"))?;
        if l.dims(tensor)? != [dims[1]] || !is_float(l.part.real(tensor)) {
            return Err(Refusal::shape(format!("statistics for {} channels", dims[1])));
        }
        let value = l.rows(tensor)?;
        operands.push(Operand::along(value, 1, rank));
    }
    let [scale, bias, mean, variance] = [1, 2, 3, 4].map(Expression::Operand);
    let spread = variance.with(Binary::Add, own.epsilon).unary(Unary::Sqrt);
    let expression = Expression::Operand(0)
        .binary(Binary::Sub, mean)
        .binary(Binary::Mul, scale.binary(Binary::Div, spread))
        .binary(Binary::Add, bias);
    let target = l.result(y, layout)?;
    map::launch(l, &expression, &operands, dims, layout, target)
}

fn unit(l: &mut Lowering<'_>, own: UnitLength, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    let axis = along(own.axis, dims.len())?;
    let [outer, count, inner] = around(dims, axis);
    let p = own.p;
    let p = u32::try_from(p)
        .ok()
        .filter(|p| (1..=2).contains(p))
        .ok_or_else(|| Refusal::attribute(format!("LpNormalization with p {p} is not offered")))?;
    let from = l.rows(x)?;
    let target = l.result(y, Layout::RowMajor)?;
    let kernel = LpNorm {
        scalar: l.stored(from).scalar,
        outer,
        count,
        inner,
        p,
    };
    l.launch(&kernel, &[from, target])
}

fn response(l: &mut Lowering<'_>, own: operator::Lrn, x: TensorIndex, y: TensorIndex) -> Outcome<()> {
    let dims = l.dims(x)?;
    if dims.len() < 3 {
        return Err(Refusal::shape(format!("LRN of {dims:?}")));
    }
    let layout = kept(l, x)?;
    let from = l.get(x, layout, Storage::Real)?;
    let target = l.result(y, layout)?;
    let kernel = Lrn {
        scalar: l.stored(from).scalar,
        images: dims[0] as u64,
        channels: dims[1] as u64,
        places: dims[2..].iter().product::<usize>() as u64,
        channels_last: layout == Layout::ChannelsLast,
        size: own.size.get() as u64,
        alpha: own.alpha,
        beta: own.beta,
        bias: own.bias,
    };
    l.launch(&kernel, &[from, target])
}
