//! The elements of a constant tensor: a slice of memory that somebody else owns.
//!
//! Invariants:
//! 1. `bytes` is little-endian, packed (first element in the low bits), in row-major order; strings
//!    are stored as [`Literal`] stores them.
//! 2. Cloning never copies the elements.
//! 3. Where `file` is given, the same bytes stand at that place of that file.

use bytes::Bytes;
use polychip_ops::{Literal, TensorType};

/// Where a constant stands in the model's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSlice {
    /// Index into [`Graph::files`](crate::Graph::files) of the outermost graph.
    pub file: u32,
    /// Offset of the first byte.
    pub offset: u64,
}

/// The elements of a constant tensor.
///
/// ```
/// use polychip_graph::Constant;
///
/// let model: std::sync::Arc<[u8]> = std::sync::Arc::from(vec![7; 1024]);
/// let file = bytes::Bytes::from_owner(model.clone());
/// let weights = Constant::new(file.slice(512..1024));
/// assert_eq!(weights.bytes.as_ptr(), model[512..].as_ptr()); // not a copy
/// ```
#[derive(Clone, Debug)]
pub struct Constant {
    /// The elements.
    pub bytes: Bytes,
    /// Where they stand in a file, if they do.
    pub file: Option<FileSlice>,
}

impl Constant {
    /// A constant that stands in no file.
    pub fn new(bytes: impl Into<Bytes>) -> Constant {
        Constant {
            bytes: bytes.into(),
            file: None,
        }
    }

    /// The elements of a literal, copied.
    pub fn from_literal(literal: &Literal) -> Constant {
        Constant::new(Bytes::from_owner(literal.bytes.clone()))
    }

    /// The elements as a literal (a copy: for small tensors), or `None` where the type is not known
    /// in full or has another number of bytes.
    pub fn to_literal(&self, ty: &TensorType) -> Option<Literal> {
        Literal::new(ty.dtype, ty.sizes()?, &self.bytes[..])
    }
}
