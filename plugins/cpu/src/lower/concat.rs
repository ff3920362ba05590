//! Concatenation: what was computed in place stays there, other operands are copied.
//!
//! Invariant: a step never reads memory of the concatenation that it writes into, but for the residual of a convolution,
//! which knows of it.

use polychip_lowering::{Layout, Storage};
use polychip_ops::operator::Along;
use polychip_ops::{Op, axis};
use polychip_sdk::{Error, Result};

use super::builder::Lowering;
use super::steps::{dense, strided};
use crate::part::{Node, TensorIndex};
use crate::step::ValueId;

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
    let Ok(Along { axis: along }) = node.typed() else {
        return Ok(false);
    };
    let axis = axis::normalise(along, rank)
        .ok_or_else(|| Error::bad_argument(format!("axis {along} of a tensor of rank {rank}")))?;
    // of bf16 where it was begun so, or where some of it is
    let is_bf16 = if l.has_channels(y) {
        l.is_bf16(y)
    } else {
        l.may_be_bf16(y) && inputs.iter().any(|&t| l.is_bf16(t))
    };
    let as_stored = |&t: &TensorIndex| l.moved_as(t, &[Some(y)]) == Storage::Stored;
    let storage = if is_bf16 {
        Storage::Bf16
    } else if !l.has_channels(y) && inputs.iter().all(as_stored) {
        Storage::Stored
    } else {
        Storage::Real
    };
    let begun = l.tensor_forms[y].get(Layout::ChannelsLast, storage);
    let mut layout = if begun.is_some() {
        Layout::ChannelsLast
    } else {
        Layout::RowMajor
    };
    for &input in &inputs {
        if l.is_channels_only(input) && !Layout::is_same(l.shape(input)?) {
            layout = Layout::ChannelsLast;
        }
    }
    let out = layout.dims(out);
    let at = layout.place(axis, rank);
    let mut values = Vec::new();
    let mut sum = 0usize;
    for &input in &inputs {
        let slice = l.tensor_forms[input]
            .channel_slice
            .filter(|slice| layout == Layout::ChannelsLast && slice.storage == storage);
        if let Some(slice) = slice {
            let own = layout.dims(l.shape(input)?);
            let together = begun.is_some_and(|whole| l.are_together(slice.value, whole));
            let in_place = begun.is_some_and(|whole| {
                let offset = |value: ValueId| l.values[value.0 as usize].offset;
                together && offset(slice.value) == offset(whole) + sum * l.width(whole)
            });
            let fits = own.len() == rank && (0..rank).all(|i| i == at || own[i] == out[i]);
            if fits && (in_place || !together) {
                sum += own[at];
                values.push(((!in_place).then_some((slice.value, Some(slice.stride))), own));
                continue;
            }
        }
        let value = l.read(input, layout, storage)?;
        let shape = l.value_shape(value).to_vec();
        let fits = shape.len() == rank && (0..rank).all(|i| i == at || shape[i] == out[i]);
        if !fits {
            return Err(Error::bad_argument(format!(
                "{shape:?} is not a slice of {out:?} along axis {axis}"
            )));
        }
        sum += shape[at];
        values.push((Some((value, None)), shape));
    }
    if sum != out[at] {
        return Err(Error::bad_argument(format!(
            "inputs of {sum} in all do not make {out:?} along axis {axis}"
        )));
    }
    let result = match begun {
        Some(whole) => whole,
        None => l.write(y, layout, storage)?,
    };
    let to = dense(&out)?;
    let mut offset = 0usize;
    for (value, shape) in values {
        if let Some((value, pixel)) = value {
            let mut from = dense(&shape)?;
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
