//! Elementwise ops on f32: functions of one value, and of two with broadcasting.
//!
//! Invariant: a step keeps the layout that its operands already have.

use polychip_cpu_kernels::{Binary, Unary};
use polychip_lowering::{Layout, Storage};
use polychip_ops::{DType, Op, broadcast};
use polychip_sdk::{Error, Result};

use super::builder::Lowering;
use super::encoding::stands_for_f32;
use super::function::activation;
use super::materialize::IMAGES;
use super::steps;
use crate::part::{Node, Part, TensorIndex};
use crate::step::ValueId;

/// The function of two operands that an op is.
pub(super) fn binary(op: Op) -> Option<Binary> {
    Some(match op {
        Op::Add | Op::Sum | Op::Mean => Binary::Add,
        Op::Sub => Binary::Sub,
        Op::Mul => Binary::Mul,
        Op::Div => Binary::Div,
        Op::Min => Binary::Min,
        Op::Max => Binary::Max,
        Op::PRelu => Binary::Prelu,
        Op::Pow => Binary::Pow,
        _ => return None,
    })
}

/// Whether these kernels cover a node whose shapes are known.
pub(super) fn covers(part: &Part, node: &Node) -> bool {
    let f32s = |t: &Option<TensorIndex>| t.is_none_or(|t| stands_for_f32(part, t));
    if !node.outputs.iter().all(f32s) {
        return false;
    }
    activation(part, node).is_some() || (node.inputs.iter().all(f32s) && binary(node.op).is_some())
}

/// Lowers a node of this sort.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    if !covers(l.part, node) {
        return Ok(false);
    }
    let Some(output) = node.output(0) else {
        return Ok(false);
    };
    if let Some(function) = activation(l.part, node) {
        let Some(input) = node.input(0) else {
            return Ok(false);
        };
        unary(l, function, input, output)?;
        return Ok(true);
    }
    let Some(function) = binary(node.op) else {
        return Ok(false);
    };
    let inputs: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
    match inputs[..] {
        [single] => unary(l, Unary::Identity, single, output)?,
        [a, b] if node.op != Op::Mean => two(l, function, a, b, output)?,
        [] => return Ok(false),
        [first, second, ref rest @ ..] => {
            // Sum, Mean, Min and Max of many: a chain of two at a time
            let layout = choose(l, &inputs, output)?;
            let (a, b) = (
                operand(l, first, output, layout)?,
                operand(l, second, output, layout)?,
            );
            let mut result = join(l, function, a, b)?;
            let scale = (node.op == Op::Mean).then(|| 1.0 / inputs.len() as f32);
            for (i, &next) in rest.iter().enumerate() {
                let b = operand(l, next, output, layout)?;
                let last = i + 1 == rest.len() && scale.is_none();
                result = if last {
                    let y = l.write(output, layout, Storage::Real)?;
                    steps::binary(l, function, result, b, y)?;
                    y
                } else {
                    join(l, function, result, b)?
                };
            }
            if let Some(scale) = scale {
                let y = l.write(output, layout, Storage::Real)?;
                steps::unary(l, Unary::Affine { scale, shift: -0.0 }, result, y);
            }
        }
    }
    Ok(true)
}

fn unary(l: &mut Lowering<'_>, function: Unary, input: TensorIndex, output: TensorIndex) -> Result<()> {
    let layout = l.layout(input);
    pass(l, function, input, output, layout)
}

/// Adds a step for a function of one tensor, in the element type that it has.
fn pass(
    l: &mut Lowering<'_>,
    function: Unary,
    input: TensorIndex,
    output: TensorIndex,
    layout: Layout,
) -> Result<()> {
    let storage = l.kept(input, &[Some(output)]);
    let (x, y) = (
        l.read(input, layout, storage)?,
        l.write_f32_or(storage, output, layout)?,
    );
    steps::unary(l, function, x, y);
    Ok(())
}

/// Channels last where an operand of the full rank exists only so; else row-major.
fn choose(l: &Lowering<'_>, inputs: &[TensorIndex], output: TensorIndex) -> Result<Layout> {
    let rank = l.shape(output)?.len();
    for &input in inputs {
        let dims = l.shape(input)?;
        if dims.len() == rank && l.is_channels_only(input) && !Layout::is_same(dims) {
            return Ok(Layout::ChannelsLast);
        }
    }
    Ok(Layout::RowMajor)
}

