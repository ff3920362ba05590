//! Concatenation: each operand is copied into its place.

use polychip_ops::{Attr, Op, axis};
use polychip_sdk::{Error, Result};

use super::movement::{place, strided};
use super::{Form, Lowering, channels_last, is_trivial};
use crate::part::{Node, TensorIndex};

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
    let mut form = Form::Rows;
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
        let value = l.form(input, form)?;
        let shape = l.value_shape(value).to_vec();
        let fits = shape.len() == rank && (0..rank).all(|i| i == at || shape[i] == out[i]);
        if !fits {
            return Err(Error::bad_argument(format!(
                "{shape:?} is not a piece of {out:?} along axis {axis}"
            )));
        }
        sum += shape[at];
        values.push((value, shape));
    }
    if sum != out[at] {
        return Err(Error::bad_argument(format!(
            "pieces of {sum} in all do not make {out:?} along axis {axis}"
        )));
    }
    let result = l.result(y, form)?;
    let to = strides(&out)?;
    let mut offset = 0usize;
    for (value, shape) in values {
        let from = strides(&shape)?;
        strided(l, "concat", &shape, (value, 0, &from), (result, offset, &to))?;
        offset += shape[at] * to[at] as usize;
    }
    Ok(true)
}
