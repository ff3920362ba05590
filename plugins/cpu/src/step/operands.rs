//! What a step sees of memory: its operands as slices.
//!
//! Invariants:
//! 1. Every allocation is at least as long as each of its values, and aligned to the value's elements; `bind`
//!    of the executable has checked it for ports.
//! 2. A result is lent as a mutable slice once per step, and an operand that the first result overwrites is never
//!    lent beside it.
//! 3. One thread at a time runs the steps over one [`Memory`].
#![allow(unsafe_code)]

use std::borrow::Cow;

use half::bf16;
use polychip_cpu_kernels::{Slice, SliceMut, ThreadPool};
use polychip_ops::DType;
use polychip_reference::Tensor;
use polychip_sdk::{AlignedBytes, Error, ErrorKind, Result};
use smallvec::SmallVec;

use super::values::{Allocation, Home, Value, ValueId};
use crate::weights::Address;

/// Element types that may be read from and written to raw memory.
///
/// # Safety
/// Every bit pattern is a value, and there are no padding bytes.
pub(crate) unsafe trait Plain: Copy + Send + Sync + 'static {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for f32 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for u8 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for i8 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for u16 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for i16 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for u32 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for i32 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for u64 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for i64 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for f64 {}
// SAFETY: every bit pattern is a value.
unsafe impl Plain for bf16 {}

/// What an input port of a nested program is given.
pub(crate) enum Given<'a> {
    /// Elements of these extents.
    Memory(&'a [u8], DType, &'a [usize]),
    /// A boxed tensor.
    Boxed(Tensor),
}

impl Given<'_> {
    /// A boxed tensor of it.
    ///
    /// # Errors
    /// Its bytes are not what its type says.
    pub(crate) fn tensor(self) -> Result<Tensor> {
        match self {
            Given::Boxed(tensor) => Ok(tensor),
            Given::Memory(bytes, dtype, dims) => tensor_from_bytes(dtype, dims, bytes),
        }
    }
}

/// What an output port of a nested program is wanted in.
pub(crate) enum Wanted<'a> {
    /// Elements of these extents.
    Memory(&'a mut [u8], DType, &'a [usize]),
    /// A boxed tensor.
    Boxed(&'a mut Option<Tensor>),
}

/// Boxed tensors of a run.
pub(crate) type Slots = Vec<Option<Tensor>>;

/// Addresses of one run.
pub(crate) struct Memory {
    /// Start of the arena.
    pub(crate) arena: *mut u8,
    /// Where each section of the packed weights starts.
    pub(crate) packed: *const Address,
    /// Start and length of the memory bound to each port.
    pub(crate) ports: Vec<(*mut u8, usize)>,
}

// SAFETY: the addresses are used by the one thread that runs the steps (invariant 3).
unsafe impl Send for Memory {}

/// What operands are of a lowered part and of one of its steps.
#[derive(Clone, Copy)]
pub(crate) struct OperandTable<'a> {
    /// Values of the part.
    pub(crate) values: &'a [Value],
    /// Allocations of the part.
    pub(crate) allocations: &'a [Allocation],
    /// Constants of the part that had to be copied.
    pub(crate) copies: &'a [AlignedBytes],
    /// What the step is, for messages.
    pub(crate) name: &'static str,
    /// The step's operands.
    pub(crate) reads: &'a [ValueId],
    /// Its results and scratch.
    pub(crate) writes: &'a [ValueId],
    /// The operand that the first result overwrites.
    pub(crate) shared: Option<usize>,
    /// Boxed operands that nothing reads later, by bits.
    pub(crate) last_reads: u64,
}

/// The operands of one step.
pub(crate) struct Operands<'a> {
    of: OperandTable<'a>,
    pub(super) memory: &'a Memory,
    slots: &'a mut Slots,
    /// Threads.
    pub(crate) pool: &'a ThreadPool,
    /// Whether the run was cancelled: for steps that may take long.
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// A bit for each result: whether it was lent. A step of more than 64 results allocates.
    taken: SmallVec<[u64; 1]>,
    /// Whether a kernel computed a step that the evaluator could have computed.
    pub(crate) by_kernel: bool,
}

