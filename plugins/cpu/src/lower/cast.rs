//! Changes of element type: Cast, QuantizeLinear and DequantizeLinear.
//!
//! Not here: what an encoding of a tensor means (`encoding`), and how its forms are made (`forms`).

use half::{bf16, f16};
use polychip_lowering::Storage;
use polychip_ops::{Attr, DType, Op};
use polychip_sdk::Result;

use super::builder::Lowering;
use super::encoding::{range, stands_for_f32};
use super::quantise::{dequantise, quantise};
use crate::part::{Encoding, EncodingKind, Node, Part};
use crate::step::{Operands, Plain};
use crate::work::Class;

/// The encoding that QuantizeLinear or DequantizeLinear states with constants, for a tensor of `dims`.
fn stated(part: &Part, node: &Node, dims: &[usize], dtype: DType) -> Option<Encoding> {
    let scale = node.input(1)?;
    let scales: Vec<f32> = part
        .numbers(scale)?
        .into_iter()
        .map(|value| value as f32)
        .collect();
    let zero_points: Vec<i32> = match node.input(2) {
        None => Vec::new(),
        Some(t) if part.tensors[t].dtype == dtype => {
            part.numbers(t)?.into_iter().map(|value| value as i32).collect()
        }
        Some(_) => return None,
    };
    let fits = zero_points.is_empty() || zero_points.len() == scales.len();
    if !fits || !part.plain_f32(scale) || node.attributes.int(Attr::BlockSize).unwrap_or(0) != 0 {
        return None;
    }
    let kind = if scales.len() == 1 {
        EncodingKind::PerTensor
    } else {
        let axis = polychip_ops::axis::normalise(node.attributes.int(Attr::Axis).unwrap_or(1), dims.len())?;
        if dims[axis] != scales.len() {
            return None;
        }
        EncodingKind::PerAxis { axis }
    };
    Some(Encoding {
        kind,
        scales,
        zero_points,
        real_dtype: DType::F32,
    })
}

/// Whether a node is QuantizeLinear or DequantizeLinear on a tensor that carries the encoding itself.
fn covers(part: &Part, node: &Node) -> bool {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return false;
    };
    let encoded = |t: usize| part.tensors[t].encoding.is_some() && stands_for_f32(part, t);
    match node.op {
        Op::QuantizeLinear => part.plain_f32(x) && encoded(y),
        Op::DequantizeLinear => encoded(x) && part.plain_f32(y),
        _ => false,
    }
}

/// Lowers QuantizeLinear and DequantizeLinear between f32 and integers.
fn linear(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    let part = l.part;
    if covers(part, node) {
        // the values pass; behind QuantizeLinear they are rounded as behind any op
        let layout = l.layout(x);
        let value = l.read(x, layout, Storage::Real)?;
        let shape = l.value_shape(value).to_vec();
        let view = l.view(value, shape);
        l.places[y].set(layout, Storage::Real, view);
        return Ok(true);
    }
    let (real, integer) = if node.op == Op::QuantizeLinear {
        (x, y)
    } else {
        (y, x)
    };
    let dtype = l.dtype(integer);
    let whole = part.tensors[integer].encoding.is_none() && range(dtype).is_some();
    if !part.plain_f32(real) || !whole {
        return Ok(false);
    }
    let dims = l.shape(x)?.to_vec();
    let Some(encoding) = stated(part, node, &dims, dtype) else {
        return Ok(false);
    };
    let input = l.rows(x)?;
    let output = l.write_rows(y)?;
    if node.op == Op::QuantizeLinear {
        quantise(l, dtype, &dims, encoding, input, output)?;
    } else {
        dequantise(l, dtype, &dims, encoding, input, output)?;
    }
    Ok(true)
}

