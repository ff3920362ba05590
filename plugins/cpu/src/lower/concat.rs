//! Concatenation: convolutions compute into their place, other operands are copied there.
//!
//! Invariant: a step never reads memory of the concatenation that it writes into, but for the residual of a convolution,
//! which knows of it.

use polychip_ops::{Attr, Op, axis};
use polychip_sdk::{Error, Result};

use super::movement::{place, strided};
use super::{Form, Lowering, Within, channels_last, is_trivial};
use crate::part::{Node, Part, TensorIndex};
use crate::step::ValueId;

/// A place in a concatenation of channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Join {
    /// The concatenation's result.
    output: TensorIndex,
    /// First channel.
    first: usize,
    /// Channels of the result.
    pub(super) channels: usize,
}

/// For each tensor the place in a concatenation of images along channels where it may be computed.
///
/// Whoever else reads it finds it there too; a tensor that is split into neighbours of a concatenation has their place.
pub(super) fn joins(part: &Part) -> Vec<Option<Join>> {
    let mut joins = vec![None; part.tensors.len()];
    let along_channels = |node: &Node, dims: &[usize]| {
        let along = node.attributes.int(Attr::Axis).unwrap_or(0);
        (3..=5).contains(&dims.len()) && axis::normalise(along, dims.len()) == Some(1)
    };
    for node in part.nodes.iter().filter(|node| node.op == Op::Concat) {
        let Some(output) = node.output(0).filter(|&t| part.plain_f32(t)) else {
            continue;
        };
        let dims = part.dims(output).unwrap_or(&[]);
        if !along_channels(node, dims) || !node.inputs.iter().flatten().all(|&t| part.plain_f32(t)) {
            continue;
        }
        let mut first = 0;
        for &tensor in node.inputs.iter().flatten() {
            let Some(&[_, channels, ..]) = part.dims(tensor) else {
                break;
            };
            if joins[tensor].is_none() && !part.outputs.contains(&tensor) {
                joins[tensor] = Some(Join {
                    output,
                    first,
                    channels: dims[1],
                });
            }
            first += channels;
        }
    }
    for node in part.nodes.iter().filter(|node| node.op == Op::Split) {
        let Some(x) = node.input(0).filter(|&x| part.plain_f32(x)) else {
            continue;
        };
        let whole = part.dims(x).unwrap_or(&[]);
        if joins[x].is_some() || part.outputs.contains(&x) || !along_channels(node, whole) {
            continue;
        }
        let mut place: Option<Join> = None;
        let mut channels = 0;
        let neighbours = node.outputs.iter().all(|&piece| {
            let (Some(join), Some(&[_, own, ..])) = (
                piece.and_then(|piece: TensorIndex| joins[piece]),
                piece.and_then(|piece| part.dims(piece)),
            ) else {
                return false;
            };
            let place = place.get_or_insert(join);
            let follows = join.output == place.output && join.first == place.first + channels;
            channels += own;
            follows
        });
        if neighbours && Some(&channels) == whole.get(1) {
            joins[x] = place;
        }
    }
    joins
}

/// The concatenation's result, channels last.
pub(super) fn begin(l: &mut Lowering<'_>, join: Join, brief: bool) -> Result<ValueId> {
    match *l.forms[join.output].at(Form::Channels, brief) {
        Some(value) => Ok(value),
        None => l.result_as(join.output, Form::Channels, brief),
    }
}

/// How many elements a place in a concatenation lies behind a value in the same memory.
pub(super) fn distance(
    l: &Lowering<'_>,
    value: ValueId,
    whole: ValueId,
    join: Join,
    brief: bool,
) -> Option<usize> {
    let offset = |value: ValueId| l.values[value.0 as usize].offset;
    let width = if brief { 2 } else { 4 };
    let place = offset(whole) + join.first * width;
    l.are_together(value, whole)
        .then(|| place.checked_sub(offset(value)))?
        .map(|bytes| bytes / width)
}

/// The place in its concatenation where a tensor is computed, channels last: from its first channel to the end.
pub(super) fn place_of(
    l: &mut Lowering<'_>,
    tensor: TensorIndex,
    join: Join,
    brief: bool,
) -> Result<ValueId> {
    let whole = begin(l, join, brief)?;
    let len = l.shape(join.output)?.iter().product::<usize>() - join.first;
    let value = l.piece(whole, join.first, vec![len])?;
    l.forms[tensor].within = Some(Within {
        value,
        stride: join.channels,
        brief,
    });
    Ok(value)
}

