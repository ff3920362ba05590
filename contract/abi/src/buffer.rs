//! Buffers: memory that ports are bound to.
//!
//! Invariants:
//! 1. Cache maintenance happens in `buffer_begin_access` and `buffer_end_access`, and nowhere else.
//! 2. Imported memory stays the host's: the plugin duplicates or retains what it needs, and the host
//!    keeps host pointers valid until `buffer_destroy`.

use crate::sized::sized;

/// A buffer that a device can bind.
pub struct polychip_buffer {
    _private: [u8; 0],
}

/// Plain host memory.
pub const POLYCHIP_MEMORY_HOST: u32 = 0;
/// An anonymous memory file (`memfd_create`).
pub const POLYCHIP_MEMORY_MEMFD: u32 = 1;
/// A Linux dma-buf.
pub const POLYCHIP_MEMORY_DMA_BUF: u32 = 2;
/// An Android `AHardwareBuffer`.
pub const POLYCHIP_MEMORY_HARDWARE_BUFFER: u32 = 3;
/// An Apple `IOSurface`.
pub const POLYCHIP_MEMORY_IO_SURFACE: u32 = 4;
/// The vendor's own memory; only the same plugin binds it.
pub const POLYCHIP_MEMORY_VENDOR: u32 = 5;

/// The host will read.
pub const POLYCHIP_ACCESS_READ: u32 = 1;
/// The host will write. Without `POLYCHIP_ACCESS_READ` it writes the whole range.
pub const POLYCHIP_ACCESS_WRITE: u32 = 2;

/// A piece of memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_memory {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_MEMORY_*`.
    pub kind: u32,
    /// Host address, for `POLYCHIP_MEMORY_HOST`; may be given beside a file where it is mapped. Else null.
    pub data: *mut u8,
    /// File descriptor, or `POLYCHIP_NO_FD`. It stays with whoever filled the record.
    pub fd: i64,
    /// Platform handle (`AHardwareBuffer *`, `IOSurfaceRef`), or 0.
    pub handle: u64,
    /// Where the buffer starts in the file or handle, in bytes.
    pub offset: u64,
    /// Size, in bytes.
    pub bytes: u64,
    /// Alignment wanted by `buffer_create`, in bytes: a power of two, or 0 for any.
    pub alignment: u64,
}

sized!(polychip_memory);
