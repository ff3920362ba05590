//! Quantisation of a tensor, owned.

use polychip_abi as abi;
use polychip_ops::{BlockLayout, DType};

/// Elements that share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EncodingKind {
    /// All elements of the tensor.
    PerTensor,
    /// The elements of one index of `axis`.
    PerAxis {
        /// Axis, from the front.
        axis: usize,
    },
    /// The elements of one block of `block` elements along `axis`.
    PerBlock {
        /// Axis, from the front.
        axis: usize,
        /// Elements in a block, at least 1.
        block: usize,
    },
    /// Blocks along the last axis of a constant that hold their scales beside their values. The
    /// tensor is `u8`, and its extents count values.
    Blocks(BlockLayout),
}

/// Mapping of stored integers to real values: (stored − zero point) × scale. Block encodings keep
/// their scales in the data, so `scales` is unused for [`EncodingKind::Blocks`].
#[derive(Debug, Clone, PartialEq)]
pub struct Encoding {
    /// Which elements share a scale, or the layout of blocks.
    pub kind: EncodingKind,
    /// Scales.
    pub scales: Vec<f32>,
    /// Zero points, as many as scales; empty means all 0.
    pub zero_points: Vec<i32>,
    /// Type of the real value that an op sees.
    pub real_dtype: DType,
}

impl Encoding {
    /// The layout of blocks that hold their own scales.
    #[must_use]
    pub fn block_layout(&self) -> Option<BlockLayout> {
        match self.kind {
            EncodingKind::Blocks(layout) => Some(layout),
            _ => None,
        }
    }

    /// The record of the contract; it points into `self`.
    pub(crate) fn record(&self) -> abi::polychip_encoding {
        let (kind, axis, block) = match self.kind {
            EncodingKind::PerTensor => (abi::POLYCHIP_ENCODING_PER_TENSOR, 0, 0),
            EncodingKind::PerAxis { axis } => (abi::POLYCHIP_ENCODING_PER_AXIS, axis, 0),
            EncodingKind::PerBlock { axis, block } => (abi::POLYCHIP_ENCODING_PER_BLOCK, axis, block),
            // the axis is the last one of a tensor that is not known here; no port has such an encoding
            EncodingKind::Blocks(layout) => (abi::POLYCHIP_ENCODING_BLOCKS, 0, layout.elements()),
        };
        abi::polychip_encoding {
            kind,
            axis: axis as u32,
            block_size: block as u32,
            scales: self.scales.as_ptr(),
            scale_count: self.scales.len() as u64,
            zero_points: if self.zero_points.is_empty() {
                std::ptr::null()
            } else {
                self.zero_points.as_ptr()
            },
            zero_point_count: self.zero_points.len() as u64,
            real_dtype: self.real_dtype.code(),
            block_layout: match self.kind {
                EncodingKind::Blocks(layout) => layout.code(),
                _ => 0,
            },
            ..<abi::polychip_encoding as abi::Sized>::sized()
        }
    }
}
