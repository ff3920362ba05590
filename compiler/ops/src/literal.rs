//! A small tensor with its values: constants of attributes, shape arithmetic, and folding.
//!
//! Invariants:
//! 1. `bytes` holds exactly the elements of `shape`, little-endian, packed, in row-major order
//!    (checked by [`Literal::new`]; whoever fills the fields itself owes it).
//! 2. Strings are stored one after the other as a `u32` byte count and UTF-8 text.
//!
//! Not here: weights; they stay in the memory they came in (`graph`).

use std::sync::Arc;

use crate::{DType, Dim, TensorType};

/// A tensor with its values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Literal {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// Elements, little-endian, packed, row-major.
    pub bytes: Arc<[u8]>,
}

impl Literal {
    /// A literal of these bytes, or `None` where their number is not that of the shape.
    pub fn new(dtype: DType, shape: Vec<usize>, bytes: impl Into<Arc<[u8]>>) -> Option<Literal> {
        let literal = Literal {
            dtype,
            shape,
            bytes: bytes.into(),
        };
        let whole = match dtype {
            DType::String => literal.strings()?.len() == literal.elements()?,
            _ => dtype.byte_len(literal.elements()?)? == literal.bytes.len(),
        };
        whole.then_some(literal)
    }

    /// A vector of `i64`.
    pub fn i64s(values: &[i64]) -> Literal {
        Literal {
            dtype: DType::I64,
            shape: vec![values.len()],
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    /// A scalar `i64`.
    pub fn scalar_i64(value: i64) -> Literal {
        Literal {
            shape: Vec::new(),
            ..Literal::i64s(&[value])
        }
    }

    /// A vector of `f32`.
    pub fn f32s(values: &[f32]) -> Literal {
        Literal {
            dtype: DType::F32,
            shape: vec![values.len()],
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    /// A scalar `f32`.
    pub fn scalar_f32(value: f32) -> Literal {
        Literal {
            shape: Vec::new(),
            ..Literal::f32s(&[value])
        }
    }

    /// A vector of strings.
    pub fn from_strings<S: AsRef<str>>(values: &[S]) -> Option<Literal> {
        let mut bytes = Vec::new();
        for value in values {
            let text = value.as_ref().as_bytes();
            bytes.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
            bytes.extend_from_slice(text);
        }
        Some(Literal {
            dtype: DType::String,
            shape: vec![values.len()],
            bytes: bytes.into(),
        })
    }

    /// Integers as a tensor of this type and shape; `None` where a value does not fit the type,
    /// the type is not an integer of whole bytes or `bool`, or the count is not that of the shape.
    pub fn from_ints(dtype: DType, shape: Vec<usize>, values: &[i64]) -> Option<Literal> {
        let mut bytes = Vec::with_capacity(values.len().checked_mul(dtype.byte_width()?)?);
        for &value in values {
            match dtype {
                DType::I64 => bytes.extend_from_slice(&value.to_le_bytes()),
                DType::I32 => bytes.extend_from_slice(&i32::try_from(value).ok()?.to_le_bytes()),
                DType::I16 => bytes.extend_from_slice(&i16::try_from(value).ok()?.to_le_bytes()),
                DType::I8 => bytes.extend_from_slice(&i8::try_from(value).ok()?.to_le_bytes()),
                DType::U64 => bytes.extend_from_slice(&u64::try_from(value).ok()?.to_le_bytes()),
                DType::U32 => bytes.extend_from_slice(&u32::try_from(value).ok()?.to_le_bytes()),
                DType::U16 => bytes.extend_from_slice(&u16::try_from(value).ok()?.to_le_bytes()),
                DType::U8 => bytes.push(u8::try_from(value).ok()?),
                DType::Bool => bytes.push(u8::from(value != 0)),
                _ => return None,
            }
        }
        Literal::new(dtype, shape, bytes)
    }

    /// Number of elements, if the product fits a `usize`.
    pub fn elements(&self) -> Option<usize> {
        self.ty().elements()
    }

    /// The type of this tensor.
    pub fn ty(&self) -> TensorType {
        TensorType::new(
            self.dtype,
            self.shape.iter().map(|&size| Dim::Known(size)).collect(),
        )
    }

    /// The elements as `i64`: integers and `bool` of whole bytes that fit; else `None`.
    pub fn as_i64s(&self) -> Option<Vec<i64>> {
        let width = self.dtype.byte_width()?;
        let mut values = Vec::with_capacity(self.bytes.len() / width);
        for bytes in self.bytes.chunks_exact(width) {
            values.push(match self.dtype {
                DType::I64 => i64::from_le_bytes(bytes.try_into().ok()?),
                DType::I32 => i32::from_le_bytes(bytes.try_into().ok()?).into(),
                DType::I16 => i16::from_le_bytes(bytes.try_into().ok()?).into(),
                DType::I8 => i8::from_le_bytes(bytes.try_into().ok()?).into(),
                DType::U64 => i64::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()?,
                DType::U32 => u32::from_le_bytes(bytes.try_into().ok()?).into(),
                DType::U16 => u16::from_le_bytes(bytes.try_into().ok()?).into(),
                DType::U8 | DType::Bool => bytes[0].into(),
                _ => return None,
            });
        }
        Some(values)
    }

    /// The elements as `f64`: `f16`, `bf16`, `f32`, `f64`, and integers as their nearest float.
    pub fn as_f64s(&self) -> Option<Vec<f64>> {
        let width = self.dtype.byte_width()?;
        let chunks = self.bytes.chunks_exact(width);
        match self.dtype {
            DType::F64 => chunks
                .map(|b| Some(f64::from_le_bytes(b.try_into().ok()?)))
                .collect(),
            DType::F32 => chunks
                .map(|b| Some(f32::from_le_bytes(b.try_into().ok()?).into()))
                .collect(),
            DType::F16 => chunks
                .map(|b| Some(f16_to_f64(u16::from_le_bytes(b.try_into().ok()?))))
                .collect(),
            DType::BF16 => chunks
                .map(|b| {
                    let high = u32::from(u16::from_le_bytes(b.try_into().ok()?)) << 16;
                    Some(f32::from_bits(high).into())
                })
                .collect(),
            DType::U64 => chunks
                .map(|b| Some(u64::from_le_bytes(b.try_into().ok()?) as f64))
                .collect(),
            _ => Some(self.as_i64s()?.into_iter().map(|value| value as f64).collect()),
        }
    }

    /// The only element as `i64`, whatever the rank; `None` for other than one element.
    pub fn scalar_as_i64(&self) -> Option<i64> {
        match self.as_i64s()?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The only element as `f64`, whatever the rank; `None` for other than one element.
    pub fn scalar_as_f64(&self) -> Option<f64> {
        match self.as_f64s()?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The strings; `None` for another type or malformed bytes.
    pub fn strings(&self) -> Option<Vec<&str>> {
        if self.dtype != DType::String {
            return None;
        }
        let mut rest = &self.bytes[..];
        let mut strings = Vec::new();
        while !rest.is_empty() {
            let (count, after) = rest.split_first_chunk::<4>()?;
            let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
            strings.push(std::str::from_utf8(after.get(..count)?).ok()?);
            rest = &after[count..];
        }
        Some(strings)
    }
}

/// The value of an IEEE half.
fn f16_to_f64(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f64::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_trip_in_every_width() {
        for dtype in [
            DType::I8,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::U8,
            DType::U64,
        ] {
            let literal = Literal::from_ints(dtype, vec![3], &[0, 1, 100]).unwrap();
            assert_eq!(literal.as_i64s(), Some(vec![0, 1, 100]), "{dtype}");
            assert_eq!(literal.as_f64s(), Some(vec![0.0, 1.0, 100.0]), "{dtype}");
        }
        assert_eq!(Literal::from_ints(DType::U8, vec![1], &[-1]), None);
        assert_eq!(Literal::from_ints(DType::I8, vec![2], &[1]), None);
        assert_eq!(Literal::scalar_i64(-7).scalar_as_i64(), Some(-7));
        assert_eq!(Literal::i64s(&[1, 2]).scalar_as_i64(), None);
    }

    #[test]
    fn halves_become_doubles() {
        let bits: Vec<u8> = [0x3c00u16, 0xc000, 0x0001, 0x7c00]
            .iter()
            .flat_map(|b| b.to_le_bytes())
            .collect();
        let literal = Literal::new(DType::F16, vec![4], bits).unwrap();
        let expected = vec![1.0, -2.0, 2f64.powi(-24), f64::INFINITY];
        assert_eq!(literal.as_f64s(), Some(expected));
        assert_eq!(literal.as_i64s(), None);
    }

    #[test]
    fn strings_and_sizes_are_checked() {
        let literal = Literal::from_strings(&["a", "", "länger"]).unwrap();
        assert_eq!(literal.strings(), Some(vec!["a", "", "länger"]));
        assert!(Literal::new(DType::String, vec![2], literal.bytes.clone()).is_none());
        assert!(Literal::new(DType::String, vec![1], vec![9, 0, 0, 0, 65]).is_none());
        assert!(Literal::new(DType::F32, vec![2], vec![0; 7]).is_none());
        assert!(Literal::new(DType::U4, vec![3], vec![0; 2]).is_some());
    }
}
