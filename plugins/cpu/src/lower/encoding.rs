//! What encodings of tensors mean to kernels.
//!
//! Invariant: codes are unsigned bytes; signed ones are flipped to them at ports and where a node wants the stored bytes.
//!
//! Not here: steps between reals, integers and codes (`quantise`).

use polychip_cpu_kernels::quantised::CodeRange;
use polychip_ops::{DType, Op};

use crate::part::{EncodingKind, Node, Part, TensorIndex};

/// Whether a tensor is stored as 16-bit floats, which kernels compute on as f32.
pub(super) fn is_half(part: &Part, tensor: TensorIndex) -> bool {
    let t = &part.tensors[tensor];
    matches!(t.dtype, DType::F16 | DType::BF16) && t.dims.is_some() && t.encoding.is_none() && !t.packed
}

/// Whether an op sees f32 values that nothing rounds behind it: f32 of known shape, or floats of 16 bits.
pub(super) fn is_unrounded(part: &Part, tensor: TensorIndex) -> bool {
    part.plain_f32(tensor) || is_half(part, tensor)
}

/// Whether an op sees f32 values: f32 itself, 16-bit floats, or integers with an encoding of f32.
pub(super) fn stands_for_f32(part: &Part, tensor: TensorIndex) -> bool {
    let t = &part.tensors[tensor];
    match &t.encoding {
        Some(encoding) => encoding.real_dtype == DType::F32 && range(t.dtype).is_some(),
        None => t.dtype == DType::F32 || is_half(part, tensor),
    }
}

/// The integers that a stored type holds.
pub(super) fn range(dtype: DType) -> Option<(f32, f32)> {
    Some(match dtype {
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::U16 => (0.0, 65535.0),
        DType::I32 => (i32::MIN as f32, i32::MAX as f32),
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I2 => (-2.0, 1.0),
        DType::U2 => (0.0, 3.0),
        _ => return None,
    })
}

/// What is added to a byte to make it a code.
pub(super) fn flipped(dtype: DType) -> Option<i32> {
    match dtype {
        DType::U8 => Some(0),
        DType::I8 => Some(128),
        _ => None,
    }
}

/// One scale and one zero for 8-bit codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grid {
    /// The step.
    pub(super) scale: f32,
    /// The code of zero.
    pub(super) zero: u8,
}

impl Grid {
    /// A step of this grid in steps of another.
    pub(super) fn over(self, other: Grid) -> f32 {
        self.scale / other.scale
    }

    /// All codes.
    pub(super) fn codes(self) -> CodeRange {
        CodeRange::all(self.zero)
    }
}

/// The grid of a tensor of 8-bit codes that stand for f32, where it has one for all elements.
pub(super) fn grid(part: &Part, tensor: TensorIndex) -> Option<Grid> {
    let t = &part.tensors[tensor];
    let encoding = t.encoding.as_ref()?;
    let top = flipped(t.dtype)?;
    let zero = encoding.zero_points.first().copied().unwrap_or(0);
    let zero = u8::try_from(zero.checked_add(top)?).ok()?;
    let scale = *encoding.scales.first()?;
    let one = encoding.kind == EncodingKind::PerTensor && encoding.real_dtype == DType::F32;
    (one && scale.is_normal() && scale > 0.0 && t.dims.is_some()).then_some(Grid { scale, zero })
}

/// Ops that move or select elements: what they give holds one encoding with what they take.
fn carries(op: Op) -> bool {
    matches!(
        op,
        Op::Identity
            | Op::Reshape
            | Op::Flatten
            | Op::Squeeze
            | Op::Unsqueeze
            | Op::Transpose
            | Op::Slice
            | Op::Split
            | Op::Concat
            | Op::Expand
            | Op::MaxPool
            | Op::Gather
            | Op::DepthToSpace
            | Op::SpaceToDepth
    )
}

/// Whether a result's values are on its encoding's grid already, because the node only moved them.
pub(super) fn is_rounded(part: &Part, node: &Node, output: TensorIndex) -> bool {
    let t = &part.tensors[output];
    let Some(own) = &t.encoding else { return true };
    let mut inputs = node.inputs.iter().copied().flatten().map(|t| &part.tensors[t]);
    carries(node.op)
        && own.kind == EncodingKind::PerTensor
        && inputs.all(|x| {
            let is_index = x.encoding.is_none() && x.dtype.is_int();
            is_index || (x.encoding.as_ref() == Some(own) && x.dtype == t.dtype)
        })
}
