//! Tensors of a lowered part and the memory that they are in.

use polychip_ops::DType;
use polychip_sdk::Constant;

/// Index of a value in [`Program::values`](super::Program::values).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueId(pub(crate) u32);

/// Index of an allocation in [`Program::allocations`](super::Program::allocations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AllocationId(pub(crate) u32);

/// A tensor in memory.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    /// Type of the elements.
    pub(crate) dtype: DType,
    /// Extents in the order of memory; `None` for a boxed tensor.
    pub(crate) shape: Option<Vec<usize>>,
    /// Where it starts in the allocation, in bytes.
    pub(crate) offset: usize,
    /// Size, in bytes.
    pub(crate) bytes: usize,
    /// Where they are.
    pub(crate) allocation: AllocationId,
}

/// Where an allocation is.
#[derive(Debug, Clone)]
pub(crate) enum Home {
    /// In the arena, at an offset in bytes that is planned last.
    Arena(usize),
    /// In the memory bound to a port.
    Port(usize),
    /// In the model's mapping.
    Constant(Constant),
    /// In memory of the executable: a constant of the model that is not aligned.
    Copy(usize),
    /// In the packed weights: a section.
    Packed(usize),
    /// A boxed tensor.
    Slot(usize),
}

/// A piece of memory.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    /// Size.
    pub(crate) bytes: usize,
    /// Place.
    pub(crate) home: Home,
}
