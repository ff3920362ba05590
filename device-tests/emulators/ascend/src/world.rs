//! The live objects of the library: contexts, streams, events, board memory, models, and the memory
//! lists of runs.
//!
//! Invariants:
//! 1. A number is never reused. A call with an object that does not exist returns one of the
//!    vendor's errors.
//! 2. The lock is held for lookups and copies, never while a model computes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_emulator_chip::model::Model;
use polychip_emulator_chip::program::Spec;
use polychip_ops::DType;
use polychip_sys::ascend::bindings as acl;

use crate::board::MEMORY_BYTES;

/// First address of the board's memory. No process on these machines has memory there.
const FIRST_ADDRESS: usize = 0x2000_0000_0000;
/// Alignment of memory, in bytes.
const GRAIN: usize = 512;

/// A vendor code other than success.
pub(crate) type Code = u32;

/// A loaded model.
pub(crate) struct Loaded {
    pub(crate) model: Model,
    pub(crate) context: usize,
}

impl Loaded {
    /// Spec of an input or output as the host sees it.
    pub(crate) fn port(&self, output: bool, index: usize) -> Option<Spec> {
        let program = &self.model.program;
        let spec = if output {
            program.outputs().nth(index)?.clone()
        } else {
            program.inputs().nth(index)?.clone()
        };
        Some(outside(&spec))
    }

    /// Name of an input or output.
    pub(crate) fn name(&self, output: bool, index: usize) -> Option<&str> {
        let names = if output {
            &self.model.names.1
        } else {
            &self.model.names.0
        };
        names.get(index).map(String::as_str)
    }
}

/// Work on a stream.
pub(crate) enum Command {
    /// An event.
    Record(usize),
    /// A copy on the board: to, from, bytes.
    Copy(usize, usize, usize),
    /// A model, with the memory of its inputs and outputs.
    Run {
        loaded: Arc<Loaded>,
        inputs: Vec<usize>,
        outputs: Vec<usize>,
    },
}

/// A stream.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) context: usize,
    pub(crate) pending: Vec<Command>,
    /// The board's clock.
    pub(crate) now_ns: u64,
}

/// Spec of a tensor at a port: the compiler inserts casts, so the cores' 16-bit floats are f32
/// there.
pub(crate) fn outside(spec: &Spec) -> Spec {
    match spec.dtype {
        DType::F16 => Spec::plain(DType::F32, spec.shape.clone()),
        _ => spec.clone(),
    }
}

struct Memory {
    context: usize,
    bytes: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) initialised: bool,
    next: usize,
    used_bytes: usize,
    pub(crate) contexts: BTreeMap<usize, i32>,
    pub(crate) streams: BTreeMap<usize, Stream>,
    /// By context, when they happened on the board's clock.
    pub(crate) events: BTreeMap<usize, (usize, Option<u64>)>,
    memory: BTreeMap<usize, Memory>,
    next_address: usize,
    pub(crate) models: BTreeMap<u32, Arc<Loaded>>,
    pub(crate) descriptions: BTreeMap<usize, Option<Arc<Loaded>>>,
    pub(crate) datasets: BTreeMap<usize, Vec<usize>>,
    /// Address and bytes.
    pub(crate) buffers: BTreeMap<usize, (usize, usize)>,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// Calls `act` with the live objects.
pub(crate) fn with<T>(act: impl FnOnce(&mut World) -> T) -> T {
    let mut world: MutexGuard<'_, Option<World>> = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    act(world.get_or_insert_with(World::default))
}

impl World {
    /// A number for something new.
    pub(crate) fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Contexts, pieces of memory and models alive.
    pub(crate) fn alive(&self) -> [u64; 3] {
        [self.contexts.len(), self.memory.len(), self.models.len()].map(|count| count as u64)
    }

    /// Bytes of memory that are used.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Restarts the board: everything on it becomes invalid.
    pub(crate) fn lose(&mut self) {
        self.contexts.clear();
        self.streams.clear();
        self.events.clear();
        self.memory.clear();
        self.models.clear();
        self.used_bytes = 0;
    }

    /// Destroys a context with everything made in it.
    pub(crate) fn end_context(&mut self, context: usize) -> Option<()> {
        self.contexts.remove(&context)?;
        self.streams.retain(|_, stream| stream.context != context);
        self.events.retain(|_, (of, _)| *of != context);
        self.models.retain(|_, model| model.context != context);
        let left: Vec<usize> = self
            .memory
            .iter()
            .filter(|(_, of)| of.context == context)
            .map(|(at, _)| *at)
            .collect();
        for address in left {
            self.free(address);
        }
        Some(())
    }

    /// Allocates board memory. It is not zeroed, as on a real board.
    pub(crate) fn allocate(&mut self, context: usize, bytes: usize) -> Result<usize, Code> {
        if bytes == 0 {
            return Err(acl::ACL_BAD_PARAMETER);
        }
        if bytes > MEMORY_BYTES - self.used_bytes {
            return Err(acl::ACL_RT_NO_MEMORY);
        }
        self.next_address = self.next_address.max(FIRST_ADDRESS);
        let address = self.next_address;
        self.next_address += bytes.next_multiple_of(GRAIN) + GRAIN;
        self.used_bytes += bytes;
        let bytes = vec![0xA5; bytes];
        self.memory.insert(address, Memory { context, bytes });
        Ok(address)
    }

    /// Frees memory.
    pub(crate) fn free(&mut self, address: usize) -> Option<()> {
        let memory = self.memory.remove(&address)?;
        self.used_bytes -= memory.bytes.len();
        Some(())
    }

    /// A range of the board's memory.
    pub(crate) fn range(&mut self, address: usize, bytes: usize) -> Result<&mut [u8], Code> {
        let found = self.memory.range_mut(..=address).next_back();
        let (start, memory) = found.ok_or(acl::ACL_RT_BAD_PARAMETER)?;
        let at = address - start;
        let end = at.checked_add(bytes).ok_or(acl::ACL_RT_BAD_PARAMETER)?;
        memory.bytes.get_mut(at..end).ok_or(acl::ACL_RT_BAD_PARAMETER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_any_address_in_it_and_by_no_other() {
        let mut world = World::default();
        let one = world.allocate(1, 100).unwrap();
        let other = world.allocate(1, 100).unwrap();
        assert!(one.is_multiple_of(64) && other > one);
        world.range(one + 40, 60).unwrap().fill(7);
        assert_eq!(world.range(one + 99, 1).unwrap(), [7]);
        assert!(world.range(one + 40, 61).is_err() && world.range(one - 1, 1).is_err());
        assert_eq!(world.free(one), Some(()));
        assert!(world.range(one, 1).is_err() && world.free(one).is_none());
        assert_eq!(world.used_bytes(), 100);
        assert_eq!(world.allocate(1, MEMORY_BYTES), Err(acl::ACL_RT_NO_MEMORY));
    }
}
