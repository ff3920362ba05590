//! Which runs have a tensor's memory.
//!
//! Invariant: any number of runs that read have it, or one that writes; tensors that share memory share this.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use polychip_host::{Access, AccessGuard};

use super::TensorMemory;
use crate::error::Result;

/// Runs that have memory and have not given their outputs or an error yet: how many that read it, or one that writes it.
#[derive(Debug, Default)]
pub(crate) struct Holds(AtomicU32);

impl Holds {
    /// Whether a run has the memory.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// A run that writes has the memory.
const WRITER: u32 = u32::MAX;

/// A run's hold on a tensor: from submit until it has given its outputs or an error.
#[derive(Debug)]
pub(crate) struct Hold(Arc<TensorMemory>);

impl Hold {
    /// A hold of a run that reads; `None` where one that writes has the memory.
    pub(crate) fn of_reader(memory: &Arc<TensorMemory>) -> Option<Hold> {
        let one_more = |holds: u32| (holds != WRITER).then(|| holds + 1);
        let holds = &memory.holds.0;
        let taken = holds.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        taken.is_ok().then(|| Hold(Arc::clone(memory)))
    }

    /// The only hold, for a run that writes; `None` where another run has one.
    pub(crate) fn alone(memory: &Arc<TensorMemory>) -> Option<Hold> {
        let holds = &memory.holds.0;
        let first = holds.compare_exchange(0, WRITER, Ordering::AcqRel, Ordering::Acquire);
        first.is_ok().then(|| Hold(Arc::clone(memory)))
    }

    /// The memory, to be written by the host for the run that holds it.
    pub(crate) fn write(&self) -> Result<AccessGuard<'static>> {
        self.0.open(Access::Write)
    }
}

impl Deref for Hold {
    type Target = TensorMemory;

    fn deref(&self) -> &TensorMemory {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let less = |holds: u32| {
            Some(if holds == WRITER {
                0
            } else {
                holds.saturating_sub(1)
            })
        };
        let _ = self
            .0
            .holds
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }
}