impl<'a> Operands<'a> {
    /// The operands of a step.
    ///
    /// # Safety
    /// `memory` holds addresses that are valid for the step's program during `'a`: the arena for `arena_bytes`, the
    /// table of the packed weights for the program's sections and each address in it for the section's floats, each port
    /// for the bytes of its value. No other thread uses the arena
    /// or writes the ports meanwhile.
    pub(crate) unsafe fn new(
        of: OperandTable<'a>,
        memory: &'a Memory,
        slots: &'a mut Slots,
        pool: &'a ThreadPool,
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            of,
            memory,
            slots,
            pool,
            stop,
            taken: SmallVec::new(),
            by_kernel: false,
        }
    }

    fn value(&self, id: ValueId) -> &'a Value {
        &self.of.values[id.0 as usize]
    }

    fn address(&self, value: &Value) -> *mut u8 {
        let start: *mut u8 = match &self.of.allocations[value.allocation.0 as usize].home {
            Home::Arena(offset) => self.memory.arena.wrapping_add(*offset),
            Home::Port(port) => self.memory.ports[*port].0,
            Home::Constant(constant) => constant.bytes().as_ptr().cast_mut(),
            Home::Copy(index) => self.of.copies[*index].as_ptr().cast_mut(),
            Home::Packed(section) => {
                let entry = self.memory.packed.wrapping_add(*section);
                // SAFETY: the table has an address for each section, as the caller of `new` promised.
                unsafe { *entry }.0.cast_mut().cast()
            }
            Home::Slot(_) => unreachable!("invariant: a boxed tensor has no address"),
        };
        start.wrapping_add(value.offset)
    }

    /// Whether the first result overwrites an operand, and which.
    pub(crate) fn shared(&self) -> Option<usize> {
        self.of.shared
    }

    /// Operand `i`.
    ///
    /// # Panics
    /// If it is boxed, is overwritten by the first result, or its elements have another size.
    pub(crate) fn read<T: Plain>(&self, i: usize) -> &'a [T] {
        assert!(
            self.of.shared != Some(i),
            "invariant: an overwritten operand is not read"
        );
        let value = self.value(self.of.reads[i]);
        if value.bytes == 0 {
            // an empty constant may lie anywhere
            return &[];
        }
        let address = self.address(value);
        debug_assert!((address as usize).is_multiple_of(align_of::<T>()));
        // SAFETY: the allocation is alive for 'a, long enough and aligned (invariant 1); it is not written during the
        // step, because allocations that are alive together do not overlap and the shared operand is excluded above.
        unsafe { std::slice::from_raw_parts(address.cast::<T>(), value.bytes / size_of::<T>()) }
    }

    /// Result or scratch `i`; where [`shared`](Self::shared) is true, result 0 holds the operand.
    ///
    /// # Panics
    /// If it is boxed or was lent before.
    pub(crate) fn write<T: Plain>(&mut self, i: usize) -> &'a mut [T] {
        let (word, bit) = (i / 64, 1_u64 << (i % 64));
        if self.taken.len() <= word {
            self.taken.resize(word + 1, 0);
        }
        assert!(self.taken[word] & bit == 0, "invariant: a result is lent once");
        self.taken[word] |= bit;
        let value = self.value(self.of.writes[i]);
        if value.bytes == 0 {
            return &mut [];
        }
        let address = self.address(value);
        debug_assert!((address as usize).is_multiple_of(align_of::<T>()));
        // SAFETY: as in `read`; lent once, and no operand or other result overlaps it.
        unsafe { std::slice::from_raw_parts_mut(address.cast::<T>(), value.bytes / size_of::<T>()) }
    }

    /// Operand `i`, in the element type of its value: f32 or bf16.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    pub(crate) fn slice(&self, i: usize) -> Slice<'a> {
        match self.value(self.of.reads[i]).dtype {
            DType::BF16 => Slice::Bf16(self.read(i)),
            _ => Slice::F32(self.read(i)),
        }
    }

    /// Result `i`, in the element type of its value: f32 or bf16.
    ///
    /// # Panics
    /// As [`write`](Self::write).
    pub(crate) fn slice_mut(&mut self, i: usize) -> SliceMut<'a> {
        match self.value(self.of.writes[i]).dtype {
            DType::BF16 => SliceMut::Bf16(self.write(i)),
            _ => SliceMut::F32(self.write(i)),
        }
    }

    /// Scratch that the step may have been given as its last result.
    pub(crate) fn scratch(&mut self, i: usize) -> &'a mut [f32] {
        if i < self.of.writes.len() {
            self.write(i)
        } else {
            &mut []
        }
    }

    /// Operand `i` as a program inside the step takes it.
    pub(crate) fn given(&self, i: usize) -> Result<Given<'a>> {
        let value = self.value(self.of.reads[i]);
        match &value.shape {
            None => self.tensor(i).map(Given::Boxed),
            Some(shape) => Ok(Given::Memory(self.read(i), value.dtype, shape)),
        }
    }

    /// Extents of operand `i`, in the order of memory; nothing where it was not computed.
    pub(crate) fn dims(&self, i: usize) -> Option<&[usize]> {
        let value = self.value(self.of.reads[i]);
        match &value.shape {
            Some(shape) => Some(shape),
            None => self.boxed(i).map(Tensor::shape),
        }
    }

    /// Operand `i`, where it is a boxed tensor.
    pub(crate) fn boxed(&self, i: usize) -> Option<&Tensor> {
        let value = self.value(self.of.reads[i]);
        match &self.of.allocations[value.allocation.0 as usize].home {
            Home::Slot(slot) => self.slots[*slot].as_ref(),
            _ => None,
        }
    }

    /// Whether result `i` is a boxed tensor.
    pub(crate) fn gives_boxed(&self, i: usize) -> bool {
        self.value(self.of.writes[i]).shape.is_none()
    }

    /// As [`given`](Self::given), a boxed tensor where it lies.
    pub(crate) fn given_in_place(&self, i: usize) -> Result<Given<'_>> {
        let boxed = self.boxed(i);
        match boxed.and_then(|tensor| Some((tensor, tensor.bytes()?))) {
            Some((tensor, bytes)) => Ok(Given::Memory(
                bytes,
                polychip_reference::dtype(tensor.element()),
                tensor.shape(),
            )),
            None => self.given(i),
        }
    }

    /// Result `i` as a program inside the step gives it; into `boxed` where its size is not known, to be
    /// [`stored`](Self::store) by the caller.
    ///
    /// # Panics
    /// As [`write`](Self::write).
    pub(crate) fn wanted<'b>(&mut self, i: usize, boxed: &'b mut Option<Tensor>) -> Wanted<'b>
    where
        'a: 'b,
    {
        let value = self.value(self.of.writes[i]);
        match &value.shape {
            None => Wanted::Boxed(boxed),
            Some(shape) => Wanted::Memory(self.write(i), value.dtype, shape),
        }
    }

    /// Operand `i` as a boxed tensor.
    pub(crate) fn tensor(&self, i: usize) -> Result<Tensor> {
        let value = self.value(self.of.reads[i]);
        match &self.of.allocations[value.allocation.0 as usize].home {
            Home::Slot(slot) => self.slots[*slot]
                .clone()
                .ok_or_else(|| Error::new(ErrorKind::Persistent, "a tensor is used before it is computed")),
            _ => {
                let shape = value
                    .shape
                    .as_ref()
                    .expect("invariant: a value with an address has a shape");
                tensor_from_bytes(value.dtype, shape, self.read::<u8>(i))
            }
        }
    }

    /// As [`tensor`](Self::tensor), where it lies if it is boxed.
    pub(crate) fn taken(&self, i: usize) -> Result<Cow<'_, Tensor>> {
        match self.boxed(i) {
            Some(tensor) => Ok(Cow::Borrowed(tensor)),
            None => self.tensor(i).map(Cow::Owned),
        }
    }

    /// Operand `i` out of its place, where it is boxed and nothing reads it later.
    pub(crate) fn take(&mut self, i: usize) -> Option<Tensor> {
        if self.of.last_reads >> i & 1 == 0 {
            return None;
        }
        let value = self.value(self.of.reads[i]);
        match &self.of.allocations[value.allocation.0 as usize].home {
            Home::Slot(slot) => self.slots[*slot].take(),
            _ => None,
        }
    }

    /// Stores a boxed tensor as result `i`.
    pub(crate) fn store(&mut self, i: usize, tensor: Tensor) -> Result<()> {
        let value = self.value(self.of.writes[i]);
        match &self.of.allocations[value.allocation.0 as usize].home {
            Home::Slot(slot) => self.slots[*slot] = Some(tensor),
            _ => {
                let shape = value.shape.as_deref().unwrap_or(&[]);
                if tensor.shape() != shape || polychip_reference::dtype(tensor.element()) != value.dtype {
                    // only values given at run time can contradict a shape that was inferred or declared
                    return Err(Error::new(
                        ErrorKind::BadArgument,
                        format!(
                            "{}: the result is {}{:?}, the part says {}{shape:?}",
                            self.of.name,
                            polychip_reference::dtype(tensor.element()).name(),
                            tensor.shape(),
                            value.dtype.name()
                        ),
                    ));
                }
                let bytes = bytes_of(&tensor);
                let target = self.write::<u8>(i);
                if bytes.len() != target.len() {
                    return Err(Error::new(
                        ErrorKind::Persistent,
                        "a result has another size than its type says",
                    ));
                }
                target.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }
}

/// The bytes of a boxed tensor, where they lie if they lie so.
pub(crate) fn bytes_of(tensor: &Tensor) -> Cow<'_, [u8]> {
    match tensor.bytes() {
        Some(bytes) => Cow::Borrowed(bytes),
        None => Cow::Owned(tensor.to_bytes()),
    }
}

/// A boxed tensor of these bytes.
pub(crate) fn tensor_from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Tensor> {
    Tensor::from_bytes(polychip_reference::element(dtype), shape.to_vec(), bytes)
        .map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))
}