/// Lowers Cast between the types that models compute with, and the two ops of quantisation.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    if matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear) {
        return linear(l, node);
    }
    if node.op != Op::Cast {
        return Ok(false);
    }
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Ok(false);
    };
    if l.part.tensors[x].encoding.is_some() || l.part.tensors[y].encoding.is_some() {
        return Ok(false);
    }
    let (from, to) = (l.dtype(x), l.dtype(y));
    if node.attributes.int(Attr::To) != Some(i64::from(to.code())) {
        return Ok(false);
    }
    use DType::{BF16, F16, F32};
    let run: fn(&mut Operands<'_>) = match (from, to) {
        (F16, F32) => |o| {
            for (y, &x) in o.write::<f32>(0).iter_mut().zip(o.read::<u16>(0)) {
                *y = f16::from_bits(x).to_f32();
            }
        },
        (BF16, F32) => |o| {
            for (y, &x) in o.write::<f32>(0).iter_mut().zip(o.read::<u16>(0)) {
                *y = bf16::from_bits(x).to_f32();
            }
        },
        (F32, F16) => |o| {
            for (y, &x) in o.write::<u16>(0).iter_mut().zip(o.read::<f32>(0)) {
                *y = f16::from_f32(x).to_bits();
            }
        },
        (F32, BF16) => |o| {
            for (y, &x) in o.write::<u16>(0).iter_mut().zip(o.read::<f32>(0)) {
                *y = bf16::from_f32(x).to_bits();
            }
        },
        _ => match numbers(from, to) {
            Some(run) => run,
            None => return Ok(false),
        },
    };
    let layout = l.layout(x);
    let (input, output) = (
        l.read(x, layout, Storage::Real)?,
        l.write(y, layout, Storage::Real)?,
    );
    l.step(
        "cast",
        &[input],
        &[output],
        None,
        Box::new(move |o| {
            run(o);
            Ok(())
        }),
    )
    .is(match (from, to) {
        (F16 | BF16, F32) | (F32, F16 | BF16) => Class::ConvertHalf,
        (from, to) if from.is_float() && !to.is_float() && to != DType::Bool => Class::ConvertHalf,
        _ => Class::Convert,
    });
    Ok(true)
}

/// The conversion between two types of numbers or truth values: floats are cut off towards zero, integers wrap.
fn numbers(from: DType, to: DType) -> Option<fn(&mut Operands<'_>)> {
    fn each<A: Plain, B: Plain>(o: &mut Operands<'_>, f: impl Fn(A) -> B) {
        for (y, &x) in o.write::<B>(0).iter_mut().zip(o.read::<A>(0)) {
            *y = f(x);
        }
    }
    macro_rules! to {
        ($from:ty, $way:ty) => {
            match to {
                DType::Bool => |o| each::<$from, u8>(o, |x| u8::from(x != <$from>::default())),
                DType::I8 => |o| each::<$from, i8>(o, |x| x as $way as i8),
                DType::I16 => |o| each::<$from, i16>(o, |x| x as $way as i16),
                DType::I32 => |o| each::<$from, i32>(o, |x| x as $way as i32),
                DType::I64 => |o| each::<$from, i64>(o, |x| x as $way as i64),
                DType::U8 => |o| each::<$from, u8>(o, |x| x as $way as u8),
                DType::U16 => |o| each::<$from, u16>(o, |x| x as $way as u16),
                DType::U32 => |o| each::<$from, u32>(o, |x| x as $way as u32),
                DType::U64 => |o| each::<$from, u64>(o, |x| x as $way as u64),
                DType::F32 => |o| each::<$from, f32>(o, |x| x as f32),
                DType::F64 => |o| each::<$from, f64>(o, |x| x as f64),
                _ => return None,
            }
        };
    }
    Some(match from {
        // a truth value is 0 or 1, whatever its byte is
        DType::Bool if to != DType::Bool => match to {
            DType::I8 | DType::U8 => |o| each::<u8, u8>(o, |x| u8::from(x != 0)),
            DType::I16 | DType::U16 => |o| each::<u8, u16>(o, |x| u16::from(x != 0)),
            DType::I32 | DType::U32 => |o| each::<u8, u32>(o, |x| u32::from(x != 0)),
            DType::I64 | DType::U64 => |o| each::<u8, u64>(o, |x| u64::from(x != 0)),
            DType::F32 => |o| each::<u8, f32>(o, |x| f32::from(u8::from(x != 0))),
            DType::F64 => |o| each::<u8, f64>(o, |x| f64::from(u8::from(x != 0))),
            _ => return None,
        },
        DType::Bool | DType::U8 => to!(u8, u8),
        DType::I8 => to!(i8, i8),
        DType::I16 => to!(i16, i16),
        DType::I32 => to!(i32, i32),
        DType::I64 => to!(i64, i64),
        DType::U16 => to!(u16, u16),
        DType::U32 => to!(u32, u32),
        DType::U64 => to!(u64, u64),
        // what is negative wraps, as an integer does; what no integer of 64 bits holds is the nearest one
        DType::F32 if to == DType::U64 => |o| each::<f32, u64>(o, |x| (x as i64 as u64).max(x as u64)),
        DType::F64 if to == DType::U64 => |o| each::<f64, u64>(o, |x| (x as i64 as u64).max(x as u64)),
        DType::F32 => to!(f32, i64),
        DType::F64 => to!(f64, i64),
        _ => return None,
    })
}
