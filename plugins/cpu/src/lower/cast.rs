//! Changes of element type: Cast, QuantizeLinear and DequantizeLinear.
//!
//! Not here: what an encoding of a tensor means (`encoding`), and how its forms are made (`forms`).

use half::{bf16, f16};
use polychip_lowering::Storage;
use polychip_ops::{Attr, DType, Op};
use polychip_sdk::Result;

use super::builder::Lowering;
use super::encoding::{range, stands_for_f32};
use super::quantise::{FromLossy, dequantise, quantise};
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
    fn plain<A: Plain, B: Plain + FromLossy<A>>(o: &mut Operands<'_>) {
        for (y, &x) in o.write::<B>(0).iter_mut().zip(o.read::<A>(0)) {
            *y = B::from_lossy(x);
        }
    }
    fn is_true<A: Plain + Default + PartialEq>(o: &mut Operands<'_>) {
        for (y, &x) in o.write::<u8>(0).iter_mut().zip(o.read::<A>(0)) {
            *y = u8::from(x != A::default());
        }
    }
    use DType::{BF16, Bool, F16, F32, I8, I32, I64, U8};
    let run: fn(&mut Operands<'_>) = match (from, to) {
        (F32, F32) => plain::<f32, f32>,
        (I64, I64) => plain::<i64, i64>,
        (I32, I32) => plain::<i32, i32>,
        (I64, F32) => plain::<i64, f32>,
        (I32, F32) => plain::<i32, f32>,
        (U8 | Bool, F32) => plain::<u8, f32>,
        (I8, F32) => plain::<i8, f32>,
        (U8 | Bool, I32) => plain::<u8, i32>,
        (U8 | Bool, I64) => plain::<u8, i64>,
        (I32, I64) => plain::<i32, i64>,
        (I64, I32) => plain::<i64, i32>,
        (F32, Bool) => is_true::<f32>,
        (I32, Bool) => is_true::<i32>,
        (I64, Bool) => is_true::<i64>,
        (U8, Bool) => is_true::<u8>,
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
        _ => return Ok(false),
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
        _ => Class::Convert,
    });
    Ok(true)
}
