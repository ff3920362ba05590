//! The objects of the plugin by the numbers that the host knows.
//!
//! Invariants:
//! 1. An object is destroyed through the table it came from, once, after the last user here has let go of it.
//! 2. Of the runs that use a buffer at once, the last to end copies what they wrote. What a run wrote is therefore
//!    copied before its end is reported, or before that of a later run that uses the buffer.
//!
//! Not here: the copies themselves (`copies`).

#![allow(unsafe_code, reason = "objects of the plugin are destroyed here")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polychip_abi as abi;

use super::failure::unknown;
use super::raw_graph::RawGraph;
use crate::message::FailureRecord;
use crate::shared_file::SharedFile;

/// A handle of the plugin.
pub(super) struct Handle<T>(pub(super) *mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: the contract allows calls on a handle from any thread, and the host obeys the rules for
// calls at once.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// Objects of one kind.
pub(super) struct Numbered<T> {
    what: &'static str,
    objects: Mutex<BTreeMap<u64, T>>,
    last: AtomicU64,
}

impl<T: Clone> Numbered<T> {
    fn new(what: &'static str) -> Numbered<T> {
        Numbered {
            what,
            objects: Mutex::default(),
            last: AtomicU64::new(0),
        }
    }

    /// Adds an object and returns its number.
    pub(super) fn add(&self, object: T) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.insert(number, object);
        number
    }

    /// Adds an object whose number the host chose.
    pub(super) fn insert(&self, number: u64, object: T) {
        let replaced = self
            .objects
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, object);
        // destroyed without the lock
        drop(replaced);
    }

    pub(super) fn get(&self, number: u64) -> Result<T, FailureRecord> {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects
            .get(&number)
            .cloned()
            .ok_or_else(|| unknown(self.what, number))
    }

    pub(super) fn remove(&self, number: u64) -> Result<T, FailureRecord> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&number).ok_or_else(|| unknown(self.what, number))
    }
}

/// All objects.
pub(super) struct Objects {
    pub(super) devices: Numbered<Device>,
    pub(super) blobs: Numbered<Handle<abi::polychip_blob>>,
    pub(super) executables: Numbered<Arc<Executable>>,
    pub(super) buffers: Numbered<Arc<Buffer>>,
    pub(super) fences: Numbered<Arc<Fence>>,
}

impl Default for Objects {
    fn default() -> Objects {
        Objects {
            devices: Numbered::new("device"),
            blobs: Numbered::new("blob"),
            executables: Numbered::new("executable"),
            buffers: Numbered::new("buffer"),
            fences: Numbered::new("fence"),
        }
    }
}

/// An open device.
#[derive(Clone, Copy)]
pub(super) struct Device {
    pub(super) raw: Handle<abi::polychip_device>,
    pub(super) import_kinds: u32,
    pub(super) import_alignment: u32,
}

/// A loaded part, with the memory that it may point to.
pub(super) struct Executable {
    pub(super) raw: Handle<abi::polychip_executable>,
    pub(super) destroy: Option<unsafe extern "C" fn(*mut abi::polychip_executable)>,
    pub(super) _graph: Option<RawGraph>,
    pub(super) _bytes: Option<SharedFile>,
}

impl Drop for Executable {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: it came from this table, and it has no user left.
            unsafe { destroy(self.raw.0) };
        }
    }
}

/// A buffer with the memory it lies in.
pub(super) struct Buffer {
    pub(super) raw: Handle<abi::polychip_buffer>,
    pub(super) destroy: Option<unsafe extern "C" fn(*mut abi::polychip_buffer)>,
    /// The memory that the host sees; `None` for a file that the plugin maps itself.
    pub(super) shared: Option<SharedFile>,
    /// The runs that use memory of the plugin's own, which is copied; `None` if the plugin uses `shared` itself.
    pub(super) copied: Option<Mutex<Usage>>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: it came from this table, and it has no user left.
            unsafe { destroy(self.raw.0) };
        }
    }
}

/// The end of a run.
pub(super) struct Fence {
    pub(super) raw: Handle<abi::polychip_fence>,
    pub(super) destroy: Option<unsafe extern "C" fn(*mut abi::polychip_fence)>,
    pub(super) slot: u32,
    /// Buffers of the run that are copied.
    pub(super) copies: Copies,
}

impl Drop for Fence {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: it came from this table, and it has no user left.
            unsafe { destroy(self.raw.0) };
        }
    }
}

/// A run that has ended, with its status.
pub(super) type Ended = (Arc<Fence>, u32);

/// Offset and number of bytes.
pub(super) type Range = (u64, u64);

/// The runs that use a buffer, and what they wrote that is not copied yet.
#[derive(Default)]
pub(super) struct Usage {
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
pub(super) struct Use {
    buffer: Arc<Buffer>,
    /// What the run writes.
    writes: Option<Range>,
    has_ended: bool,
}

impl Use {
    /// A use; `None` if the buffer is not copied.
    pub(super) fn new(buffer: &Arc<Buffer>, writes: Option<Range>) -> Option<Use> {
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
pub(super) struct Copies {
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
    pub(super) fn of(uses: Vec<Use>) -> Copies {
        Copies {
            any: true,
            state: Mutex::new(State { uses, failed: None }),
        }
    }

    /// Whether the run uses buffers that are copied.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// Copies with `copy` what a run that ended with `status` wrote, once. Returns the status of the whole.
    pub(super) fn end(
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
    pub(super) fn result(&self) -> Result<(), FailureRecord> {
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
