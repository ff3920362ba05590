//! Between stored elements and the f32 values that kernels compute on: encodings and Cast.
//!
//! Invariants:
//! 1. An op on a quantised tensor means dequantise, op, quantise: behind each op the f32 values of a quantised
//!    result are rounded to what its integers can hold, so that every later reader sees those.
//! 2. Rounding is to nearest even and saturates, as ONNX says of QuantizeLinear.

use half::{bf16, f16};
use polychip_lowering::{Layout, ScaleIndex, integers};
use polychip_ops::{Attr, DType, Op};
use polychip_sdk::{Error, Result};

use super::{Form, Lowering, bytes_of};
use crate::part::{Encoding, EncodingKind, Node, Part, TensorIndex};
use crate::step::{Operands, Plain, ValueId};
use crate::work::Class;

/// Whether an op sees f32 values: f32 itself, or integers with an encoding of f32.
pub(super) fn stands_for_f32(part: &Part, tensor: TensorIndex) -> bool {
    let t = &part.tensors[tensor];
    match &t.encoding {
        Some(encoding) => encoding.real_dtype == DType::F32 && range(t.dtype).is_some(),
        None => t.dtype == DType::F32,
    }
}

/// The integers that a stored type holds.
pub(crate) fn range(dtype: DType) -> Option<(f32, f32)> {
    Some(match dtype {
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::U16 => (0.0, 65535.0),
        DType::I32 => (i32::MIN as f32, i32::MAX as f32),
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I2 => (-2.0, 1.0),
        DType::U2 => (0.0, 3.0),
        _ => return None,
    })
}

/// Adds a step that makes real values of stored integers.
pub(super) fn decode(l: &mut Lowering<'_>, tensor: TensorIndex) -> Result<ValueId> {
    let part = l.part;
    let t = &part.tensors[tensor];
    let encoding = t
        .encoding
        .clone()
        .expect("invariant: asked of quantised tensors only");
    let stored = l.forms[tensor].stored.ok_or_else(|| l.not_computed(tensor))?;
    let dims = l.shape(tensor)?.to_vec();
    let result = l.fresh(DType::F32, dims.clone())?;
    dequantise(l, t.dtype, &dims, encoding, stored, result)?;
    Ok(result)
}

/// Adds a step `result = real(stored)`.
fn dequantise(
    l: &mut Lowering<'_>,
    dtype: DType,
    dims: &[usize],
    encoding: Encoding,
    stored: ValueId,
    result: ValueId,
) -> Result<()> {
    let index = ScaleIndex::new(&encoding, dims, Layout::RowMajor)?;
    let elements: usize = dims.iter().product();
    l.step(
        "dequantise",
        &[stored],
        &[result],
        None,
        Box::new(move |o| {
            let y = o.write::<f32>(0);
            fn each<T: Plain>(o: &Operands<'_>, encoding: &Encoding, index: &ScaleIndex, y: &mut [f32])
            where
                f32: FromLossy<T>,
            {
                let x = o.read::<T>(0);
                index.runs(encoding, y.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for (y, &x) in y[range.clone()].iter_mut().zip(&x[range]) {
                        *y = (f32::from_lossy(x) - zero) * scale;
                    }
                });
            }
            match dtype {
                DType::I8 => each::<i8>(o, &encoding, &index, y),
                DType::U8 => each::<u8>(o, &encoding, &index, y),
                DType::I16 => each::<i16>(o, &encoding, &index, y),
                DType::U16 => each::<u16>(o, &encoding, &index, y),
                DType::I32 => {
                    // the difference is taken in integers, which f32 cannot hold
                    let x = o.read::<i32>(0);
                    for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                        let at = index.at(i);
                        let zero = encoding.zero_points.get(at).copied().unwrap_or(0);
                        *y = x.wrapping_sub(zero) as f32 * encoding.scales[at];
                    }
                }
                _ => {
                    let stored = integers(dtype, elements, o.read::<u8>(0))?;
                    for (i, (y, x)) in y.iter_mut().zip(stored).enumerate() {
                        let at = index.at(i);
                        let zero = encoding.zero_points.get(at).copied().unwrap_or(0);
                        *y = (x - zero) as f32 * encoding.scales[at];
                    }
                }
            }
            Ok(())
        }),
    )
    .is(Class::Dequantise);
    Ok(())
}

