//! Buffers: memory that a device binds, made by the device or imported from shared memory.
//!
//! Invariants:
//! 1. The host reads and writes only between `begin_access` and `end_access`, through a guard, and
//!    never while a run uses the memory.
//! 2. A buffer is destroyed after every run that used it has ended.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::device::{DeviceKind, Open};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Memory, Shared};

/// What the host is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Write, and perhaps read.
    Write,
}

/// A buffer of one device.
pub struct Buffer {
    pub(crate) device: Arc<Open>,
    pub(crate) raw: *mut abi::polychip_buffer,
    pub(crate) shared: Arc<Shared>,
    bytes: u64,
    /// The processor uses the memory at the host's address, through this buffer and in its device's runs; where
    /// not, the plugin has the memory by a handle and looks after the processor's caches itself.
    by_address: bool,
    /// An access through this buffer is open: the contract allows one thread at a time per object.
    accessing: AtomicBool,
}

// SAFETY: the contract allows calls on a buffer from any thread, one at a time; `accessing` sees to it.
unsafe impl Send for Buffer {}
// SAFETY: as above; binding a buffer only copies its address.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn create(device: Arc<Open>, bytes: u64, alignment: u64) -> Result<Buffer> {
        let mut wanted = abi::polychip_memory::sized();
        wanted.kind = abi::POLYCHIP_MEMORY_HOST;
        wanted.fd = abi::POLYCHIP_NO_FD;
        wanted.bytes = bytes;
        wanted.alignment = alignment;
        let call = device
            .table()
            .buffer_create
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        let mut record = abi::polychip_error::sized();
        // SAFETY: the device is open and the pointers are ours.
        let status = unsafe { call(device.raw, &raw const wanted, &raw mut raw, &raw mut record) };
        device.check("buffer_create", status, &record)?;
        Buffer::made(device, raw, Shared::of_device(), bytes, false)
    }

    pub(crate) fn import(device: Arc<Open>, memory: &Memory) -> Result<Buffer> {
        let mut given = abi::polychip_memory::sized();
        given.kind = abi::POLYCHIP_MEMORY_HOST;
        given.fd = abi::POLYCHIP_NO_FD;
        given.data = memory.data();
        given.bytes = memory.bytes();
        // a dma-buf was made for a device that wants one: others that are no CPU take it as what it is, too
        let takes_dma_buf = device.info.imports_dma_bufs
            && (device.info.kind != DeviceKind::Cpu || device.info.wants_dma_bufs());
        if let Some(fd) = memory.dma_buf_fd().filter(|_| takes_dma_buf) {
            given.kind = abi::POLYCHIP_MEMORY_DMA_BUF;
            given.fd = fd;
            given.data = std::ptr::null_mut();
        } else if let Some(fd) = memory.fd().filter(|_| !device.info.imports_host_memory) {
            given.kind = abi::POLYCHIP_MEMORY_MEMFD;
            given.fd = fd;
        }
        let by_address = given.kind != abi::POLYCHIP_MEMORY_DMA_BUF;
        let call = device
            .table()
            .buffer_import
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        let mut record = abi::polychip_error::sized();
        // SAFETY: the memory is mapped as long as the buffer, which holds it.
        let status = unsafe { call(device.raw, &raw const given, &raw mut raw, &raw mut record) };
        device.check("buffer_import", status, &record)?;
        Buffer::made(
            device,
            raw,
            Arc::clone(&memory.shared),
            memory.bytes(),
            by_address,
        )
    }

    fn made(
        device: Arc<Open>,
        raw: *mut abi::polychip_buffer,
        shared: Arc<Shared>,
        bytes: u64,
        by_address: bool,
    ) -> Result<Buffer> {
        if raw.is_null() {
            return Err(Error::new(
                ErrorKind::BadPlugin,
                &device.name,
                "it gave no buffer",
            ));
        }
        Ok(Buffer {
            device,
            raw,
            shared,
            bytes,
            by_address,
            accessing: AtomicBool::new(false),
        })
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the device has the memory by its address or as an anonymous file, and not as a dma-buf or as memory
    /// of its own.
    #[must_use]
    pub fn is_by_address(&self) -> bool {
        self.by_address
    }

    /// A run begins to use the memory.
    pub(crate) fn begin_run(&self) -> std::result::Result<(), &'static str> {
        self.shared.begin_run(self.by_address)
    }

    /// A run has ended.
    pub(crate) fn end_run(&self) {
        self.shared.end_run(self.by_address);
    }

    /// Whether a run that was started and not seen to end uses the memory.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.shared.is_in_flight()
    }

    /// Opens a range to the host.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] while a run uses the memory or another access is open.
    pub fn access(&self, access: Access, offset: u64, bytes: u64) -> Result<AccessGuard<'_>> {
        Buffer::open(Via::Borrowed(self), access, offset, bytes)
    }

    /// As [`Buffer::access`], and the access keeps the buffer alive.
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
                "buffer_begin_access gave no address",
            ));
        }
        guard.data = data;
        Ok(guard)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.table().buffer_destroy {
            // SAFETY: the buffer came from this table; a run that uses it holds it, so none does.
            unsafe { destroy(self.raw) };
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({}, {} bytes)", self.device.name, self.bytes)
    }
}

/// What an access goes through.
enum Via<'a> {
    Borrowed(&'a Buffer),
    Shared(Arc<Buffer>),
    /// Host memory itself, with no device told.
    Memory(Memory),
    /// Host memory that is being copied, which runs may read meanwhile.
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

/// A range of a buffer, open to the host as bytes. Closing it makes the writes visible to the device.
pub struct AccessGuard<'a> {
    via: Via<'a>,
    /// May be null where `len` is 0.
    data: *mut u8,
    len: usize,
    write: bool,
    /// `begin_access` succeeded, so that `end_access` is due, also of no bytes at no address.
    open: bool,
}

impl AccessGuard<'_> {
    /// An access to memory that has been begun already.
    pub(crate) fn of_memory(memory: &Memory, write: bool) -> AccessGuard<'static> {
        AccessGuard::over(memory, Via::Memory(memory.clone()), write)
    }

    /// A copy of memory that has been begun already.
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
    /// Where the access was opened for reading.
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
