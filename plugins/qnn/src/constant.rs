//! Constants of the model: their integers, the reals they stand for, and quantising them.
//!
//! Invariants:
//! 1. 4-bit integers are read low bits first, as ONNX packs them.
//! 2. Quantising rounds half to even, as ONNX does, and its range holds zero.

use half::f16;
use polychip_ops::DType;
use polychip_sdk::{Encoding, EncodingKind, TensorView};

use crate::program::{Quant, Type};

/// The integers of a constant; `None` for floats and types the NPU does not know.
pub(crate) fn integers(tensor: &TensorView<'_>) -> Option<Vec<i64>> {
    let elements = polychip_ops::axis::product(&tensor.shape()?)?;
    match tensor.dtype() {
        DType::I4 | DType::U4 => {
            let constant = tensor.constant()?;
            let bytes = constant.bytes();
            let signed = tensor.dtype() == DType::I4;
            let nibble = |index: usize| {
                let raw = i64::from(bytes.get(index / 2)? >> (index % 2 * 4) & 15);
                Some(if signed && raw > 7 { raw - 16 } else { raw })
            };
            (0..elements).map(nibble).collect()
        }
        dtype if dtype.is_int() || dtype == DType::Bool => tensor.literal()?.as_i64s(),
        _ => None,
    }
}

/// The scale and zero point of each element.
fn scale_of(encoding: &Encoding, shape: &[usize]) -> impl Fn(usize) -> (f32, i32) + use<> {
    let strides = polychip_ops::axis::strides(shape).unwrap_or_default();
    let shape = shape.to_vec();
    let encoding = encoding.clone();
    move |element| {
        let at = match encoding.kind {
            EncodingKind::PerTensor => 0,
            EncodingKind::PerAxis { axis } => element / strides[axis] % shape[axis],
            EncodingKind::PerBlock { axis, block } => {
                let mut at = 0;
                for (place, (&stride, &size)) in strides.iter().zip(&shape).enumerate() {
                    let (index, size) = match place == axis {
                        true => (element / stride % size / block, size.div_ceil(block)),
                        false => (element / stride % size, size),
                    };
                    at = at * size + index;
                }
                at
            }
        };
        let zero = encoding.zero_points.get(at).copied().unwrap_or(0);
        (encoding.scales.get(at).copied().unwrap_or(0.0), zero)
    }
}

/// The reals that a constant stands for.
pub(crate) fn reals(tensor: &TensorView<'_>) -> Option<Vec<f32>> {
    if tensor.dtype().is_float() {
        let values = tensor.literal()?.as_f64s()?;
        return Some(values.into_iter().map(|value| value as f32).collect());
    }
    let integers = integers(tensor)?;
    let Some(encoding) = tensor.encoding() else {
        return Some(integers.into_iter().map(|value| value as f32).collect());
    };
    let scale = scale_of(&encoding.to_owned(), &tensor.shape()?);
    let real = |(element, value): (usize, i64)| {
        let (scale, zero) = scale(element);
        (value - i64::from(zero)) as f32 * scale
    };
    Some(integers.into_iter().enumerate().map(real).collect())
}

/// Integers as stored bytes of a type.
pub(crate) fn store(ty: Type, values: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * ty.bytes());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes()[..ty.bytes()]);
    }
    bytes
}

/// Floats as stored bytes of a type.
pub(crate) fn store_floats(ty: Type, values: &[f32]) -> Vec<u8> {
    match ty {
        Type::Float16 => values
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_le_bytes())
            .collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// The encoding that spans these reals and zero with all integers of a type.
pub(crate) fn spanning(ty: Type, values: &[f32]) -> Option<Quant> {
    let (least, most) = ty.range()?;
    let low = values.iter().copied().fold(0.0f32, f32::min);
    let high = values.iter().copied().fold(0.0f32, f32::max);
    if !low.is_finite() || !high.is_finite() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let symmetric = matches!(ty, Type::Sfixed8 | Type::Sfixed16 | Type::Sfixed32);
    let (scale, zero) = if symmetric {
        (f64::from(high.max(-low)) / most as f64, 0)
    } else {
        let scale = (f64::from(high) - f64::from(low)) / (most - least) as f64;
        let zero = least as f64 - f64::from(low) / scale;
        (
            scale,
            if scale > 0.0 {
                zero.round_ties_even() as i64
            } else {
                least
            },
        )
    };
    let scale = if scale > 0.0 { scale as f32 } else { 1.0 };
    let offset = i32::try_from(-zero).ok()?;
    (scale.is_normal()).then_some(Quant::PerTensor { scale, offset })
}

/// Reals as integers of a type and scale.
pub(crate) fn quantise(ty: Type, quant: &Quant, values: &[f32]) -> Option<Vec<i64>> {
    let (least, most) = ty.range()?;
    let (scale, offset) = quant.per_tensor()?;
    let integer = |&value: &f32| {
        let whole = (f64::from(value) / f64::from(scale)).round_ties_even() as i64;
        (whole - i64::from(offset)).clamp(least, most)
    };
    Some(values.iter().map(integer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spanning_encoding_holds_its_reals() {
        for ty in [Type::Ufixed8, Type::Sfixed8, Type::Ufixed16, Type::Sfixed32] {
            let values = [-1.5f32, 0.0, 0.25, 3.0];
            let quant = spanning(ty, &values).unwrap();
            let (scale, offset) = quant.per_tensor().unwrap();
            let stored = quantise(ty, &quant, &values).unwrap();
            for (value, stored) in values.iter().zip(stored) {
                let back = (stored + i64::from(offset)) as f32 * scale;
                assert!((back - value).abs() <= scale * 0.75, "{ty:?} {value} {back}");
            }
        }
        assert_eq!(
            spanning(Type::Ufixed8, &[0.0, 0.0]),
            Some(Quant::PerTensor {
                scale: 1.0,
                offset: 0
            })
        );
        assert_eq!(spanning(Type::Ufixed8, &[f32::NAN]), None);
    }

    #[test]
    fn integers_are_stored_low_byte_first() {
        assert_eq!(store(Type::Sfixed16, &[-2, 258]), [254, 255, 2, 1]);
        assert_eq!(store_floats(Type::Float16, &[1.0]), [0, 60]);
    }
}
