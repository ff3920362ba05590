//! A tensor of the file: its name, type, dimensions, and its blocks in place.

use std::ops::Range;

use bytes::Bytes;
use half::{bf16, f16};

use super::tensor_type::TensorType;

/// A file, or a part of one, that holds tensors.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Its name beside the model; empty for the model itself, `None` for bytes that are in no file.
    pub name: Option<String>,
    /// Its content.
    pub bytes: Bytes,
}

/// A row of the table of tensors. The range is inside the file and as long as type and dimensions
/// require.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: TensorType,
    pub(super) dims: Vec<u64>,
    /// Index of the piece it is in.
    pub(super) piece: usize,
    pub(super) range: Range<usize>,
}

impl Entry {
    pub(super) fn tensor<'a>(&'a self, name: &'a str, pieces: &'a [Piece]) -> Tensor<'a> {
        Tensor {
            name,
            entry: self,
            bytes: &pieces[self.piece].bytes[self.range.clone()],
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

impl<'a> Tensor<'a> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Type of its weights.
    #[must_use]
    pub fn kind(&self) -> TensorType {
        self.entry.kind
    }

    /// The dimensions, innermost first: `[in, out]` of a matrix. None is zero.
    #[must_use]
    pub fn dims(&self) -> &'a [u64] {
        &self.entry.dims
    }

    /// Number of weights.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind().block_bytes() * self.kind().block_len()
    }

    /// Always false: a tensor without weights is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Index of its file among [`Gguf::pieces`](super::Gguf::pieces).
    #[must_use]
    pub fn piece(&self) -> usize {
        self.entry.piece
    }

    /// Byte range in its file.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.entry.range.clone()
    }

    /// The bytes as stored in the file.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Writes weights as f32 from block `first` on, as many as `out` holds.
    ///
    /// # Panics
    /// `out` is not a whole number of blocks, or exceeds the tensor.
    pub fn dequantize(&self, first: usize, out: &mut [f32]) {
        let len = self.kind().block_len();
        assert!(
            out.len().is_multiple_of(len),
            "{} floats are not a whole number of blocks of {len}",
            out.len()
        );
        let bytes =
            &self.bytes[first * self.kind().block_bytes()..][..out.len() / len * self.kind().block_bytes()];
        self.kind().dequantize(bytes, out);
    }
}

impl TensorType {
    /// Writes the weights of whole blocks as f32.
    pub(crate) fn dequantize(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            TensorType::F32 => floats(bytes, out, f32::from_le_bytes),
            TensorType::F16 => floats(bytes, out, |half| f16::from_le_bytes(half).to_f32()),
            TensorType::BF16 => floats(bytes, out, |half| bf16::from_le_bytes(half).to_f32()),
            kind => {
                let layout = kind
                    .layout()
                    .expect("invariant: a type is of floats or of blocks");
                layout.dequantize(bytes, out);
            }
        }
    }
}

fn floats<const N: usize>(bytes: &[u8], out: &mut [f32], float: impl Fn([u8; N]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = float(*bytes);
    }
}
