//! How the integers of a quantised tensor stand for real values.
//!
//! Invariants:
//! 1. real = (stored − zero point) × scale.
//! 2. There is one scale per tensor, per index of the axis, or per block along it; as many zero
//!    points, or none, which means zero.
//! 3. Blocks that hold their own scales have neither; they stand for what their layout says, and are constants of `u8`
//!    whose shape counts values.

use std::sync::Arc;

use polychip_ops::{BlockLayout, DType};

/// What one scale covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodingAxis {
    /// The whole tensor.
    PerTensor,
    /// One index of this axis.
    PerAxis(usize),
    /// `block` neighbours along `axis`; scales are in row-major order of the tensor's shape with
    /// `axis` divided by `block`, rounded up.
    PerBlock {
        /// The axis, from the front.
        axis: usize,
        /// Elements in a block.
        block: usize,
    },
    /// Blocks along the last axis that hold their scales beside their values.
    Blocks(BlockLayout),
}

/// Scale and zero point of a quantised tensor.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// What one scale covers.
    pub axis: EncodingAxis,
    /// The scales; copies of the encoding share them.
    pub scales: Arc<[f32]>,
    /// The zero points, or none where all are zero.
    pub zero_points: Arc<[i32]>,
    /// Element type of the real values that an op sees.
    pub real: DType,
}

impl Encoding {
    /// Whether one scale holds for the whole tensor.
    pub fn is_per_tensor(&self) -> bool {
        self.axis == EncodingAxis::PerTensor
    }

    /// Blocks of this layout that stand for `f32`.
    pub fn blocks(layout: BlockLayout) -> Encoding {
        Encoding {
            axis: EncodingAxis::Blocks(layout),
            scales: Arc::default(),
            zero_points: Arc::default(),
            real: DType::F32,
        }
    }

    /// The layout of blocks that hold their own scales.
    pub fn block_layout(&self) -> Option<BlockLayout> {
        match self.axis {
            EncodingAxis::Blocks(layout) => Some(layout),
            _ => None,
        }
    }
}

impl PartialEq for Encoding {
    fn eq(&self, other: &Encoding) -> bool {
        let bits = |scales: &[f32]| scales.iter().map(|scale| scale.to_bits()).collect::<Vec<_>>();
        self.axis == other.axis
            && self.real == other.real
            && self.zero_points == other.zero_points
            && bits(&self.scales) == bits(&other.scales)
    }
}

impl Eq for Encoding {}
