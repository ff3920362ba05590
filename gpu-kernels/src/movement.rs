//! Movement of elements: every output element is one input element, or a fill.
//!
//! Invariants:
//! 1. Elements are moved as bits, in the largest units that stay contiguous (16, 8 or 4 bytes;
//!    smaller ones are combined into words), so a device needs only 32-bit integers.
//! 2. Indices follow ONNX: a negative one counts from the end. A device cannot report an index
//!    outside the axis: gathers clamp it to the axis, scatters ignore it.

mod along;
mod gather;
mod join;
mod map;
mod scatter;
mod strided;
mod transpose;

use serde::{Deserialize, Serialize};

use crate::Scalar;

/// `Transpose`: axis `i` of the output is axis `order[i]` of the input. Bindings: input, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transpose {
    /// Element type of both tensors.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Axes of the input in the output's order.
    pub order: Vec<usize>,
}

/// `Slice`. Bindings: input, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// Element type of both tensors.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// First index along each axis of the input.
    pub starts: Vec<u64>,
    /// Step along each axis, not 0.
    pub steps: Vec<i64>,
    /// Shape of the output.
    pub counts: Vec<u64>,
}

/// `Concat`. Bindings: the inputs, then the output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Concat {
    /// Element type of all tensors.
    pub scalar: Scalar,
    /// Shapes of the inputs, equal except along the axis.
    pub shapes: Vec<Vec<u64>>,
    /// Axis.
    pub axis: usize,
}

/// The values of padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PadMode {
    /// One value.
    Constant,
    /// The tensor mirrored at its edge elements.
    Reflect,
    /// The edge elements.
    Edge,
    /// The tensor repeated.
    Wrap,
}

/// `Pad`. Bindings: input, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pad {
    /// Element type of both tensors.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Elements before each axis; negative ones are cut away.
    pub before: Vec<i64>,
    /// Elements after each axis; negative ones are cut away.
    pub after: Vec<i64>,
    /// The values of the added elements.
    pub mode: PadMode,
    /// Bits of the value of [`PadMode::Constant`], in the tensor's type.
    pub fill: u64,
}

/// `Expand` and `Tile`: the input, broadcast or repeated. Bindings: input, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tile {
    /// Element type of both tensors.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Shape of the output: a multiple of the input's along each axis, of the same rank.
    pub to: Vec<u64>,
}

/// `Gather`. Bindings: input, indices, output `[shape before the axis, indices, shape after it]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gather {
    /// Type of input and output.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Axis.
    pub axis: usize,
    /// Number of indices.
    pub indices: u64,
    /// Type of the indices: `i64` or `i32`.
    pub index: Scalar,
}

/// `GatherElements`. Bindings: input, indices, output of the shape of the indices.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GatherElements {
    /// Type of input and output.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Axis.
    pub axis: usize,
    /// Shape of the indices.
    pub indices: Vec<u64>,
    /// Type of the indices: `i64` or `i32`.
    pub index: Scalar,
}

/// `GatherND`. Bindings: input, indices, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GatherNd {
    /// Type of input and output.
    pub scalar: Scalar,
    /// Shape of the input.
    pub shape: Vec<u64>,
    /// Shape of the indices; the last axis is a tuple.
    pub indices: Vec<u64>,
    /// Axes that input and indices share (`batch_dims`).
    pub batch: usize,
    /// Type of the indices: `i64` or `i32`.
    pub index: Scalar,
}

/// `ScatterElements` without a reduction, of types of 4 or 8 bytes and of distinct indices. The output holds the
/// data already (a [`Copy`](crate::Copy) before it). Bindings: indices, updates, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScatterElements {
    /// Type of updates and output.
    pub scalar: Scalar,
    /// Shape of the output.
    pub shape: Vec<u64>,
    /// Axis.
    pub axis: usize,
    /// Shape of the indices and of the updates.
    pub indices: Vec<u64>,
    /// Type of the indices: `i64` or `i32`.
    pub index: Scalar,
}

/// `ScatterND` without a reduction, of types of 4 or 8 bytes and of distinct indices. The output holds the data
/// already (a [`Copy`](crate::Copy) before it). Bindings: indices, updates, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScatterNd {
    /// Type of updates and output.
    pub scalar: Scalar,
    /// Shape of the output.
    pub shape: Vec<u64>,
    /// Shape of the indices; the last axis is a tuple.
    pub indices: Vec<u64>,
    /// Type of the indices: `i64` or `i32`.
    pub index: Scalar,
}

/// `CumSum` of `[outer, count, inner]` along `count`. Bindings: input, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CumSum {
    /// Type of both: `f32`, `f16`, `i32` or `i64`.
    pub scalar: Scalar,
    /// Product of the dimensions before the axis.
    pub outer: u64,
    /// Size of the axis.
    pub count: u64,
    /// Product of the dimensions after the axis.
    pub inner: u64,
    /// Whether each sum excludes its own element.
    pub exclusive: bool,
    /// Whether sums start at the end.
    pub reverse: bool,
}

/// `Trilu` of the last two axes. Bindings: input, output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Trilu {
    /// Element type of both tensors.
    pub scalar: Scalar,
    /// Shape of both, of rank 2 or more.
    pub shape: Vec<u64>,
    /// Whether the upper triangle stays.
    pub upper: bool,
    /// The bounding diagonal; positive ones are above the main diagonal.
    pub diagonal: i64,
}

/// `OneHot`. Bindings: indices, the two values (off, on), output `[outer, depth, inner]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OneHot {
    /// Type of values and output.
    pub scalar: Scalar,
    /// Type of the indices: `i64` or `i32`.
    pub index: Scalar,
    /// Indices before the new axis.
    pub outer: u64,
    /// Size of the new axis.
    pub depth: u64,
    /// Indices after the new axis.
    pub inner: u64,
}
