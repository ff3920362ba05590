//! Converts numbers to tensor values.

use polychip_ops::{DType, Literal};
use polychip_reference::{Tensor, element, tensor_to_literal};

/// A tensor of this type from numbers, which are cut to whole ones and to the type's range for integers.
///
/// # Errors
/// The type is not one of numbers, or the count is not that of the shape.
pub fn literal(dtype: DType, shape: &[usize], values: &[f64]) -> Result<Literal, String> {
    if dtype.is_float() {
        let tensor =
            Tensor::from_f64s(element(dtype), shape.to_vec(), values).map_err(|error| error.to_string())?;
        return tensor_to_literal(&tensor).map_err(|error| error.to_string());
    }
    let (low, high) = range(dtype).ok_or_else(|| format!("{} is no number", dtype.name()))?;
    let whole: Vec<i64> = values
        .iter()
        .map(|value| (value.floor() as i64).clamp(low, high))
        .collect();
    Literal::from_ints(dtype, shape.to_vec(), &whole)
        .ok_or_else(|| format!("{} values do not fill {shape:?}", values.len()))
}

/// The least and the greatest value of an integer type, within `i64`.
#[must_use]
pub fn range(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::Bool => (0, 1),
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::U8 => (0, i64::from(u8::MAX)),
        DType::U16 => (0, i64::from(u16::MAX)),
        DType::U32 => (0, i64::from(u32::MAX)),
        DType::U64 => (0, i64::MAX),
        _ => return None,
    })
}
