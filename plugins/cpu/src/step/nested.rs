//! Programs inside a step: a body runs in memory of its node's step, as often as that says.
//!
//! Invariants:
//! 1. A nested program works in a scratch of its step and in what the step binds to its ports; its packed weights are a
//!    piece of those around it, or its own where it was lowered while the part ran.
//! 2. Between two calls nothing of it lives on but what its step keeps.
//!
//! Not here: when a body runs, and what it is fed (`lower/control`).
#![allow(unsafe_code)]

use polychip_ops::DType;
use polychip_sdk::{AlignedBytes, Error, ErrorKind, Result};

use super::operands::{Given, Memory, Operands, Wanted, bytes_of, tensor_from_bytes};
use super::{Context, Program, Value};
use crate::arena::ALIGN;
use crate::weights::Packed;

/// A program inside a step.
pub(crate) struct Nested {
    program: Program,
    weights: Where,
}

/// Where the packed weights of a nested program are.
enum Where {
    /// Among those around it, from this one on.
    Around(usize),
    /// Its own.
    Own(Packed),
}

impl Nested {
    /// A program whose sections are packed by the program around it, from this one on.
    pub(crate) fn new(program: Program, packed: usize) -> Self {
        Self {
            program,
            weights: Where::Around(packed),
        }
    }

    /// A program with packed weights of its own.
    pub(crate) fn with_weights(program: Program, packed: Packed) -> Self {
        Self {
            program,
            weights: Where::Own(packed),
        }
    }

    /// Bytes of scratch that a call needs.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.program.arena_bytes
    }

    /// The type and extents of a port, inputs first; no extents where its tensor is boxed.
    pub(crate) fn port(&self, port: usize) -> (DType, Option<&[usize]>) {
        let value = self.value(port);
        (value.dtype, value.shape.as_deref())
    }

    fn value(&self, port: usize) -> &Value {
        &self.program.values[self.program.ports[port].value.0 as usize]
    }

    fn slot(&self, port: usize) -> Option<usize> {
        match self.program.allocations[self.value(port).allocation.0 as usize].home {
            super::Home::Slot(slot) => Some(slot),
            _ => None,
        }
    }
}

fn mismatch(what: &str, dtype: DType, dims: &[usize], value: &Value) -> Error {
    // only values given at run time can contradict a shape that was inferred or declared
    Error::bad_argument(format!(
        "{what} of a body is {}{dims:?}, the model says {}{:?}",
        dtype.name(),
        value.dtype.name(),
        value.shape.as_deref().unwrap_or(&[])
    ))
}

