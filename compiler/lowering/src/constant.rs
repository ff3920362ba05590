//! The values of constants: numbers, integers, and the reals that quantised ones stand for.
//!
//! Invariants:
//! 1. Values narrower than a byte are read low bits first, as ONNX packs them.
//! 2. A tensor that a node fills with one value reads as a constant.

use std::borrow::Cow;

use half::{bf16, f16};
use polychip_ops::{DType, Literal};
use polychip_sdk::{Encoding, Reason};

use crate::{Layout, Outcome, Part, Refusal, ScaleIndex, Tensor, TensorIndex};

impl Tensor {
    /// Number of elements, where all extents are known before the run.
    pub fn elements(&self) -> Option<usize> {
        polychip_ops::axis::product(self.dims.as_ref()?)
    }

    /// The bytes of a constant; a fill is written out, where memory holds that.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(constant) = &self.constant {
            return Some(Cow::Borrowed(constant.bytes()));
        }
        let (one, count) = (self.fill.as_ref()?, self.elements()?);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(one.len().checked_mul(count)?).ok()?;
        bytes.extend(std::iter::repeat_n(one, count).flatten());
        Some(Cow::Owned(bytes))
    }

    /// The one value of all elements of a tensor of f32.
    pub fn fill_f32(&self) -> Option<f32> {
        let bytes = self.fill.as_deref().filter(|_| self.dtype == DType::F32)?;
        Some(f32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A constant without an encoding, copied: for shapes and parameters, not for weights.
    pub fn literal(&self) -> Option<Literal> {
        if self.encoding.is_some() {
            return None;
        }
        Literal::new(self.dtype, self.dims.clone()?, self.bytes()?.as_ref())
    }

    /// The stored integers of a constant, of at most 32 bits.
    ///
    /// # Errors
    /// Where it is no constant, or of no integers of at most 32 bits.
    pub fn integers(&self) -> Outcome<Vec<i32>> {
        let (bytes, dims) = self.data()?;
        if let Some(layout) = self.encoding.as_ref().and_then(Encoding::block_layout) {
            return Err(Refusal::constant(format!(
                "blocks of {layout} are read as reals alone"
            )));
        }
        integers(self.dtype, count(dims)?, &bytes)
    }

    /// The stored integers and truth values of a constant, whatever their width; `None` for other types.
    pub fn wide_integers(&self) -> Option<Vec<i64>> {
        if self.dtype.byte_width().is_none() {
            let narrow = self.integers().ok()?;
            return Some(narrow.into_iter().map(i64::from).collect());
        }
        Literal::new(self.dtype, self.dims.clone()?, self.bytes()?.as_ref())?.as_i64s()
    }

    /// The real values of a constant, as f32.
    ///
    /// # Errors
    /// Where it is no constant, or of a type that is not read as f32.
    pub fn reals(&self) -> Outcome<Vec<f32>> {
        if let (Some(one), Some(dims), None) = (&self.fill, &self.dims, &self.encoding) {
            // one element is decoded, not each of its copies
            let mut values = self.decoded(one, &[])?;
            let elements = count(dims)?;
            values.try_reserve_exact(elements).map_err(|_| no_memory(dims))?;
            values.resize(elements, values[0]);
            return Ok(values);
        }
        let (bytes, dims) = self.data()?;
        self.decoded(&bytes, dims)
    }

    /// The real values of these bytes.
    fn decoded(&self, bytes: &[u8], dims: &[usize]) -> Outcome<Vec<f32>> {
        let elements = count(dims)?;
        let mut values = Vec::new();
        values.try_reserve_exact(elements).map_err(|_| no_memory(dims))?;
        if let Some(layout) = self.encoding.as_ref().and_then(Encoding::block_layout) {
            if layout.byte_len(dims) != Some(bytes.len()) {
                let words = format!(
                    "{} bytes are no blocks of {layout} of shape {dims:?}",
                    bytes.len()
                );
                return Err(Refusal::shape(words));
            }
            values.resize(elements, 0.0);
            layout.dequantize(bytes, &mut values);
            return Ok(values);
        }
        holds(self.dtype, elements, bytes)?;
        let wrong =
            |other: DType| Refusal::dtype(format!("a constant of {} is not read as f32", other.name()));
        match (&self.encoding, self.dtype, &self.constant) {
            (Some(encoding), dtype, _) => {
                let stored = integers(dtype, elements, bytes)?;
                let index = ScaleIndex::new(encoding, dims, Layout::RowMajor)?;
                index.runs(encoding, elements, |range, scale, zero| {
                    // the difference is taken in integers, which f32 cannot hold
                    let real = |stored: &i32| stored.wrapping_sub(zero) as f32 * scale;
                    values.extend(stored[range].iter().map(real));
                });
            }
            (None, DType::F32, Some(constant)) => {
                constant.blocks(|block| values.extend(words_of(block).map(f32::from_le_bytes)));
            }
            (None, DType::F32, None) => values.extend(words_of(bytes).map(f32::from_le_bytes)),
            (None, DType::F16, _) => values.extend(words_of(bytes).map(|b| f16::from_le_bytes(b).to_f32())),
            (None, DType::BF16, _) => values.extend(words_of(bytes).map(|b| bf16::from_le_bytes(b).to_f32())),
            (None, other, _) => return Err(wrong(other)),
        }
        values.truncate(elements);
        Ok(values)
    }

    fn data(&self) -> Outcome<(Cow<'_, [u8]>, &[usize])> {
        match (self.bytes(), self.dims.as_deref()) {
            (Some(bytes), Some(dims)) => Ok((bytes, dims)),
            (None, Some(dims)) if self.is_constant() => Err(no_memory(dims)),
            _ => {
                let words = format!("tensor '{}' would have to be a constant", self.name);
                Err(Refusal::constant(words))
            }
        }
    }
}

impl Part {
    /// The values of a small constant as numbers.
    pub fn numbers(&self, tensor: TensorIndex) -> Option<Vec<f64>> {
        self.tensors[tensor].literal()?.as_f64s()
    }

    /// The values of a small integer constant.
    pub fn integers(&self, tensor: TensorIndex) -> Option<Vec<i64>> {
        self.tensors[tensor].literal()?.as_i64s()
    }

    /// The only value of a constant of one element.
    pub fn scalar(&self, tensor: TensorIndex) -> Option<f64> {
        // the length is looked at first: large constants are not read
        if self.dims(tensor)?.iter().product::<usize>() != 1 {
            return None;
        }
        self.numbers(tensor)?.first().copied()
    }
}

fn count(dims: &[usize]) -> Outcome<usize> {
    polychip_ops::axis::product(dims)
        .ok_or_else(|| Refusal::shape(format!("a tensor of shape {dims:?} is too large")))
}

fn no_memory(dims: &[usize]) -> Refusal {
    let words = format!("no memory for a constant of shape {dims:?}");
    Refusal::new(Reason::Memory, words)
}

fn words_of<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

fn holds(dtype: DType, elements: usize, bytes: &[u8]) -> Outcome<()> {
    match dtype.byte_len(elements) {
        Some(needed) if needed <= bytes.len() => Ok(()),
        _ => Err(Refusal::shape(format!(
            "{} bytes do not hold {elements} {}",
            bytes.len(),
            dtype.name()
        ))),
    }
}

/// Stored integers of at most 32 bits as numbers.
///
/// # Errors
/// Where the bytes are too few, or the type is another one.
pub fn integers(dtype: DType, elements: usize, bytes: &[u8]) -> Outcome<Vec<i32>> {
    holds(dtype, elements, bytes)?;
    let packed = |bits: usize, signed: bool| -> Vec<i32> {
        let (per_byte, mask) = (8 / bits, (1i32 << bits) - 1);
        let code = |i: usize| {
            let code = (i32::from(bytes[i / per_byte]) >> (i % per_byte * bits)) & mask;
            if signed && code > mask / 2 {
                code - mask - 1
            } else {
                code
            }
        };
        (0..elements).map(code).collect()
    };
    Ok(match dtype {
        DType::I8 => bytes[..elements].iter().map(|&b| i32::from(b as i8)).collect(),
        DType::U8 => bytes[..elements].iter().map(|&b| i32::from(b)).collect(),
        DType::I16 => words_of(bytes)
            .map(|b| i32::from(i16::from_le_bytes(b)))
            .take(elements)
            .collect(),
        DType::U16 => words_of(bytes)
            .map(|b| i32::from(u16::from_le_bytes(b)))
            .take(elements)
            .collect(),
        DType::I32 => words_of(bytes).map(i32::from_le_bytes).take(elements).collect(),
        DType::I4 => packed(4, true),
        DType::U4 => packed(4, false),
        DType::I2 => packed(2, true),
        DType::U2 => packed(2, false),
        other => {
            return Err(Refusal::dtype(format!("{} are no stored integers", other.name())));
        }
    })
}

#[cfg(test)]
mod tests {
    use polychip_sdk::{Constant, Encoding, EncodingKind};

    use super::*;

    fn constant(dtype: DType, dims: &[usize], bytes: &'static [u8]) -> Tensor {
        Tensor {
            constant: Some(Constant::of_static(bytes)),
            ..Tensor::new(dtype, Some(dims.to_vec()))
        }
    }

    #[test]
    fn nibbles_are_read_low_bits_first_and_with_their_sign() {
        assert_eq!(integers(DType::I4, 3, &[0xf1, 0x08]), Ok(vec![1, -1, -8]));
        assert_eq!(integers(DType::U4, 3, &[0xf1, 0x08]), Ok(vec![1, 15, 8]));
        assert_eq!(integers(DType::I2, 4, &[0b1110_0100]), Ok(vec![0, 1, -2, -1]));
        assert!(integers(DType::I32, 2, &[0; 7]).is_err());
        assert!(integers(DType::F32, 1, &[0; 4]).is_err());
    }

    #[test]
    fn codes_are_decoded_with_the_scale_of_their_axis() {
        let mut weights = constant(DType::I8, &[2, 2], &[1, 2, 3, 0xfc]);
        weights.encoding = Some(Encoding {
            kind: EncodingKind::PerAxis { axis: 0 },
            scales: vec![0.5, 2.0],
            zero_points: vec![1, 0],
            real_dtype: DType::F32,
        });
        assert_eq!(weights.reals(), Ok(vec![0.0, 0.5, 6.0, -8.0]));
        assert_eq!(weights.integers(), Ok(vec![1, 2, 3, -4]));
        assert_eq!(weights.literal(), None);
    }

    #[test]
    fn fills_read_as_constants() {
        let filled = Tensor {
            fill: Some(2.5f32.to_le_bytes().to_vec()),
            ..Tensor::new(DType::F32, Some(vec![3]))
        };
        assert_eq!(filled.reals(), Ok(vec![2.5; 3]));
        assert_eq!(filled.fill_f32(), Some(2.5));
        let words = Tensor::new(DType::F32, Some(vec![3])).reals().unwrap_err();
        assert_eq!(words.reason(), Reason::NotConstant);
    }

    #[test]
    fn a_fill_beyond_memory_is_refused() {
        for dims in [vec![1 << 62], vec![1 << 40, 1 << 40]] {
            let filled = Tensor {
                fill: Some(2.5f32.to_le_bytes().to_vec()),
                ..Tensor::new(DType::F32, Some(dims))
            };
            assert!(filled.reals().is_err());
            assert_eq!(filled.integers().unwrap_err().reason(), Reason::Memory);
            assert_eq!(filled.bytes(), None);
        }
    }

    #[test]
    fn halves_are_read_as_f32() {
        assert_eq!(constant(DType::F16, &[1], &[0, 0x3c]).reals(), Ok(vec![1.0]));
        assert_eq!(constant(DType::BF16, &[1], &[0x80, 0x3f]).reals(), Ok(vec![1.0]));
        assert!(constant(DType::I32, &[1], &[0; 4]).reals().is_err());
    }
}
