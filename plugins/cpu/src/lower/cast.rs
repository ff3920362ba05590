//! Changes of element type: Cast, QuantizeLinear and DequantizeLinear.
//!
//! Not here: what an encoding of a tensor means (`encoding`), and how its forms are made (`forms`).

use polychip_lowering::{Layout, Storage};
use polychip_ops::{Attr, DType, Op};
use polychip_sdk::Result;

use super::builder::Lowering;
use super::encoding::{range, stands_for_f32};
use super::quantise::{dequantise, quantise};
use super::steps;
use crate::part::{Encoding, EncodingKind, Node, Part, TensorIndex};
use crate::step::{Operands, Plain, Step, ValueId};
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
    let half = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    match (from, to) {
        _ if half(from) && half(to) && from == to => {
            let value = l.as_is(x)?;
            let shape = l.value_shape(value).to_vec();
            let view = l.view(value, shape);
            l.places[y].set(Layout::RowMajor, Storage::Stored, view);
        }
        (_, DType::F32) if half(from) => widened(l, x, y)?,
        _ if half(to) && (half(from) || from == DType::F32) => rounded(l, x, y)?,
        _ if half(from) => {
            // the number that 16 bits hold is cut off, not the one that they were rounded from
            let Some(run) = numbers(DType::F32, to) else {
                return Ok(false);
            };
            let stored = l.as_is(x)?;
            let wide = l.fresh(DType::F32, l.shape(x)?.to_vec())?;
            steps::widen(l, stored, wide);
            let output = l.write_rows(y)?;
            convert(l, run, wide, output).is(class(DType::F32, to));
        }
        _ if half(to) => {
            // what f32 does not hold exactly would be rounded twice
            let exact = to == DType::F16 || from.byte_width().is_some_and(|width| width <= 2);
            let Some(run) = numbers(from, DType::F32).filter(|_| exact && from != DType::F64) else {
                return Ok(false);
            };
            let input = l.rows(x)?;
            let wide = l.fresh(DType::F32, l.shape(x)?.to_vec())?;
            convert(l, run, input, wide).is(class(from, DType::F32));
            let output = l.write_as_is(y)?;
            steps::narrow(l, wide, output);
        }
        _ => {
            let Some(run) = numbers(from, to) else {
                return Ok(false);
            };
            let layout = l.layout(x);
            let input = l.read(x, layout, Storage::Real)?;
            let output = l.write(y, layout, Storage::Real)?;
            convert(l, run, input, output).is(class(from, to));
        }
    }
    Ok(true)
}

/// f32 of 16-bit floats: what they were computed as, where they were.
fn widened(l: &mut Lowering<'_>, x: TensorIndex, y: TensorIndex) -> Result<()> {
    if l.has_channels(x) || l.places[x].get(Layout::RowMajor, Storage::Stored).is_none() {
        let layout = l.layout(x);
        let value = l.read(x, layout, Storage::Real)?;
        let shape = l.value_shape(value).to_vec();
        let view = l.view(value, shape);
        l.places[y].set(layout, Storage::Real, view);
        return Ok(());
    }
    let (input, output) = (l.as_is(x)?, l.write_rows(y)?);
    steps::widen(l, input, output);
    Ok(())
}

/// Values rounded to 16 bits; images stay channels last.
fn rounded(l: &mut Lowering<'_>, x: TensorIndex, y: TensorIndex) -> Result<()> {
    let layout = l.layout(x);
    let input = l.read(x, layout, Storage::Real)?;
    if layout == Layout::RowMajor {
        let output = l.write_as_is(y)?;
        steps::narrow(l, input, output);
        return Ok(());
    }
    let shape = l.value_shape(input).to_vec();
    let narrow = l.fresh(l.dtype(y), shape)?;
    steps::narrow(l, input, narrow);
    let output = l.write(y, layout, Storage::Real)?;
    steps::widen(l, narrow, output);
    Ok(())
}

/// Adds a conversion's step.
fn convert<'l>(
    l: &'l mut Lowering<'_>,
    run: fn(&mut Operands<'_>),
    input: ValueId,
    output: ValueId,
) -> &'l mut Step {
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
}

fn class(from: DType, to: DType) -> Class {
    if from.is_float() && !to.is_float() && to != DType::Bool {
        Class::Truncate
    } else {
        Class::Convert
    }
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