impl Operands<'_> {
    fn check_cancelled(&self) -> Result<()> {
        if (self.stop)() {
            return Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"));
        }
        Ok(())
    }

    /// Runs a nested program once, in a scratch of at least its bytes.
    ///
    /// # Errors
    /// A step of it fails, what it is given is not what its ports take, or the run was cancelled.
    pub(crate) fn call(
        &self,
        nested: &Nested,
        scratch: &mut [f32],
        given: Vec<Given<'_>>,
        wanted: Vec<Wanted<'_>>,
        context: &Context<'_>,
    ) -> Result<()> {
        let program = &nested.program;
        if 4 * scratch.len() < program.arena_bytes || given.len() + wanted.len() != program.ports.len() {
            return Err(Error::new(
                ErrorKind::Persistent,
                "a body is called with other memory than it was lowered for",
            ));
        }
        let mut ports: Vec<(*mut u8, usize)> = Vec::with_capacity(program.ports.len());
        let mut slots = vec![None; program.slots];
        // memory of tensors that are boxed outside and not inside
        let mut unboxed: Vec<AlignedBytes> = Vec::new();
        let inputs = given.len();
        for (port, given) in given.into_iter().enumerate() {
            let value = nested.value(port);
            let mut address = (std::ptr::null_mut(), 0);
            match (nested.slot(port), given) {
                (Some(slot), Given::Boxed(tensor)) => slots[slot] = Some(tensor),
                (Some(slot), Given::Memory(bytes, dtype, dims)) => {
                    slots[slot] = Some(tensor_from_bytes(dtype, dims, bytes)?);
                }
                (None, Given::Memory(bytes, dtype, dims)) => {
                    if dtype != value.dtype
                        || Some(dims) != value.shape.as_deref()
                        || bytes.len() < value.bytes
                    {
                        return Err(mismatch("an input", dtype, dims, value));
                    }
                    // an input port is only read
                    address = (bytes.as_ptr().cast_mut(), bytes.len());
                }
                (None, Given::Boxed(tensor)) => {
                    let dtype = polychip_reference::dtype(tensor.element());
                    if dtype != value.dtype || Some(tensor.shape()) != value.shape.as_deref() {
                        return Err(mismatch("an input", dtype, tensor.shape(), value));
                    }
                    let bytes = bytes_of(&tensor);
                    let mut memory = AlignedBytes::zeroed(bytes.len(), ALIGN)?;
                    memory[..bytes.len()].copy_from_slice(&bytes);
                    address = (memory.as_ptr().cast_mut(), bytes.len());
                    unboxed.push(memory);
                }
            }
            ports.push(address);
        }
        let mut wanted = wanted;
        for (index, wanted) in wanted.iter_mut().enumerate() {
            let port = inputs + index;
            let value = nested.value(port);
            ports.push(match (nested.slot(port), wanted) {
                (None, Wanted::Memory(bytes, dtype, dims)) => {
                    if *dtype != value.dtype
                        || Some(*dims) != value.shape.as_deref()
                        || bytes.len() < value.bytes
                    {
                        return Err(mismatch("an output", *dtype, dims, value));
                    }
                    (bytes.as_mut_ptr(), bytes.len())
                }
                (None, Wanted::Boxed(_)) => {
                    let mut memory = AlignedBytes::zeroed(value.bytes, ALIGN)?;
                    let address = (memory.as_mut_ptr(), value.bytes);
                    unboxed.push(memory);
                    address
                }
                (Some(_), _) => (std::ptr::null_mut(), 0),
            });
        }
        let memory = Memory {
            arena: scratch.as_mut_ptr().cast(),
            packed: match &nested.weights {
                Where::Around(first) => self.memory.packed.wrapping_add(*first),
                Where::Own(packed) => packed.table().as_ptr(),
            },
            ports,
        };
        // a body may have no steps, and be called for ever
        self.check_cancelled()?;
        // SAFETY: the scratch has `arena_bytes` bytes and is this call's alone; the table of packed weights holds the
        // sections of this program, from the first one on; each port was checked above to be as large as its value,
        // input ports are only read, and what is behind a port outlives the call.
        unsafe { program.run_steps(&memory, &mut slots, self.pool, self.stop, context)? };
        for (index, wanted) in wanted.into_iter().enumerate() {
            let port = inputs + index;
            let value = nested.value(port);
            match (nested.slot(port), wanted) {
                (None, Wanted::Memory(..)) => {}
                (None, Wanted::Boxed(target)) => {
                    let (start, len) = memory.ports[port];
                    // SAFETY: this is the memory of `len` bytes that was made for the port above.
                    let bytes = unsafe { std::slice::from_raw_parts(start, len) };
                    let dims = value.shape.as_deref().unwrap_or(&[]);
                    *target = Some(tensor_from_bytes(value.dtype, dims, bytes)?);
                }
                (Some(slot), wanted) => {
                    let tensor = slots[slot].clone().ok_or_else(|| {
                        Error::new(
                            ErrorKind::Persistent,
                            "a body does not compute one of its outputs",
                        )
                    })?;
                    match wanted {
                        Wanted::Boxed(target) => *target = Some(tensor),
                        Wanted::Memory(target, dtype, dims) => {
                            let element = polychip_reference::dtype(tensor.element());
                            let bytes = bytes_of(&tensor);
                            if element != dtype || tensor.shape() != dims || bytes.len() != target.len() {
                                return Err(Error::bad_argument(format!(
                                    "a body gives {}{:?}, the model says {}{dims:?}",
                                    element.name(),
                                    tensor.shape(),
                                    dtype.name()
                                )));
                            }
                            target.copy_from_slice(&bytes);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
