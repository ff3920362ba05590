//! Buffers: memory that is bound to ports.
//!
//! Invariants:
//! 1. Cache maintenance happens in `buffer_begin_access` and `buffer_end_access`, and nowhere else.
//! 2. Imported memory belongs to the host. The plugin duplicates or retains what it needs, and the
//!    host keeps host pointers valid until `buffer_destroy`.

use crate::sized::sized;

/// Memory that can be bound to ports on a device.
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
/// Memory in the vendor's own form; only the same plugin can bind it.
pub const POLYCHIP_MEMORY_VENDOR: u32 = 5;

/// The host reads the range.
pub const POLYCHIP_ACCESS_READ: u32 = 1;
/// The host writes the range. Without `POLYCHIP_ACCESS_READ` it writes all of it.
pub const POLYCHIP_ACCESS_WRITE: u32 = 2;

/// A region of memory.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_memory {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_MEMORY_*`.
    pub kind: u32,
    /// Host address, for `POLYCHIP_MEMORY_HOST`. It may also be set for a file that is mapped.
    /// Otherwise null.
    pub data: *mut u8,
    /// File descriptor, or `POLYCHIP_NO_FD`. It belongs to the side that filled the record.
    pub fd: i64,
    /// Platform handle (`AHardwareBuffer *`, `IOSurfaceRef`), or 0.
    pub handle: u64,
    /// Start of the buffer in the file or handle, in bytes.
    pub offset: u64,
    /// Size, in bytes.
    pub bytes: u64,
    /// Alignment requested of `buffer_create`, in bytes: a power of two, or 0 for any.
    pub alignment: u64,
}

sized!(polychip_memory);
