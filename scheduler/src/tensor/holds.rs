//! The runs that hold a tensor's memory.
//!
//! Invariant: any number of readers, or one writer; tensors that share memory share this.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use polychip_host::{Access, AccessGuard};

use super::TensorMemory;
use super::hold_count::{COUNT, WRITER, begun};
use crate::error::Result;

/// A run's hold on a tensor: from submit until it has given its outputs or an error.
#[derive(Debug)]
pub(crate) struct Hold(Arc<TensorMemory>);

impl Hold {
    /// A hold of a run that reads; `None` where one that writes has the memory.
    pub(crate) fn of_reader(memory: &Arc<TensorMemory>) -> Option<Hold> {
        let one_more = |holds: u64| match holds & COUNT {
            0 => Some(begun(holds, 1)),
            WRITER => None,
            _ => Some(holds + 1),
        };
        let holds = &memory.holds.0;
        let taken = holds.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        taken.is_ok().then(|| Hold(Arc::clone(memory)))
    }

    /// The only hold, for a run that writes; `None` where another run has one.
    pub(crate) fn alone(memory: &Arc<TensorMemory>) -> Option<Hold> {
        let holds = &memory.holds.0;
        let alone = |holds: u64| (holds & COUNT == 0).then(|| begun(holds, WRITER));
        let first = holds.fetch_update(Ordering::AcqRel, Ordering::Acquire, alone);
        first.is_ok().then(|| Hold(Arc::clone(memory)))
    }

    /// The memory, for a reader after the run.
    pub(crate) fn memory(&self) -> Arc<TensorMemory> {
        Arc::clone(&self.0)
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
        let less = |holds: u64| match holds & COUNT {
            0 => None,
            WRITER => Some(holds & !COUNT),
            _ => Some(holds - 1),
        };
        let _ = self
            .0
            .holds
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }
}
