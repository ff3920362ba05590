//! Shapes of changes of element type: the shape stays.
//!
//! Invariant: small numbers keep their value, so that shape arithmetic survives a cast.
//! Not here: rounding and saturation (the kernels').

use crate::infer::call::{Call, MAX_VALUE, Out, Result, bad_input, make_value};
use crate::{Attr, DType, Element, Literal, Op, Value};

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

/// Small tensors of rank 0 or 1 as another type that holds their values exactly.
fn converted(call: &Call<'_>, to: DType) -> Option<Value> {
    if call.dtype(0) == Some(to) {
        return call.value(0).cloned();
    }
    let rank = call.dims(0).filter(|dims| dims.len() <= 1)?.len();
    match call.value(0)? {
        value if to.is_int() && call.dtype(0).is_some_and(DType::is_float) => {
            // A float is cut to an integer; beyond 2^53 it may stand for several.
            let floats = value.as_f64s()?;
            let exact = |float: &f64| (float.abs() < 9e15).then_some(Element::Int(*float as i64));
            make_value(to, rank, floats.iter().map(exact).collect::<Option<_>>()?)
        }
        _ if to.is_int() => {
            let mut elements = call.elements(0)?;
            if to.bits() < Some(32) {
                // A named size may be more than so short an integer holds.
                for element in elements.iter_mut().filter(|element| element.int().is_none()) {
                    *element = Element::Unknown;
                }
            }
            make_value(to, rank, elements)
        }
        value if to == DType::F32 => {
            // A 32-bit float holds every integer up to 2^24.
            let ints = value.as_i64s().filter(|ints| ints.len() <= MAX_VALUE)?;
            let exact = |int: &i64| (int.unsigned_abs() <= 1 << 24).then_some(*int as f32);
            let floats = ints.iter().map(exact).collect::<Option<Vec<f32>>>()?;
            let shape = if rank == 0 { Vec::new() } else { vec![floats.len()] };
            Some(Value::Literal(Literal {
                shape,
                ..Literal::f32s(&floats)
            }))
        }
        _ => None,
    }
}
