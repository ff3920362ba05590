//! Shapes of changes of element type: the shape stays.
//!
//! Invariant: integers keep their value, so that shape arithmetic survives a cast.
//! Not here: rounding and saturation (the kernels').

use crate::infer::call::{Call, Out, Result, bad_input, make_value};
use crate::{Attr, DType, Op, Value};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    let to = match call.op {
        Op::CastLike => call.dtype(1),
        _ => call.dtype_attr(Attr::To)?,
    };
    if let (Op::BitCast, Some(from), Some(to)) = (call.op, call.dtype(0), to)
        && from.bits() != to.bits()
    {
        bad_input!(call, 0, "and {to} has another width");
    }
    let value = match to {
        Some(to) if call.op != Op::BitCast => converted(call, to),
        _ => None,
    };
    Ok(vec![
        Out::new(call.dims(0).map(<[_]>::to_vec)).typed(to).valued(value),
    ])
}

/// Integers of rank 0 or 1 as another integer type that holds them.
fn converted(call: &Call<'_>, to: DType) -> Option<Value> {
    if call.dtype(0) == Some(to) {
        return call.value(0).cloned();
    }
    if !to.is_int() {
        return None;
    }
    make_value(to, call.dims(0)?.len(), call.elements(0)?)
}
