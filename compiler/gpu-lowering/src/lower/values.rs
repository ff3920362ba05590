//! Values of a program: how each is stored, and the types and sizes of tensors in memory.

use half::f16;
use polychip_gpu_kernels::{Quants, Scalar};
use polychip_lowering::{Outcome, Part, Refusal, TensorIndex};
use polychip_ops::{BlockLayout, DType};
use polychip_sdk::Encoding;

use crate::program::Home;

/// Index of a value of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ValueId(pub(super) u32);

/// A value, and how its elements are to be read.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) home: Home,
    pub(super) bytes: u64,
    pub(super) scalar: Scalar,
    /// The value that it is a view of, and its first byte there.
    pub(super) root: Option<(ValueId, u64)>,
}

/// Type in memory of a data type, where there is one.
pub(super) fn scalar_of(dtype: DType) -> Option<Scalar> {
    Some(match dtype {
        DType::F32 => Scalar::F32,
        DType::F16 => Scalar::F16,
        DType::I32 => Scalar::I32,
        DType::U32 => Scalar::U32,
        DType::I16 => Scalar::I16,
        DType::U16 => Scalar::U16,
        DType::I64 => Scalar::I64,
        DType::I8 => Scalar::I8,
        DType::U8 => Scalar::U8,
        DType::Bool => Scalar::Bool,
        _ => return None,
    })
}

/// Number of elements of a shape.
pub(super) fn count(dims: &[usize]) -> Outcome<u64> {
    dims.iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))
        .filter(|&count| count <= u64::from(u32::MAX))
        .ok_or_else(|| Refusal::shape(format!("a tensor of shape {dims:?} has more than 2^32 elements")))
}

/// Size of a tensor in memory.
pub(super) fn bytes_of(scalar: Scalar, dims: &[usize]) -> Outcome<u64> {
    Ok(count(dims)? * scalar.bytes())
}

/// Floats as bytes of this type.
pub(super) fn float_bytes(scalar: Scalar, values: &[f32]) -> Vec<u8> {
    match scalar {
        Scalar::F16 => values
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_le_bytes())
            .collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// Whether a type is one of the floats that kernels compute on.
pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16)
}

/// Batch, channels and the product of the spatial extents.
pub(super) fn image(dims: &[usize]) -> [usize; 3] {
    match dims {
        [n, c, spatial @ ..] => [*n, *c, spatial.iter().product()],
        [n] => [*n, 1, 1],
        [] => [1, 1, 1],
    }
}

/// The blocks in which kernels read constant weights, where they can: blocks without a kernel are read as wider ones of
/// the same values, or else decoded.
pub(super) fn quants_of(part: &Part, weights: TensorIndex) -> Option<Quants> {
    let encoding = part.tensors[weights].encoding.as_ref();
    let layout = encoding.and_then(Encoding::block_layout)?;
    Some(match layout.wider().unwrap_or(layout) {
        BlockLayout::Q4_0 => Quants::Q4_0,
        BlockLayout::Q4_1 => Quants::Q4_1,
        BlockLayout::Q8_0 => Quants::Q8_0,
        BlockLayout::Q4_K => Quants::Q4_K,
        BlockLayout::Q5_K => Quants::Q5_K,
        BlockLayout::Q6_K => Quants::Q6_K,
        _ => return None,
    })
}
