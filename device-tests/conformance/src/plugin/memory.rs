//! Buffers, and the host memory that they may be made over.
//!
//! Invariant: imported memory lives as long as the buffer.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use super::call::{Call, breach, checked};
use super::device::Device;

/// Bytes that stand behind the memory given to a device, to see whether it writes past its end.
const GUARD: usize = 64;
/// What they hold.
const MARK: u8 = 0xA5;

/// Zeroed host memory of an alignment, with a guard behind its end.
pub struct HostMemory {
    data: *mut u8,
    bytes: usize,
    offset: usize,
    layout: Layout,
}

// SAFETY: owned memory.
unsafe impl Send for HostMemory {}
// SAFETY: shared references only read the guard, which nothing may write.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// So many bytes, `offset` bytes behind an address that is a multiple of `alignment`.
    #[must_use]
    pub fn new(bytes: usize, alignment: usize, offset: usize) -> HostMemory {
        let layout = Layout::from_size_align(bytes + offset + GUARD, alignment)
            .expect("invariant: cases ask for small memory and powers of two");
        // SAFETY: the layout is not empty.
        let data = unsafe { alloc_zeroed(layout) };
        assert!(!data.is_null(), "out of memory");
        // SAFETY: the guard lies inside the memory just made.
        unsafe { data.add(offset + bytes).write_bytes(MARK, GUARD) };
        HostMemory {
            data,
            bytes,
            offset,
            layout,
        }
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: inside the memory.
        unsafe { self.data.add(self.offset) }
    }

    /// Whether nothing was written behind the end.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        (0..GUARD).all(|index| {
            // SAFETY: the guard lies inside the memory, and nothing else writes it.
            unsafe { self.data.add(self.offset + self.bytes + index).read_volatile() == MARK }
        })
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: made with this layout, freed once.
        unsafe { dealloc(self.data, self.layout) };
    }
}

/// A buffer of a device.
pub struct Buffer {
    device: Arc<Device>,
    raw: *mut abi::polychip_buffer,
    bytes: u64,
    memory: Option<HostMemory>,
}

// SAFETY: the contract allows calls on a buffer from any thread, one at a time.
unsafe impl Send for Buffer {}
// SAFETY: cases access one buffer from one thread at a time; binding copies its address.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.table().buffer_destroy {
            // SAFETY: made by this table, destroyed once; runs that use it hold it.
            unsafe { destroy(self.raw) };
        }
    }
}

impl Buffer {
    pub(crate) fn create(device: &Arc<Device>, kind: u32, bytes: u64, alignment: u64) -> Call<Arc<Buffer>> {
        let mut wanted = abi::polychip_memory::sized();
        wanted.kind = kind;
        wanted.fd = abi::POLYCHIP_NO_FD;
        wanted.bytes = bytes;
        wanted.alignment = alignment;
        let call = device
            .table()
            .buffer_create
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        // SAFETY: the device is open and the records are ours.
        checked("buffer_create", |record| unsafe {
            call(device.raw(), &raw const wanted, &raw mut raw, record)
        })?;
        Buffer::made(device, raw, bytes, None)
    }

    pub(crate) fn import(device: &Arc<Device>, memory: HostMemory) -> Call<Arc<Buffer>> {
        let mut given = abi::polychip_memory::sized();
        given.kind = abi::POLYCHIP_MEMORY_HOST;
        given.fd = abi::POLYCHIP_NO_FD;
        given.data = memory.address();
        given.bytes = memory.bytes as u64;
        Buffer::import_record(device, &given, Some(memory))
    }

    /// Imports what a record describes.
    ///
    /// # Errors
    /// The call failed.
    pub fn import_record(
        device: &Arc<Device>,
        given: &abi::polychip_memory,
        memory: Option<HostMemory>,
    ) -> Call<Arc<Buffer>> {
        let call = device
            .table()
            .buffer_import
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        // SAFETY: the memory lives as long as the buffer, which holds it.
        checked("buffer_import", |record| unsafe {
            call(device.raw(), given, &raw mut raw, record)
        })?;
        Buffer::made(device, raw, given.bytes, memory)
    }

