//! A tensor's value outside any device: type, shape, bytes.
//!
//! Invariant: the bytes are as many as type and shape need, little-endian in row-major order, types of
//! less than a byte packed.

use half::{bf16, f16};
use polychip::DType;

/// A tensor's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// Number of elements of a shape, or `None` where it is past all memory.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |product, dim| product.checked_mul(*dim))
}

/// The elements as numbers; `None` for types that are no plain numbers.
pub(crate) fn numbers(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    macro_rules! each {
        ($type:ty, $convert:expr) => {
            bytes
                .chunks_exact(size_of::<$type>())
                .map(|chunk| {
                    let mut word = [0; size_of::<$type>()];
                    word.copy_from_slice(chunk);
                    $convert(<$type>::from_le_bytes(word))
                })
                .collect()
        };
    }
    Some(match dtype {
        DType::F32 => each!(f32, f64::from),
        DType::F64 => each!(f64, |value| value),
        DType::F16 => each!(f16, f64::from),
        DType::BF16 => each!(bf16, f64::from),
        DType::I8 => each!(i8, f64::from),
        DType::I16 => each!(i16, f64::from),
        DType::I32 => each!(i32, f64::from),
        // exact to 53 bits, which a summary may round
        DType::I64 => each!(i64, |value| value as f64),
        DType::U8 | DType::Bool => each!(u8, f64::from),
        DType::U16 => each!(u16, f64::from),
        DType::U32 => each!(u32, f64::from),
        DType::U64 => each!(u64, |value| value as f64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_plain_type() {
        assert_eq!(numbers(DType::F32, &1.5f32.to_le_bytes()), Some(vec![1.5]));
        assert_eq!(
            numbers(DType::BF16, &bf16::from_f32(-2.0).to_le_bytes()),
            Some(vec![-2.0])
        );
        assert_eq!(numbers(DType::I16, &[0xff, 0xff, 2, 0]), Some(vec![-1.0, 2.0]));
        assert_eq!(numbers(DType::Bool, &[1, 0]), Some(vec![1.0, 0.0]));
        assert_eq!(numbers(DType::String, &[]), None);
    }

    #[test]
    fn a_shape_past_all_memory_has_no_count() {
        assert_eq!(count(&[2, 3]), Some(6));
        assert_eq!(count(&[]), Some(1));
        assert_eq!(count(&[usize::MAX, 2]), None);
    }
}