/// Whether a tensor of this element type may be computed in its place: all are of the type of the first.
pub(super) fn admits(l: &Lowering<'_>, join: Join, brief: bool) -> bool {
    !l.has_channels(join.output) || l.is_brief(join.output) == brief
}

/// Lowers Concat.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let Some(y) = node.output(0).filter(|_| node.op == Op::Concat) else {
        return Ok(false);
    };
    let inputs: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
    let dtype = l.real_dtype(y);
    if !matches!(dtype.byte_width(), Some(1 | 2 | 4 | 8))
        || inputs.is_empty()
        || inputs.iter().any(|&t| l.real_dtype(t) != dtype)
    {
        return Ok(false);
    }
    let out = l.shape(y)?;
    let rank = out.len();
    let along = node.attributes.int(Attr::Axis).unwrap_or(0);
    let axis = axis::normalise(along, rank)
        .ok_or_else(|| Error::bad_argument(format!("axis {along} of a tensor of rank {rank}")))?;
    // of bf16 where it was begun so, or where some of it is
    let brief = if l.has_channels(y) {
        l.is_brief(y)
    } else {
        l.may_be_brief(y) && inputs.iter().any(|&t| l.is_brief(t))
    };
    let begun = *l.forms[y].at(Form::Channels, brief);
    let mut form = if begun.is_some() {
        Form::Channels
    } else {
        Form::Rows
    };
    for &input in &inputs {
        if l.is_channels_only(input) && !is_trivial(l.shape(input)?) {
            form = Form::Channels;
        }
    }
    let out = if form == Form::Channels {
        channels_last(out)
    } else {
        out.to_vec()
    };
    let at = place(form, axis, rank);
    let strides = |shape: &[usize]| -> Result<Vec<isize>> {
        axis::strides(shape)
            .map(|strides| strides.iter().map(|&stride| stride as isize).collect())
            .ok_or_else(|| Error::unsupported(format!("a tensor of shape {shape:?} is too large")))
    };
    let mut values = Vec::new();
    let mut sum = 0usize;
    for &input in &inputs {
        let within = l.forms[input]
            .within
            .filter(|within| form == Form::Channels && within.brief == brief);
        if let Some(within) = within {
            let own = channels_last(l.shape(input)?);
            let together = begun.is_some_and(|whole| l.are_together(within.value, whole));
            let in_place = begun.is_some_and(|whole| {
                let offset = |value: ValueId| l.values[value.0 as usize].offset;
                let width = if brief { 2 } else { 4 };
                together && offset(within.value) == offset(whole) + sum * width
            });
            let fits = own.len() == rank && (0..rank).all(|i| i == at || own[i] == out[i]);
            if fits && (in_place || !together) {
                sum += own[at];
                values.push(((!in_place).then_some((within.value, Some(within.stride))), own));
                continue;
            }
        }
        let value = l.form_as(input, form, brief)?;
        let shape = l.value_shape(value).to_vec();
        let fits = shape.len() == rank && (0..rank).all(|i| i == at || shape[i] == out[i]);
        if !fits {
            return Err(Error::bad_argument(format!(
                "{shape:?} is not a piece of {out:?} along axis {axis}"
            )));
        }
        sum += shape[at];
        values.push((Some((value, None)), shape));
    }
    if sum != out[at] {
        return Err(Error::bad_argument(format!(
            "pieces of {sum} in all do not make {out:?} along axis {axis}"
        )));
    }
    let result = match begun {
        Some(whole) => whole,
        None => l.result_as(y, form, brief)?,
    };
    let to = strides(&out)?;
    let mut offset = 0usize;
    for (value, shape) in values {
        if let Some((value, pixel)) = value {
            let mut from = strides(&shape)?;
            if let Some(pixel) = pixel {
                for stride in &mut from[..rank - 1] {
                    *stride = *stride / shape[rank - 1].max(1) as isize * pixel as isize;
                }
            }
            strided(l, "concat", &shape, (value, 0, &from), (result, offset, &to))?;
        }
        offset += shape[at] * to[at] as usize;
    }
    Ok(true)
}
