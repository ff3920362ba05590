//! The objects behind the clients' handles, and the state of the process.
//!
//! Invariants:
//! 1. No lock is held while a network runs or a fault waits.
//! 2. A compilation has a copy of its model, so it outlives the model's handle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use polychip_emulator_chip::fault::{Effect, Faults};
use polychip_emulator_chip::program::Program;
use polychip_emulator_chip::table::{Chip, Heat};

use crate::code::{Code, Result};
use crate::model::{Model, Quant, Tensor};

/// The NPU's number, and that of a CPU beside it.
pub(crate) const DEVICES: [usize; 2] = [4_611, 4_612];

/// A model that is being built, and the answers that a client reads in place.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) model: Model,
    pub(crate) answers: Vec<bool>,
}

/// A compilation.
#[derive(Default)]
pub(crate) struct Compilation {
    pub(crate) model: Option<Model>,
    pub(crate) device: Option<usize>,
    pub(crate) reduced: bool,
    /// Once it is built.
    pub(crate) built: Option<Arc<Built>>,
}

/// A built part.
pub(crate) struct Built {
    pub(crate) model: Model,
    pub(crate) program: Program,
}

/// A tensor over mapped memory.
pub(crate) struct Mapped {
    pub(crate) tensor: Tensor,
    pub(crate) map: memmap2::MmapRaw,
    pub(crate) offset: usize,
}

/// Objects of one kind by their handles.
pub(crate) struct Handles<T>(Mutex<BTreeMap<usize, Arc<T>>>);

static NEXT: AtomicUsize = AtomicUsize::new(0x7000_0000);

impl<T> Handles<T> {
    const fn new() -> Handles<T> {
        Handles(Mutex::new(BTreeMap::new()))
    }

    pub(crate) fn add(&self, object: T) -> usize {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        lock(&self.0).insert(handle, Arc::new(object));
        handle
    }

    /// The object of a handle. Null and destroyed handles are invalid parameters.
    pub(crate) fn get(&self, handle: usize) -> Result<Arc<T>> {
        lock(&self.0).get(&handle).cloned().ok_or(Code::INVALID)
    }

    pub(crate) fn end(&self, handle: usize) {
        // dropped behind the lock: memory is unmapped then
        let ended = lock(&self.0).remove(&handle);
        drop(ended);
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

pub(crate) static DESCRIPTIONS: Handles<Mutex<Tensor>> = Handles::new();
pub(crate) static MODELS: Handles<Mutex<Draft>> = Handles::new();
pub(crate) static COMPILATIONS: Handles<Mutex<Compilation>> = Handles::new();
pub(crate) static EXECUTORS: Handles<Arc<Built>> = Handles::new();
pub(crate) static TENSORS: Handles<Mapped> = Handles::new();
pub(crate) static QUANTS: Handles<Mutex<Quant>> = Handles::new();

/// Calls at which faults can be injected.
const CALLS: &[&str] = &["model", "available", "build", "export", "import", "tensor", "run"];

pub(crate) static FAULTS: LazyLock<Faults> = LazyLock::new(|| {
    let faults = Faults::new(CALLS);
    faults.set_from("POLYCHIP_NNRT_FAULTS");
    faults
});

/// Whether the chip is lost. Building a part restores it.
static LOST: AtomicBool = AtomicBool::new(false);

/// The chip and its temperature.
pub(crate) static CHIP: LazyLock<Chip> = LazyLock::new(|| {
    Chip::parse(include_str!("../tables/kirin9010.toml")).expect("invariant: a test reads the table")
});
pub(crate) static HEAT: Mutex<Heat> = Mutex::new(Heat::cold());

/// Locks an object.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Applies an injected fault at the start of a call that concerns these operations. Returns `true`
/// if the call must write only half of each output.
pub(crate) fn fault(call: &str, operations: &[u32]) -> Result<bool> {
    let concerns = |name: &str| operations.iter().any(|code| code.to_string() == name);
    match FAULTS.at(call, concerns) {
        None => Ok(false),
        Some(Effect::Wrong) => Ok(true),
        Some(Effect::Wait(time)) => {
            FAULTS.wait(time);
            Ok(false)
        }
        Some(Effect::Fail(code)) => Err(Code(i32::try_from(code).unwrap_or(Code::FAILED.0))),
        Some(Effect::Lost) => {
            LOST.store(true, Ordering::Release);
            Err(Code::LOST)
        }
        Some(Effect::Crash) => std::process::abort(),
    }
}

/// Restores a lost chip, because a part was built.
pub(crate) fn revive() {
    LOST.store(false, Ordering::Release);
}

/// Fails if the chip is lost.
pub(crate) fn alive() -> Result<()> {
    if LOST.load(Ordering::Acquire) {
        Err(Code::LOST)
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
