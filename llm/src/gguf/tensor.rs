//! A tensor of the file: its name, type, dimensions, and its blocks where they lie.

use std::ops::Range;

use super::dequantize;
use super::tensor_type::TensorType;

/// What the table of tensors says. The range lies inside the file and is as long as type and dimensions need.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: TensorType,
    pub(super) dims: Vec<u64>,
    pub(super) range: Range<usize>,
}

impl Entry {
    pub(super) fn tensor<'a>(&'a self, name: &'a str, file: &'a [u8]) -> Tensor<'a> {
        Tensor {
            name,
            entry: self,
            bytes: &file[self.range.clone()],
        }
    }
}

/// A tensor of a file.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    name: &'a str,
    entry: &'a Entry,
    bytes: &'a [u8],
}

/// A tensor's blocks, each as its bytes; the types of [`block`](super::block) take them apart.
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, missing_docs)] // ggml's names
pub enum Blocks<'a> {
    F32(&'a [[u8; 4]]),
    F16(&'a [[u8; 2]]),
    BF16(&'a [[u8; 2]]),
    Q4_0(&'a [[u8; 18]]),
    Q4_1(&'a [[u8; 20]]),
    Q8_0(&'a [[u8; 34]]),
    Q4_K(&'a [[u8; 144]]),
    Q5_K(&'a [[u8; 176]]),
    Q6_K(&'a [[u8; 210]]),
}

impl<'a> Tensor<'a> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// How its weights are written.
    #[must_use]
    pub fn kind(&self) -> TensorType {
        self.entry.kind
    }

    /// The dimensions, the innermost first: `[in, out]` of a matrix. None of them is zero.
    #[must_use]
    pub fn dims(&self) -> &'a [u64] {
        &self.entry.dims
    }

    /// How many weights there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind().block_bytes() * self.kind().block_len()
    }

    /// Never: a tensor without weights is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where it lies in the file.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.entry.range.clone()
    }

    /// The bytes, as they lie in the file.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> Blocks<'a> {
        match self.kind() {
            TensorType::F32 => Blocks::F32(self.bytes.as_chunks().0),
            TensorType::F16 => Blocks::F16(self.bytes.as_chunks().0),
            TensorType::BF16 => Blocks::BF16(self.bytes.as_chunks().0),
            TensorType::Q4_0 => Blocks::Q4_0(self.bytes.as_chunks().0),
            TensorType::Q4_1 => Blocks::Q4_1(self.bytes.as_chunks().0),
            TensorType::Q8_0 => Blocks::Q8_0(self.bytes.as_chunks().0),
            TensorType::Q4_K => Blocks::Q4_K(self.bytes.as_chunks().0),
            TensorType::Q5_K => Blocks::Q5_K(self.bytes.as_chunks().0),
            TensorType::Q6_K => Blocks::Q6_K(self.bytes.as_chunks().0),
        }
    }

    /// Writes weights as f32, from block `first` on, as many as `out` holds.
    ///
    /// # Panics
    /// `out` is no whole number of blocks, or goes beyond the tensor's end.
    pub fn dequantize(&self, first: usize, out: &mut [f32]) {
        let len = self.kind().block_len();
        assert!(
            out.len().is_multiple_of(len),
            "{} floats are no whole number of blocks of {len}",
            out.len()
        );
        dequantize::dequantize(self.blocks(), first, out);
    }
}
