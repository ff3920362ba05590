//! Where the bytes of host memory lie: in a mapping, or at an address of the app's.
//!
//! Invariant: an owner is dropped with its storage, not before.

#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::NonNull;

use memmap2::MmapRaw;

/// Storage of host memory.
pub(crate) enum Storage {
    Mapped(MmapRaw),
    /// Memory owned by the app.
    External(ExternalMemory),
}

/// An address range owned by the app.
pub(crate) struct ExternalMemory {
    data: NonNull<u8>,
    bytes: u64,
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the maker promised that the memory may be used from any thread; `Usage` keeps accesses apart.
unsafe impl Send for ExternalMemory {}
// SAFETY: as above.
unsafe impl Sync for ExternalMemory {}

impl ExternalMemory {
    /// # Safety
    /// `bytes` bytes starting at `data` can be read and written from any thread until `owner` is
    /// dropped.
    pub(crate) unsafe fn new(
        data: NonNull<u8>,
        bytes: u64,
        owner: Box<dyn Any + Send + Sync>,
    ) -> ExternalMemory {
        ExternalMemory {
            data,
            bytes,
            _owner: owner,
        }
    }

    pub(crate) fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
