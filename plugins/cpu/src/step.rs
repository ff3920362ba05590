//! The compiled form of a part: values in allocations, and steps over them.
//!
//! Invariants:
//! 1. A value has known extents and bytes in an allocation, or it is a boxed tensor in a slot.
//! 2. Allocations in the arena that are alive at one step do not overlap (`arena`), but for a step whose
//!    `shared` is set: its result overwrites its operand.
//! 3. A step's closure reaches memory only through [`Operands`], by position in `reads` and `writes`.
//!
//! Not here: how steps come about (`lower`), who runs them (`exec`).

use std::sync::Arc;

use polychip_ops::DType;
use polychip_sdk::{Constant, Result};

use crate::weights::{Packer, Section};
use crate::work::{Class, Repeated, Work};

mod nested;
mod operands;

pub(crate) use nested::Nested;
pub(crate) use operands::{Given, Memory, Operands, Plain, Slots, Wanted, bytes_of, tensor_from_bytes};

/// Index of a value in [`Program::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueId(pub(crate) u32);

/// Index of an allocation in [`Program::allocations`].
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

/// What a step does.
pub(crate) type Run = Box<dyn Fn(&mut Operands<'_>) -> Result<()> + Send + Sync>;

/// One kernel call.
pub(crate) struct Step {
    /// The node it computes, or the first of several.
    pub(crate) node: u32,
    /// Those that it computes; none where it serves the whole part.
    pub(crate) nodes: Arc<[u32]>,
    /// What it is, for messages and tests.
    pub(crate) name: &'static str,
    /// Operands.
    pub(crate) reads: Vec<ValueId>,
    /// Results and scratch.
    pub(crate) writes: Vec<ValueId>,
    /// Operands that the first result may overwrite, where they are not used later, in order of liking.
    pub(crate) may_share: Vec<usize>,
    /// The operand that the first result overwrites.
    pub(crate) shared: Option<usize>,
    /// Boxed operands that nothing reads later, by bits.
    pub(crate) last_reads: u64,
    /// What it does, as far as its time depends on it.
    pub(crate) work: Work,
    /// What the steps of its bodies do.
    pub(crate) within: Vec<Repeated>,
    /// The kernel call.
    pub(crate) run: Run,
}

impl Step {
    /// States the class of its loops; they turn once per element of the first result.
    pub(crate) fn is(&mut self, class: Class) -> &mut Self {
        self.work.class = class;
        self
    }

    /// States the class of its loops, and how often they turn.
    pub(crate) fn does(&mut self, class: Class, units: usize) -> &mut Self {
        self.work.units = units as u64;
        self.is(class)
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} -> {:?}", self.name, self.reads, self.writes)
    }
}

/// What a port needs at run time.
#[derive(Debug, Clone)]
pub(crate) struct PortUse {
    /// The value at the port; for a boxed output the slot's value.
    pub(crate) value: ValueId,
    /// Extents are known only at run time: the bytes are copied from or to a boxed tensor.
    pub(crate) boxed: bool,
    /// Not even bounds of its extents are known.
    pub(crate) unbounded: bool,
    /// What it carries packed into bytes: strings, or the bytes of a sequence or optional.
    pub(crate) packed: Option<DType>,
}

/// A lowered part.
pub(crate) struct Program {
    /// Values.
    pub(crate) values: Vec<Value>,
    /// Allocations.
    pub(crate) allocations: Vec<Allocation>,
    /// Steps in order of execution.
    pub(crate) steps: Vec<Step>,
    /// Bytes of the arena.
    pub(crate) arena_bytes: usize,
    /// The most bytes of it that are alive at one step: no arena is smaller.
    pub(crate) arena_bound: u64,
    /// Number of boxed tensors.
    pub(crate) slots: usize,
    /// Constants that had to be copied because the model does not align them.
    pub(crate) copies: Vec<polychip_sdk::AlignedBytes>,
    /// Pieces of the packed weights.
    pub(crate) sections: Vec<Section>,
    /// What packs them, in their order; nothing once they are packed.
    pub(crate) packers: Vec<Packer>,
    /// Floats of the packed weights in a blob.
    pub(crate) packed_len: usize,
    /// Codes of the convolutions' algorithms, in their order: with others, other weights would be packed.
    pub(crate) algorithms: Vec<u8>,
    /// Input ports, then output ports.
    pub(crate) ports: Vec<PortUse>,
    /// The values decide how long a run takes: it has loops.
    pub(crate) boundless: bool,
}