/// An operand in a layout, its shape extended to the result's rank where it is channels last.
fn operand(l: &mut Lowering<'_>, input: TensorIndex, output: TensorIndex, layout: Layout) -> Result<ValueId> {
    if layout == Layout::RowMajor {
        return l.rows(input);
    }
    let rank = l.shape(output)?.len();
    let dims = l.shape(input)?;
    if dims.len() == rank {
        return l.channels(input);
    }
    let mut extended = vec![1; rank - dims.len()];
    extended.extend(dims);
    let rows = l.rows(input)?;
    if Layout::is_same(&extended) {
        return Ok(l.view(rows, layout.dims(&extended)));
    }
    let result = l.fresh(l.real_dtype(input), layout.dims(&extended))?;
    l.relayout(IMAGES, &extended, layout, rows, result)?;
    Ok(result)
}

fn two(
    l: &mut Lowering<'_>,
    function: Binary,
    a: TensorIndex,
    b: TensorIndex,
    output: TensorIndex,
) -> Result<()> {
    let layout = choose(l, &[a, b], output)?;
    // a constant of one value on the right becomes a function of one value
    if let (Some(value), Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Pow) =
        (l.part.scalar(b), function)
        && l.shape(a)? == l.shape(output)?
        && let Some(function) = with_constant(function, value as f32)
    {
        return pass(l, function, a, output, layout);
    }
    if let (Some(value), Binary::Add | Binary::Mul | Binary::Sub) = (l.part.scalar(a), function)
        && l.shape(b)? == l.shape(output)?
    {
        let value = value as f32;
        let function = match function {
            Binary::Add => Unary::Affine {
                scale: 1.0,
                shift: value,
            },
            Binary::Sub => Unary::Affine {
                scale: -1.0,
                shift: value,
            },
            _ => Unary::Affine {
                scale: value,
                shift: -0.0,
            },
        };
        return pass(l, function, b, output, layout);
    }
    let rank = l.shape(output)?.len();
    let stays_bf16 = |&t: &TensorIndex| {
        let extended = layout == Layout::ChannelsLast && l.part.dims(t).is_none_or(|dims| dims.len() != rank);
        l.kept(t, &[Some(output)]) == Storage::Bf16 && !extended
    };
    if [a, b].iter().all(stays_bf16) {
        let (a, b) = (
            l.read(a, layout, Storage::Bf16)?,
            l.read(b, layout, Storage::Bf16)?,
        );
        let y = l.write(output, layout, Storage::Bf16)?;
        return steps::binary(l, function, a, b, y);
    }
    let (a, b) = (operand(l, a, output, layout)?, operand(l, b, output, layout)?);
    let y = l.write(output, layout, Storage::Real)?;
    steps::binary(l, function, a, b, y)
}

/// A binary function with a constant on the right, as a function of one value. A product adds minus zero, which
/// leaves the sign of a zero alone.
fn with_constant(function: Binary, value: f32) -> Option<Unary> {
    Some(match function {
        Binary::Add => Unary::Affine {
            scale: 1.0,
            shift: value,
        },
        Binary::Sub => Unary::Affine {
            scale: 1.0,
            shift: -value,
        },
        Binary::Mul => Unary::Affine {
            scale: value,
            shift: -0.0,
        },
        // a quotient is a product only where the reciprocal is exact
        Binary::Div if value.is_normal() && (1.0 / value).is_normal() && value.to_bits() << 9 == 0 => {
            Unary::Affine {
                scale: 1.0 / value,
                shift: -0.0,
            }
        }
        Binary::Pow if value == 2.0 => Unary::Square,
        Binary::Pow if value == 0.5 => Unary::Sqrt,
        Binary::Pow if value == 1.0 => Unary::Identity,
        Binary::Pow if value == -1.0 => Unary::Reciprocal,
        _ => return None,
    })
}

/// A step into a new value of the operands' common shape.
fn join(l: &mut Lowering<'_>, function: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
    let shape = broadcast::shapes(&[l.value_shape(a), l.value_shape(b)])
        .ok_or_else(|| Error::unsupported("shapes do not broadcast together"))?;
    let y = l.fresh(DType::F32, shape)?;
    steps::binary(l, function, a, b, y)?;
    Ok(y)
}
