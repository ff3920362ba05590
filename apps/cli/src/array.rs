//! A tensor's value outside any device: type, shape, bytes.
//!
//! Invariant: the bytes are as many as type and shape need, little-endian in row-major order, types of
//! less than a byte packed, strings as [`Literal`] stores them.

use half::{bf16, f16};
use polychip::{DType, Literal, Packed};

/// A tensor's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Array {
    /// An array of strings; `None` where one is too long or their number is not that of the shape.
    pub(crate) fn of_strings<S: AsRef<str>>(shape: Vec<usize>, strings: &[S]) -> Option<Array> {
        let literal = Literal::from_strings(strings)?;
        (count(&shape)? == strings.len()).then(|| Array {
            dtype: DType::String,
            shape,
            bytes: literal.bytes.to_vec(),
        })
    }

    /// The elements of an array of strings.
    pub(crate) fn strings(&self) -> Option<Vec<String>> {
        let literal = Literal::new(self.dtype, self.shape.clone(), &self.bytes[..])?;
        let strings = literal.strings().filter(|_| self.dtype == DType::String)?;
        Some(strings.into_iter().map(str::to_owned).collect())
    }

    /// The tensor as sequences, optionals and strings cross the model's edge.
    pub(crate) fn packed(&self) -> Option<Packed> {
        Literal::new(self.dtype, self.shape.clone(), &self.bytes[..]).map(Packed::Tensor)
    }

    /// A tensor out of a packed value.
    pub(crate) fn of_literal(literal: &Literal) -> Array {
        Array {
            dtype: literal.dtype,
            shape: literal.shape.clone(),
            bytes: literal.bytes.to_vec(),
        }
    }
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

/// The array in another type of floats; as it is where that is its type, none for types that are not floats.
pub(crate) fn convert(array: &Array, dtype: DType) -> Option<Array> {
    if array.dtype == dtype {
        return Some(array.clone());
    }
    let is_float = |dtype| matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16);
    let values = numbers(array.dtype, &array.bytes).filter(|_| is_float(array.dtype))?;
    let bytes: Vec<u8> = match dtype {
        DType::F32 => values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
        DType::F64 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F16 => values
            .iter()
            .flat_map(|x| f16::from_f64(*x).to_le_bytes())
            .collect(),
        DType::BF16 => values
            .iter()
            .flat_map(|x| bf16::from_f64(*x).to_le_bytes())
            .collect(),
        _ => return None,
    };
    Some(Array {
        dtype,
        shape: array.shape.clone(),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_of_every_plain_type() {
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
    fn strings_keep_their_text_and_shape() {
        let texts = ["", "blue", "größer"];
        let array = Array::of_strings(vec![3, 1], &texts).unwrap();
        assert_eq!(
            (array.dtype, array.strings().unwrap()),
            (DType::String, texts.map(str::to_owned).to_vec())
        );
        assert_eq!(Array::of_strings(vec![2], &texts), None);
        let Some(Packed::Tensor(literal)) = array.packed() else {
            panic!("packed as one tensor");
        };
        assert_eq!(Array::of_literal(&literal), array);
        let numbers = Array {
            dtype: DType::U8,
            shape: vec![1],
            bytes: vec![1],
        };
        assert_eq!(numbers.strings(), None);
    }

    #[test]
    fn oversized_shape_has_no_element_count() {
        assert_eq!(count(&[2, 3]), Some(6));
        assert_eq!(count(&[]), Some(1));
        assert_eq!(count(&[usize::MAX, 2]), None);
    }

    #[test]
    fn floats_convert_only_to_other_float_sizes() {
        let of = |dtype, bytes: &[u8], shape: &[usize]| Array {
            dtype,
            shape: shape.to_vec(),
            bytes: bytes.to_vec(),
        };
        let one = of(DType::F32, &1.5f32.to_le_bytes(), &[1]);
        let half = convert(&one, DType::F16).unwrap();
        assert_eq!(half, of(DType::F16, &f16::from_f32(1.5).to_le_bytes(), &[1]));
        assert_eq!(convert(&half, DType::F32).unwrap(), one);
        assert_eq!(convert(&one, DType::F32).unwrap(), one);
        assert_eq!(convert(&one, DType::I32), None);
        assert_eq!(convert(&of(DType::U8, &[1], &[1]), DType::F32), None);
    }
}
