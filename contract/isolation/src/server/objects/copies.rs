//! The uses of buffers by runs, where the plugin has memory of its own for them.
//!
//! Invariants:
//! 1. Of the runs that use a buffer at once, the last to end copies what they wrote.
//! 2. What a run wrote is copied before its end is told, or before that of a later run that uses the buffer.
//!
//! Not here: the copies themselves (`server/copies.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_abi as abi;

use super::Buffer;
use crate::message::FailureRecord;

/// Offset and number of bytes.
pub(in super::super) type Range = (u64, u64);

/// The runs that use a buffer, and what they wrote that is not copied yet.
#[derive(Default)]
pub(in super::super) struct Usage {
    runs: u32,
    written: Option<Range>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The smallest range that contains both.
fn union(one: Range, other: Range) -> Range {
    let start = one.0.min(other.0);
    let end = one.0.saturating_add(one.1).max(other.0.saturating_add(other.1));
    (start, end - start)
}

/// A run's use of a buffer that is copied.
pub(in super::super) struct Use {
    buffer: Arc<Buffer>,
    /// What the run writes.
    writes: Option<Range>,
    has_ended: bool,
}

impl Use {
    /// A use; `None` if the buffer is not copied.
    pub(in super::super) fn new(buffer: &Arc<Buffer>, writes: Option<Range>) -> Option<Use> {
        lock(buffer.copied.as_ref()?).runs += 1;
        Some(Use {
            buffer: Arc::clone(buffer),
            writes,
            has_ended: false,
        })
    }

    /// Ends the use, once. Returns what is to be copied to shared memory now.
    fn end(&mut self, succeeded: bool) -> Option<Range> {
        if std::mem::replace(&mut self.has_ended, true) {
            return None;
        }
        let mut usage = lock(self.buffer.copied.as_ref()?);
        if let Some(writes) = self.writes.filter(|_| succeeded) {
            usage.written = Some(usage.written.map_or(writes, |written| union(written, writes)));
        }
        usage.runs -= 1;
        // another run uses the buffer still, and copies it when it ends
        if usage.runs > 0 {
            None
        } else {
            usage.written.take()
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// The buffers of a run that are copied.
#[derive(Default)]
pub(in super::super) struct Copies {
    any: bool,
    /// Locked during the copy: who sees the end of a run waits for it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uses: Vec<Use>,
    failed: Option<FailureRecord>,
}

impl Copies {
    pub(in super::super) fn of(uses: Vec<Use>) -> Copies {
        Copies {
            any: true,
            state: Mutex::new(State { uses, failed: None }),
        }
    }

    /// Whether the run uses buffers that are copied.
    pub(in super::super) fn any(&self) -> bool {
        self.any
    }

    /// Copies with `copy` what a run that ended with `status` wrote, once. Returns the status of the whole.
    pub(in super::super) fn end(
        &self,
        status: u32,
        mut copy: impl FnMut(&Buffer, Range) -> Result<(), FailureRecord>,
    ) -> u32 {
        if !self.any {
            return status;
        }
        let mut state = lock(&self.state);
        let mut uses = std::mem::take(&mut state.uses);
        for used in &mut uses {
            if let Some(range) = used.end(status == abi::POLYCHIP_STATUS_OK)
                && let Err(failed) = copy(&used.buffer, range)
            {
                state.failed.get_or_insert(failed);
            }
        }
        let failed = state.failed.as_ref().map(|failed| failed.status);
        drop(state);
        match failed {
            Some(failed) if status == abi::POLYCHIP_STATUS_OK => failed,
            _ => status,
        }
    }

    /// The failure of a copy after the run, if any.
    pub(in super::super) fn result(&self) -> Result<(), FailureRecord> {
        match &lock(&self.state).failed {
            Some(failed) => Err(failed.clone()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_contains_both_ranges() {
        assert_eq!(union((4, 4), (16, 4)), (4, 16));
        assert_eq!(union((16, 4), (0, 32)), (0, 32));
    }
}
