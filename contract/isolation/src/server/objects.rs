//! The objects of the plugin by the numbers that the host knows.
//!
//! Invariant: an object is destroyed through the table it came from, once, after the last user here
//! has let go of it.

#![allow(unsafe_code, reason = "objects of the plugin are destroyed here")]

mod copies;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_abi as abi;

use super::failure::unknown;
use super::raw_graph::RawGraph;
use crate::message::FailureRecord;
use crate::shared_file::SharedFile;
pub(super) use copies::{Copies, Range, Usage, Use};

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