    fn made(
        device: &Arc<Device>,
        raw: *mut abi::polychip_buffer,
        bytes: u64,
        memory: Option<HostMemory>,
    ) -> Call<Arc<Buffer>> {
        if raw.is_null() {
            return Err(breach("buffer_create", "it returned no buffer"));
        }
        Ok(Arc::new(Buffer {
            device: Arc::clone(device),
            raw,
            bytes,
            memory,
        }))
    }

    /// The handle.
    #[must_use]
    pub fn raw(&self) -> *mut abi::polychip_buffer {
        self.raw
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The host memory under it, where it was imported.
    #[must_use]
    pub fn memory(&self) -> Option<&HostMemory> {
        self.memory.as_ref()
    }

    /// Opens a range, gives its address to `with`, and closes it.
    ///
    /// # Errors
    /// A call failed.
    pub fn access<T>(
        &self,
        access: u32,
        offset: u64,
        bytes: u64,
        with: impl FnOnce(*mut u8) -> T,
    ) -> Call<T> {
        let table = self.device.table();
        let begin = table
            .buffer_begin_access
            .expect("invariant: required calls are checked");
        let end = table
            .buffer_end_access
            .expect("invariant: required calls are checked");
        let mut data = std::ptr::null_mut();
        // SAFETY: the buffer is alive and the records are ours.
        checked("buffer_begin_access", |record| unsafe {
            begin(self.raw, access, offset, bytes, &raw mut data, record)
        })?;
        if data.is_null() && bytes > 0 {
            return Err(breach("buffer_begin_access", "it returned no address"));
        }
        let result = with(data);
        // SAFETY: the access was opened on this buffer.
        checked("buffer_end_access", |record| unsafe { end(self.raw, record) })?;
        Ok(result)
    }

    /// Writes from byte `offset` on.
    ///
    /// # Errors
    /// A call failed.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Call<()> {
        let access = abi::POLYCHIP_ACCESS_WRITE;
        self.access(access, offset, bytes.len() as u64, |data| {
            if !bytes.is_empty() {
                // SAFETY: the plugin opened so many bytes for writing.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
            }
        })
    }

    /// Reads from byte `offset` on.
    ///
    /// # Errors
    /// A call failed.
    pub fn read(&self, offset: u64, bytes: u64) -> Call<Vec<u8>> {
        self.access(abi::POLYCHIP_ACCESS_READ, offset, bytes, |data| {
            if bytes == 0 {
                return Vec::new();
            }
            // SAFETY: the plugin opened so many bytes for reading.
            unsafe { std::slice::from_raw_parts(data, bytes as usize) }.to_vec()
        })
    }

    /// Gives the memory as a kind; nothing where that is not offered.
    ///
    /// # Errors
    /// The call failed.
    pub fn export(&self, kind: u32) -> Call<Option<abi::polychip_memory>> {
        let Some(call) = self.device.table().buffer_export else {
            return Ok(None);
        };
        let mut found = abi::polychip_memory::sized();
        // SAFETY: the buffer is alive and the record is ours.
        checked("buffer_export", |record| unsafe {
            call(self.raw, kind, &raw mut found, record)
        })?;
        Ok(Some(found))
    }
}

impl Device {
    /// Makes a buffer of the device's own memory.
    ///
    /// # Errors
    /// The call failed.
    pub fn create_buffer(self: &Arc<Self>, bytes: u64, alignment: u64) -> Call<Arc<Buffer>> {
        Buffer::create(self, abi::POLYCHIP_MEMORY_HOST, bytes, alignment)
    }

    /// Makes a buffer over host memory.
    ///
    /// # Errors
    /// The call failed.
    pub fn import_buffer(self: &Arc<Self>, memory: HostMemory) -> Call<Arc<Buffer>> {
        Buffer::import(self, memory)
    }
}