/// Adds a step that makes stored integers of real values.
pub(super) fn encode(l: &mut Lowering<'_>, tensor: TensorIndex) -> Result<ValueId> {
    let part = l.part;
    let t = &part.tensors[tensor];
    let encoding = t
        .encoding
        .clone()
        .expect("invariant: asked of quantised tensors only");
    let real = l.rows(tensor)?;
    let dims = l.shape(tensor)?.to_vec();
    let bytes = bytes_of(t.dtype, &dims)?;
    let inputs = l.part.inputs.len();
    let home = match l.wishes[tensor] {
        // a wish that came through a view is for the memory of another tensor
        Some(port) if l.part.outputs.get(port - inputs) == Some(&tensor) => crate::step::Home::Port(port),
        _ => crate::step::Home::Arena(0),
    };
    let storage = l.storage(bytes, home);
    let result = l.value(t.dtype, dims.clone(), bytes, storage);
    quantise(l, t.dtype, &dims, encoding, real, result)?;
    Ok(result)
}

fn limits(dtype: DType) -> Result<(f32, f32)> {
    range(dtype).ok_or_else(|| Error::unsupported(format!("an encoding of {} is not computed", dtype.name())))
}

/// Adds a step `result = stored(real)`.
fn quantise(
    l: &mut Lowering<'_>,
    dtype: DType,
    dims: &[usize],
    encoding: Encoding,
    real: ValueId,
    result: ValueId,
) -> Result<()> {
    let (low, high) = limits(dtype)?;
    let index = ScaleIndex::new(&encoding, dims, Layout::RowMajor)?;
    l.step(
        "quantise",
        &[real],
        &[result],
        None,
        Box::new(move |o| {
            let x = o.read::<f32>(0);
            fn each<T: Plain + FromLossy<f32>>(
                o: &mut Operands<'_>,
                encoding: &Encoding,
                index: &ScaleIndex,
                x: &[f32],
                (low, high): (f32, f32),
            ) {
                let y = o.write::<T>(0);
                index.runs(encoding, x.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for (y, &x) in y[range.clone()].iter_mut().zip(&x[range]) {
                        *y = T::from_lossy(quantised(x, scale, low - zero, high - zero) + zero);
                    }
                });
            }
            let limits = (low, high);
            match dtype {
                DType::I8 => each::<i8>(o, &encoding, &index, x, limits),
                DType::U8 => each::<u8>(o, &encoding, &index, x, limits),
                DType::I16 => each::<i16>(o, &encoding, &index, x, limits),
                DType::U16 => each::<u16>(o, &encoding, &index, x, limits),
                DType::I32 => each::<i32>(o, &encoding, &index, x, limits),
                _ => {
                    let bits = dtype.bits().unwrap_or(8).min(8);
                    let per_byte = 8 / bits;
                    let y = o.write::<u8>(0);
                    y.fill(0);
                    for (i, &x) in x.iter().enumerate() {
                        let at = index.at(i);
                        let zero = encoding.zero_points.get(at).copied().unwrap_or(0) as f32;
                        let code = (quantised(x, encoding.scales[at], low - zero, high - zero) + zero) as i32;
                        y[i / per_byte] |= ((code & ((1 << bits) - 1)) << (i % per_byte * bits)) as u8;
                    }
                }
            }
            Ok(())
        }),
    )
    .is(Class::Quantise);
    Ok(())
}

/// The integer that stands for `x`, before the zero point is added; `low` and `high` are less it.
#[inline(always)]
fn quantised(x: f32, scale: f32, low: f32, high: f32) -> f32 {
    // adding 1.5 * 2^23 leaves no bit for a fraction, and so rounds to nearest even up to 2^22; the library's
    // function is a call per element where the instruction set is not known to have one
    const SHIFT: f32 = 12_582_912.0;
    let x = (x / scale).max(low).min(high);
    if low > -4_000_000.0 && high < 4_000_000.0 {
        (x + SHIFT) - SHIFT
    } else {
        x.round_ties_even()
    }
}

