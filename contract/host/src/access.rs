//! Host access to memory and buffers: a range that is open as bytes until its guard is dropped.
//!
//! Invariants:
//! 1. Nothing else writes a range that a guard has open, and nothing else reads a range that a
//!    guard has open for writing. Runs may read memory while [`Memory::read_beside_runs`] has it
//!    open.
//! 2. Every access begun with the plugin is ended with it exactly once.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_isolation::CallLimit;

use crate::buffer::Buffer;
use crate::device_info::DeviceInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Memory;

/// Kind of host access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Write, and possibly read.
    Write,
}

impl Buffer {
    /// Opens a range to the host.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while a run uses the memory or another access is open.
    pub fn access(&self, access: Access, offset: u64, bytes: u64) -> Result<AccessGuard<'_>> {
        Buffer::open(Via::Borrowed(self), access, offset, bytes)
    }

    /// As [`Buffer::access`]; the access also keeps the buffer alive.
    ///
    /// # Errors
    /// As [`Buffer::access`].
    pub fn access_shared(
        self: &Arc<Self>,
        access: Access,
        offset: u64,
        bytes: u64,
    ) -> Result<AccessGuard<'static>> {
        Buffer::open(Via::Shared(Arc::clone(self)), access, offset, bytes)
    }

    fn open(via: Via<'_>, access: Access, offset: u64, bytes: u64) -> Result<AccessGuard<'_>> {
        let this: &Buffer = via.buffer().expect("invariant: an access to a buffer has one");
        let in_use = |words: &str| Error::new(ErrorKind::InUse, &this.device.name, words);
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= this.bytes);
        let len = usize::try_from(bytes).ok().filter(|_| fits).ok_or_else(|| {
            let words = format!(
                "bytes {offset} to {offset} + {bytes} are outside a buffer of {} bytes",
                this.bytes
            );
            Error::new(ErrorKind::BadArgument, &this.device.name, words)
        })?;
        if this.accessing.swap(true, Ordering::Acquire) {
            return Err(in_use("another access to the buffer is open"));
        }
        let write = access == Access::Write;
        if let Err(words) = this.shared.begin_access(write, this.by_address) {
            this.accessing.store(false, Ordering::Release);
            return Err(in_use(words));
        }
        // from here on the guard undoes both marks
        let mut guard = AccessGuard {
            via,
            data: std::ptr::null_mut(),
            len,
            write,
            open: false,
            call_limit: CallLimit::current(),
        };
        let this = guard.via.buffer().expect("invariant: it was just there");
        let bits = if write {
            abi::POLYCHIP_ACCESS_READ | abi::POLYCHIP_ACCESS_WRITE
        } else {
            abi::POLYCHIP_ACCESS_READ
        };
        let call = this
            .device
            .table()
            .buffer_begin_access
            .expect("invariant: required calls are checked");
        let mut record = abi::polychip_error::sized();
        let mut data = std::ptr::null_mut();
        // SAFETY: the buffer is alive and the out pointers are ours.
        let status = unsafe { call(this.raw, bits, offset, bytes, &raw mut data, &raw mut record) };
        this.device.check("buffer_begin_access", status, &record)?;
        guard.open = true;
        if data.is_null() && len > 0 {
            return Err(Error::new(
                ErrorKind::BadPlugin,
                &this.device.name,
                "buffer_begin_access returned no address",
            ));
        }
        guard.data = data;
        Ok(guard)
    }
}

impl Memory {
    /// Opens all of the memory to the host without informing any device. For memory that no device
    /// has imported, or whose device is lost.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while a run uses the memory or another access is open.
    pub fn access(&self, access: Access) -> Result<AccessGuard<'static>> {
        let write = access == Access::Write;
        self.shared
            .begin_access(write, true)
            .map_err(|words| Error::new(ErrorKind::InUse, "host memory", words))?;
        Ok(AccessGuard::of_memory(self, write))
    }

    /// Opens all of the memory for reading, even while runs read it. Use it only for memory that no
    /// run writes, such as that of an input.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if the host has a writing access open.
    pub fn read_beside_runs(&self) -> Result<AccessGuard<'static>> {
        self.shared
            .begin_copy()
            .map_err(|words| Error::new(ErrorKind::InUse, "host memory", words))?;
        Ok(AccessGuard::of_copy(self))
    }

    /// Copies the bytes to new memory for `devices`, as [`Memory::read_beside_runs`] reads them.
    ///
    /// # Errors
    /// The host has a writing access open, or the system has no memory left.
    pub fn duplicate<'a>(&self, devices: impl IntoIterator<Item = &'a DeviceInfo>) -> Result<Memory> {
        let source = self.read_beside_runs()?;
        let made = Memory::for_devices(self.bytes(), devices)?;
        made.access(Access::Write)?.copy_from_slice(&source);
        Ok(made)
    }
}

