//! The objects behind the clients' handles, and the state of the process.
//!
//! Invariants:
//! 1. No lock is held while a network runs or a fault waits.
//! 2. A compilation outlives its model's handle, and an execution its compilation's, because each
//!    holds a reference.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use polychip_emulator_chip::fault::{Effect, Faults};
use polychip_emulator_chip::program::Program;
use polychip_emulator_chip::table::{Chip, Heat};

use crate::code::{Code, Result};
use crate::model::Model;

/// A compilation.
#[derive(Default)]
pub(crate) struct Compilation {
    /// The model's handle, for the trace.
    pub(crate) of: usize,
    pub(crate) model: Model,
    /// The program, once the compilation is finished.
    pub(crate) program: Option<Arc<Program>>,
    pub(crate) network: Option<Arc<[u8]>>,
}

/// Where a port's elements lie.
#[derive(Clone)]
pub(crate) enum Place {
    /// In the client's memory: address and bytes.
    Address(usize, usize),
    /// In shared memory: offset and bytes.
    Memory(Arc<Memory>, usize, usize),
}

/// An execution.
pub(crate) struct Execution {
    pub(crate) program: Arc<Program>,
    pub(crate) model: Arc<Model>,
    pub(crate) inputs: Vec<Option<Place>>,
    pub(crate) outputs: Vec<Option<Place>>,
    pub(crate) boost: u8,
}

/// Memory behind a descriptor.
pub(crate) struct Memory {
    pub(crate) map: memmap2::MmapRaw,
    pub(crate) bytes: usize,
}

/// Objects of one kind by their handles.
pub(crate) struct Table<T>(Mutex<BTreeMap<usize, Arc<T>>>);

impl<T> Table<T> {
    const fn new() -> Table<T> {
        Table(Mutex::new(BTreeMap::new()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new object's handle.
    pub(crate) fn add(&self, object: T) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let at = 0x6000_0000 + NEXT.fetch_add(1, Ordering::Relaxed) * 16;
        self.lock().insert(at, Arc::new(object));
        at
    }

    /// The object of a handle.
    pub(crate) fn get(&self, at: usize) -> Result<Arc<T>> {
        match at {
            0 => Err(Code::NULL),
            _ => self.lock().get(&at).cloned().ok_or(Code::BAD_DATA),
        }
    }

    /// Frees a handle. Ignores null and unknown handles.
    pub(crate) fn free(&self, at: usize) {
        // dropped behind the lock: memory is unmapped then
        let object = self.lock().remove(&at);
        drop(object);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

pub(crate) static MODELS: Table<Mutex<Model>> = Table::new();
pub(crate) static COMPILATIONS: Table<Mutex<Compilation>> = Table::new();
pub(crate) static EXECUTIONS: Table<Mutex<Execution>> = Table::new();
pub(crate) static MEMORIES: Table<Memory> = Table::new();

/// Calls at which faults can be injected.
const CALLS: &[&str] = &["model", "supported", "finish", "restore", "memory", "compute"];

pub(crate) static FAULTS: LazyLock<Faults> = LazyLock::new(|| {
    let faults = Faults::new(CALLS);
    faults.set_from("POLYCHIP_NEURON_FAULTS");
    faults
});

/// Whether the service behind the library has died. Executions and compilations then fail until a
/// network is restored or compiled again.
static LOST: AtomicBool = AtomicBool::new(false);

/// The chip and its temperature.
pub(crate) static CHIP: LazyLock<Chip> = LazyLock::new(|| {
    Chip::parse(include_str!("../tables/mt6989.toml")).expect("invariant: a test reads the table")
});
pub(crate) static HEAT: Mutex<Heat> = Mutex::new(Heat::cold());

/// Locks an object.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Applies an injected fault at the start of a call. Returns `true` if the call must write only
/// half of each output.
pub(crate) fn fault(call: &str, model: Option<&Model>) -> Result<bool> {
    let concerns = |name: &str| {
        let has = |model: &Model| {
            model
                .operations
                .iter()
                .any(|operation| operation.code.to_string() == name)
        };
        model.is_some_and(has)
    };
    match FAULTS.at(call, concerns) {
        None => Ok(false),
        Some(Effect::Fail(code)) => Err(Code(i32::try_from(code).unwrap_or(Code::OP_FAILED.0))),
        Some(Effect::Lost) => {
            LOST.store(true, Ordering::Release);
            Err(Code::DEAD)
        }
        Some(Effect::Wait(time)) => {
            FAULTS.wait(time);
            Ok(false)
        }
        Some(Effect::Crash) => std::process::abort(),
        Some(Effect::Wrong) => Ok(true),
    }
}

/// Restores the service, because a network was made.
pub(crate) fn revive() {
    LOST.store(false, Ordering::Release);
}

/// Fails if the service has died.
pub(crate) fn alive() -> Result<()> {
    if LOST.load(Ordering::Acquire) {
        Err(Code::DEAD)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_is_read() {
        assert!(super::CHIP.name.contains("emulated"));
    }
}