/// Adds a step that rounds the f32 values of a quantised tensor to what its integers can hold.
pub(super) fn round_to_encoding(l: &mut Lowering<'_>, tensor: TensorIndex) -> Result<()> {
    let part = l.part;
    let t = &part.tensors[tensor];
    let Some(encoding) = t.encoding.clone() else {
        return Ok(());
    };
    if super::codes::grid(part, tensor).is_some() {
        return l.round_to_codes(tensor);
    }
    let (value, form) = match &l.forms[tensor] {
        super::Forms { stored: Some(_), .. } => return Ok(()),
        super::Forms {
            channels: Some(value),
            rows: None,
            ..
        } => (*value, Form::Channels),
        super::Forms {
            rows: Some(value), ..
        } => (*value, Form::Rows),
        _ => return Ok(()),
    };
    let (low, high) = limits(t.dtype)?;
    let dims = l.shape(tensor)?;
    let index = ScaleIndex::new(&encoding, dims, form.layout())?;
    // memory that something else also sees (a view, an operand) is left alone
    let old = &l.values[value.0 as usize];
    let shape = old.shape.clone().unwrap_or_default();
    let result = l.fresh(DType::F32, shape)?;
    l.step(
        "round to encoding",
        &[value],
        &[result],
        None,
        Box::new(move |o| {
            if o.shared().is_none() {
                let x = o.read::<f32>(0);
                let y = o.write::<f32>(0);
                index.runs(&encoding, y.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for (y, &x) in y[range.clone()].iter_mut().zip(&x[range]) {
                        *y = quantised(x, scale, low - zero, high - zero) * scale;
                    }
                });
            } else {
                let y = o.write::<f32>(0);
                index.runs(&encoding, y.len(), |range, scale, zero| {
                    let zero = zero as f32;
                    for y in &mut y[range] {
                        *y = quantised(*y, scale, low - zero, high - zero) * scale;
                    }
                });
            }
            Ok(())
        }),
    )
    .is(Class::Quantise)
    .may_share = vec![0];
    match form {
        Form::Rows => {
            l.forms[tensor].rows = Some(result);
            // what was made of the unrounded values is of no use
            l.forms[tensor].channels = None;
        }
        Form::Channels => l.forms[tensor].channels = Some(result),
    }
    Ok(())
}

/// Numeric conversion that saturates and truncates, as `as` does.
pub(crate) trait FromLossy<T> {
    /// The nearest value of this type.
    fn from_lossy(value: T) -> Self;
}

macro_rules! lossy {
    ($($from:ty => $($to:ty),+;)+) => {$($(
        impl FromLossy<$from> for $to {
            #[inline(always)]
            fn from_lossy(value: $from) -> $to {
                value as $to
            }
        }
    )+)+};
}
lossy! {
    f32 => f32, i8, u8, i16, u16, i32, u32, i64, u64;
    i8 => f32;
    u8 => f32, i32, i64;
    i16 => f32;
    u16 => f32;
    i32 => f32, i32, i64;
    u32 => f32;
    i64 => f32, i32, i64;
    u64 => f32;
}

/// Ops that move or select elements: what they give holds one encoding with what they take.
fn carries(op: Op) -> bool {
    matches!(
        op,
        Op::Identity
            | Op::Reshape
            | Op::Flatten
            | Op::Squeeze
            | Op::Unsqueeze
            | Op::Transpose
            | Op::Slice
            | Op::Split
            | Op::Concat
            | Op::Expand
            | Op::MaxPool
            | Op::Gather
            | Op::DepthToSpace
            | Op::SpaceToDepth
    )
}

/// Whether a result's values are on its encoding's grid already, because the node only moved them.
pub(super) fn is_rounded(part: &Part, node: &Node, output: TensorIndex) -> bool {
    let t = &part.tensors[output];
    let Some(own) = &t.encoding else { return true };
    let mut inputs = node.inputs.iter().copied().flatten().map(|t| &part.tensors[t]);
    carries(node.op)
        && own.kind == EncodingKind::PerTensor
        && inputs.all(|x| {
            let is_index = x.encoding.is_none() && x.dtype.is_int();
            is_index || (x.encoding.as_ref() == Some(own) && x.dtype == t.dtype)
        })
}

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
pub(crate) fn covers(part: &Part, node: &Node) -> bool {
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
        let form = if l.is_channels_only(x) {
            Form::Channels
        } else {
            Form::Rows
        };
        let value = l.form(x, form)?;
        let shape = l.value_shape(value).to_vec();
        let view = Some(l.view(value, shape));
        match form {
            Form::Rows => l.forms[y].rows = view,
            Form::Channels => l.forms[y].channels = view,
        }
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
    let output = l.result(y, Form::Rows)?;
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
    let form = if l.is_channels_only(x) {
        Form::Channels
    } else {
        Form::Rows
    };
    let (input, output) = (l.form(x, form)?, l.result(y, form)?);
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

#[cfg(test)]
mod tests {
    use super::quantised;

    #[test]
    fn rounding_is_to_nearest_even_and_saturates() {
        for (low, high) in [(-128.0, 127.0), (-2_147_483_648.0f32, 2_147_483_647.0f32)] {
            for i in -600..600 {
                let x = i as f32 / 4.0;
                assert_eq!(
                    quantised(x, 0.5, low, high),
                    (x / 0.5).round_ties_even().clamp(low, high),
                    "{x}"
                );
            }
        }
    }
}