/// The object that an access goes through.
enum Via<'a> {
    Borrowed(&'a Buffer),
    Shared(Arc<Buffer>),
    /// Host memory itself; no device is informed.
    Memory(Memory),
    /// Host memory that is being copied, and that runs may read meanwhile.
    Copy(Memory),
}

impl Via<'_> {
    fn buffer(&self) -> Option<&Buffer> {
        match self {
            Via::Borrowed(buffer) => Some(buffer),
            Via::Shared(buffer) => Some(buffer),
            Via::Memory(_) | Via::Copy(_) => None,
        }
    }
}

/// A range of a buffer, open to the host as bytes. Dropping it makes the writes visible to the
/// device.
pub struct AccessGuard<'a> {
    via: Via<'a>,
    /// May be null if `len` is 0.
    data: *mut u8,
    len: usize,
    write: bool,
    /// `begin_access` succeeded, so `end_access` is due, even for an empty range without an
    /// address.
    open: bool,
    /// How long that call may take, where the session has a limit.
    call_limit: Option<Duration>,
}

// SAFETY: calls on a buffer come from any thread, one at a time, which `accessing` ensures; only the guard's owner
// uses the bytes.
unsafe impl Send for AccessGuard<'_> {}

impl AccessGuard<'_> {
    /// An access to memory that has already been begun.
    pub(crate) fn of_memory(memory: &Memory, write: bool) -> AccessGuard<'static> {
        AccessGuard::over(memory, Via::Memory(memory.clone()), write)
    }

    /// A copy of memory that has already been begun.
    pub(crate) fn of_copy(memory: &Memory) -> AccessGuard<'static> {
        AccessGuard::over(memory, Via::Copy(memory.clone()), false)
    }

    fn over(memory: &Memory, via: Via<'static>, write: bool) -> AccessGuard<'static> {
        AccessGuard {
            data: memory.data(),
            len: usize::try_from(memory.bytes()).expect("invariant: mapped memory is addressed"),
            via,
            write,
            open: true,
            call_limit: None,
        }
    }
}

impl Deref for AccessGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the plugin opened `len` bytes; no run and no writer uses them while the guard lives.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl DerefMut for AccessGuard<'_> {
    /// # Panics
    /// The access was opened for reading.
    fn deref_mut(&mut self) -> &mut [u8] {
        assert!(self.write, "the access was opened for reading");
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the plugin opened `len` bytes for writing; nothing else uses them while the guard lives.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl Drop for AccessGuard<'_> {
    fn drop(&mut self) {
        let buffer = match &self.via {
            Via::Borrowed(buffer) => *buffer,
            Via::Shared(buffer) => buffer,
            Via::Memory(memory) => return memory.shared.end_access(self.write, true),
            Via::Copy(memory) => return memory.shared.end_copy(),
        };
        if self.open {
            let _limit = self.call_limit.map(CallLimit::new);
            let device = &buffer.device;
            let call = device
                .table()
                .buffer_end_access
                .expect("invariant: required calls are checked");
            let mut record = abi::polychip_error::sized();
            // SAFETY: the access was opened on this buffer and is closed once.
            let status = unsafe { call(buffer.raw, &raw mut record) };
            if let Err(error) = device.check("buffer_end_access", status, &record) {
                tracing::error!("{error}");
            }
        }
        buffer.shared.end_access(self.write, buffer.by_address);
        buffer.accessing.store(false, Ordering::Release);
    }
}
