//! Buffers: memory that a device can bind, made by the device or imported from shared memory.
//!
//! Invariants:
//! 1. The host reads and writes only between `begin_access` and `end_access`, through a guard, and
//!    never while a run uses the memory.
//! 2. A buffer is destroyed after every run that used it has ended.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::device_info::DeviceKind;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Memory, Shared};
use crate::open_device::Open;

/// A buffer of one device. Thread-safe.
pub struct Buffer {
    pub(crate) device: Arc<Open>,
    pub(crate) raw: *mut abi::polychip_buffer,
    pub(crate) shared: Arc<Shared>,
    pub(crate) bytes: u64,
    /// Whether the CPU uses the memory at the host's address, through this buffer and in its
    /// device's runs. If not, the plugin has the memory by a handle and maintains the CPU's caches
    /// itself.
    pub(crate) by_address: bool,
    /// An access through this buffer is open: the contract allows one thread at a time per object.
    pub(crate) accessing: AtomicBool,
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
            given.offset = memory.shared.start();
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
                "the plugin returned no buffer",
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

    /// Whether the device has the memory by its address or as an anonymous file, rather than as a
    /// dma-buf or as memory that it made.
    #[must_use]
    pub fn is_by_address(&self) -> bool {
        self.by_address
    }

    /// Marks the start of a run that uses the memory.
    pub(crate) fn begin_run(&self) -> std::result::Result<(), &'static str> {
        self.shared.begin_run(self.by_address)
    }

    /// Marks the end of a run.
    pub(crate) fn end_run(&self) {
        self.shared.end_run(self.by_address);
    }

    /// Whether a run that has started, and has not been seen to end, uses the memory.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.shared.is_in_flight()
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
