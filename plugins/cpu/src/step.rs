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
use polychip_sdk::Result;

use crate::weights::{Packer, Section};
use crate::work::{Class, Repeated, Work};

mod nested;
mod operands;
mod region;
mod running;
mod values;

pub(crate) use nested::Nested;
use operands::OperandTable;
pub(crate) use operands::{Given, Memory, Operands, Plain, Slots, Wanted, bytes_of, tensor_from_bytes};
pub(crate) use region::{Clock, Context, Region};
pub(crate) use values::{Allocation, AllocationId, Home, Value, ValueId};

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
    /// Steps that can run as one program, in order.
    pub(crate) regions: Vec<Region>,
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

impl Program {
    /// What the operands of one of its steps are.
    pub(crate) fn operands<'a>(&'a self, step: &'a Step) -> OperandTable<'a> {
        OperandTable {
            values: &self.values,
            allocations: &self.allocations,
            copies: &self.copies,
            name: step.name,
            reads: &step.reads,
            writes: &step.writes,
            shared: step.shared,
            last_reads: step.last_reads,
        }
    }
}
