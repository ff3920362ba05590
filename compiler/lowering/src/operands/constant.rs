//! Constants of the model: the reals they stand for, quantising them, and storing them as a chip's types.
//!
//! Invariant: quantising rounds half to even, as ONNX does, and its range holds zero.

use half::f16;
use polychip_ops::DType;

use super::program::{Quant, Type};
use crate::Tensor;

/// The reals that a constant stands for; integers without an encoding are themselves.
pub fn reals(tensor: &Tensor) -> Option<Vec<f32>> {
    if tensor.encoding.is_none() && tensor.dtype == DType::F64 {
        let values = tensor.literal()?.as_f64s()?;
        return Some(values.into_iter().map(|value| value as f32).collect());
    }
    if tensor.encoding.is_none() && !tensor.dtype.is_float() {
        let integers = tensor.wide_integers()?;
        return Some(integers.into_iter().map(|value| value as f32).collect());
    }
    tensor.reals().ok()
}

/// Integers as stored bytes of a type.
pub fn store(ty: Type, values: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * ty.bytes());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes()[..ty.bytes()]);
    }
    bytes
}

/// Floats as stored bytes of a type.
pub fn store_floats(ty: Type, values: &[f32]) -> Vec<u8> {
    match ty {
        Type::Float16 => values
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_le_bytes())
            .collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// The encoding that spans these reals and zero with all integers of a type.
pub fn spanning(ty: Type, values: &[f32]) -> Option<Quant> {
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
        let zero = if scale > 0.0 {
            zero.round_ties_even() as i64
        } else {
            least
        };
        (scale, zero)
    };
    let scale = if scale > 0.0 { scale as f32 } else { 1.0 };
    let zero = i32::try_from(zero).ok()?;
    (scale.is_normal()).then_some(Quant::PerTensor { scale, zero })
}

/// Reals as integers of a type and scale.
pub fn quantise(ty: Type, quant: &Quant, values: &[f32]) -> Option<Vec<i64>> {
    let (least, most) = ty.range()?;
    let (scale, zero) = quant.per_tensor()?;
    let integer = |&value: &f32| {
        let whole = (f64::from(value) / f64::from(scale)).round_ties_even() as i64;
        (whole + i64::from(zero)).clamp(least, most)
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
            let (scale, zero) = quant.per_tensor().unwrap();
            let stored = quantise(ty, &quant, &values).unwrap();
            for (value, stored) in values.iter().zip(stored) {
                let back = (stored - i64::from(zero)) as f32 * scale;
                assert!((back - value).abs() <= scale * 0.75, "{ty:?} {value} {back}");
            }
        }
        let one = Some(Quant::PerTensor { scale: 1.0, zero: 0 });
        assert_eq!(spanning(Type::Ufixed8, &[0.0, 0.0]), one);
        assert_eq!(spanning(Type::Ufixed8, &[f32::NAN]), None);
    }

    #[test]
    fn integers_are_stored_low_byte_first() {
        assert_eq!(store(Type::Sfixed16, &[-2, 258]), [254, 255, 2, 1]);
        assert_eq!(store_floats(Type::Float16, &[1.0]), [0, 60]);
    }
}
