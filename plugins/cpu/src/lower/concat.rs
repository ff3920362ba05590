//! Concatenation: convolutions compute into their place, other operands are copied there.
//!
//! Invariant: a tensor that is computed in place has no other reader than the concatenation.

use polychip_ops::{Attr, Op, axis};
use polychip_sdk::{Error, Result};

use super::movement::{place, strided};
use super::{Form, Lowering, channels_last, is_trivial};
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
pub(super) fn joins(part: &Part) -> Vec<Option<Join>> {
    let mut joins = vec![None; part.tensors.len()];
    let uses = part.uses();
    for node in part.nodes.iter().filter(|node| node.op == Op::Concat) {
        let Some(output) = node.output(0).filter(|&t| part.plain_f32(t)) else {
            continue;
        };
        let dims = part.dims(output).unwrap_or(&[]);
        let along = node.attributes.int(Attr::Axis).unwrap_or(0);
        let images = (3..=5).contains(&dims.len()) && axis::normalise(along, dims.len()) == Some(1);
        if !images || !node.inputs.iter().flatten().all(|&t| part.plain_f32(t)) {
            continue;
        }
        let mut first = 0;
        for &tensor in node.inputs.iter().flatten() {
            let Some(&[_, channels, ..]) = part.dims(tensor) else {
                break;
            };
            if uses[tensor] == 1 {
                joins[tensor] = Some(Join {
                    output,
                    first,
                    channels: dims[1],
                });
            }
            first += channels;
        }
    }
    joins
}

/// The place in its concatenation where a tensor is computed, channels last: from its first channel to the end.
pub(super) fn place_of(
    l: &mut Lowering<'_>,
    tensor: TensorIndex,
    join: Join,
    brief: bool,
) -> Result<ValueId> {
    let whole = match *l.forms[join.output].at(Form::Channels, brief) {
        Some(value) => value,
        None => l.result_as(join.output, Form::Channels, brief)?,
    };
    let len = l.shape(join.output)?.iter().product::<usize>() - join.first;
    let value = l.piece(whole, join.first, vec![len])?;
    // what reads the tensor is the concatenation, which finds it in place
    l.give(tensor, Form::Channels, value, brief);
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
        let in_place = begun.is_some_and(|whole| {
            let storage = |value: ValueId| l.values[value.0 as usize].storage;
            let forms = &l.forms[input];
            let own = if brief {
                forms.brief_channels
            } else {
                forms.channels
            };
            let own = own.filter(|_| l.joins[input].is_some());
            own.is_some_and(|own| storage(own) == storage(whole))
        });
        if in_place {
            let shape = channels_last(l.shape(input)?);
            sum += shape[at];
            values.push((None, shape));
            continue;
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
        values.push((Some(value), shape));
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
        if let Some(value) = value {
            let from = strides(&shape)?;
            strided(l, "concat", &shape, (value, 0, &from), (result, offset, &to))?;
        }
        offset += shape[at] * to[at] as usize;
    }
    Ok(true)
}
