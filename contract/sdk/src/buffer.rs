//! Buffers: memory that is bound to ports.

use polychip_abi as abi;

use crate::{Error, Result};

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MemoryKind {
    /// Plain host memory.
    Host = abi::POLYCHIP_MEMORY_HOST,
    /// An anonymous memory file.
    Memfd = abi::POLYCHIP_MEMORY_MEMFD,
    /// A Linux dma-buf.
    DmaBuf = abi::POLYCHIP_MEMORY_DMA_BUF,
    /// An Android `AHardwareBuffer`.
    HardwareBuffer = abi::POLYCHIP_MEMORY_HARDWARE_BUFFER,
    /// An Apple `IOSurface`.
    IoSurface = abi::POLYCHIP_MEMORY_IO_SURFACE,
    /// Memory in the vendor's own form.
    Vendor = abi::POLYCHIP_MEMORY_VENDOR,
}

impl MemoryKind {
    /// The kind with this code.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<MemoryKind> {
        Some(match code {
            abi::POLYCHIP_MEMORY_HOST => MemoryKind::Host,
            abi::POLYCHIP_MEMORY_MEMFD => MemoryKind::Memfd,
            abi::POLYCHIP_MEMORY_DMA_BUF => MemoryKind::DmaBuf,
            abi::POLYCHIP_MEMORY_HARDWARE_BUFFER => MemoryKind::HardwareBuffer,
            abi::POLYCHIP_MEMORY_IO_SURFACE => MemoryKind::IoSurface,
            abi::POLYCHIP_MEMORY_VENDOR => MemoryKind::Vendor,
            _ => return None,
        })
    }
}

/// A set of memory kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MemoryKinds(u32);

impl MemoryKinds {
    /// The set of these kinds.
    #[must_use]
    pub const fn of(kinds: &[MemoryKind]) -> MemoryKinds {
        let mut bits = 0;
        let mut index = 0;
        while index < kinds.len() {
            bits |= 1 << kinds[index] as u32;
            index += 1;
        }
        MemoryKinds(bits)
    }

    /// Whether the kind is in the set.
    #[must_use]
    pub const fn contains(self, kind: MemoryKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }

    /// Bits `1 << POLYCHIP_MEMORY_*`.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// Kind of host access to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The host reads.
    pub read: bool,
    /// The host writes.
    pub write: bool,
}

impl Access {
    pub(crate) const READ: Access = Access {
        read: true,
        write: false,
    };
    pub(crate) const BOTH: Access = Access {
        read: true,
        write: true,
    };
}

/// A region of memory: requested, imported or exported.
///
/// Its address or handle can only come from the contract or from unsafe code, so importing it is
/// safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    kind: MemoryKind,
    data: *mut u8,
    fd: Option<i64>,
    handle: u64,
    offset: u64,
    bytes: u64,
    alignment: u64,
}

impl Memory {
    /// A request for `bytes` bytes at a multiple of `alignment`, a power of two.
    #[must_use]
    pub fn wanted(kind: MemoryKind, bytes: u64, alignment: u64) -> Memory {
        Memory {
            kind,
            data: std::ptr::null_mut(),
            fd: None,
            handle: 0,
            offset: 0,
            bytes,
            alignment,
        }
    }

    /// Memory behind a file descriptor, which still belongs to its owner.
    #[must_use]
    pub fn file(kind: MemoryKind, fd: i64, offset: u64, bytes: u64) -> Memory {
        Memory {
            fd: Some(fd),
            offset,
            ..Memory::wanted(kind, bytes, 1)
        }
    }

    /// Memory behind a platform handle.
    ///
    /// # Safety
    /// The handle refers to a live object of this kind for as long as the receiver of the value may
    /// use it.
    #[allow(unsafe_code, reason = "a handle becomes trusted here")]
    #[must_use]
    pub unsafe fn handle_of(kind: MemoryKind, handle: u64, offset: u64, bytes: u64) -> Memory {
        Memory {
            handle,
            offset,
            ..Memory::wanted(kind, bytes, 1)
        }
    }

    /// Host memory.
    ///
    /// # Safety
    /// `data` is valid for `bytes` bytes for as long as the receiver of the value may use it: until
    /// the exporting buffer is destroyed.
    #[allow(unsafe_code, reason = "an address becomes trusted here")]
    #[must_use]
    pub unsafe fn host(data: *mut u8, bytes: u64) -> Memory {
        Memory {
            data,
            ..Memory::wanted(MemoryKind::Host, bytes, 1)
        }
    }

    /// Kind.
    #[must_use]
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Host address, or null.
    #[must_use]
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// File descriptor of the other side: duplicate or map it, never close it.
    #[must_use]
    pub fn fd(&self) -> Option<i64> {
        self.fd
    }

    /// Platform handle, or 0.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Start in the file or handle, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Size, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requested alignment, in bytes; a power of two.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    pub(crate) fn from_record(record: &abi::polychip_memory) -> Result<Memory> {
        let kind = MemoryKind::from_code(record.kind)
            .ok_or_else(|| Error::unsupported(format!("memory kind {} is not known", record.kind)))?;
        if record.alignment != 0 && !record.alignment.is_power_of_two() {
            return Err(Error::bad_argument(format!(
                "alignment {} is not a power of two",
                record.alignment
            )));
        }
        if record.bytes > isize::MAX as u64 || record.offset.checked_add(record.bytes).is_none() {
            return Err(Error::bad_argument(format!(
                "{} bytes at offset {} do not fit the address space",
                record.bytes, record.offset
            )));
        }
        Ok(Memory {
            kind,
            data: record.data,
            fd: (record.fd >= 0).then_some(record.fd),
            handle: record.handle,
            offset: record.offset,
            bytes: record.bytes,
            alignment: record.alignment.max(1),
        })
    }

    pub(crate) fn record(&self) -> abi::polychip_memory {
        abi::polychip_memory {
            kind: self.kind as u32,
            data: self.data,
            fd: self.fd.unwrap_or(abi::POLYCHIP_NO_FD),
            handle: self.handle,
            offset: self.offset,
            bytes: self.bytes,
            alignment: self.alignment,
            ..<abi::polychip_memory as abi::Sized>::sized()
        }
    }
}

/// Memory of a device that is bound to ports.
pub trait Buffer: Send + Sync + Sized + 'static {
    /// Size, in bytes.
    fn bytes(&self) -> usize;

    /// Makes a range inside the buffer readable or writable by the host, and returns its address.
    /// Only this and [`Buffer::end_access`] may maintain caches. May block.
    ///
    /// # Errors
    /// The memory cannot be mapped.
    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8>;

    /// Ends an access, so that the device sees what the host wrote. May block.
    ///
    /// # Errors
    /// Cache maintenance fails.
    fn end_access(&self) -> Result<()>;

    /// Returns and resets the number of bytes copied between the host's and the device's side of
    /// the buffer. A run that binds the buffer counts them
    /// ([`Timing::copied_bytes`](crate::Timing::copied_bytes)).
    fn take_copied_bytes(&self) -> u64 {
        0
    }

    /// Exports the memory, for another device to import. It lives as long as the buffer.
    ///
    /// # Errors
    /// `Unsupported` if it cannot be exported as this kind.
    fn export(&self, _kind: MemoryKind) -> Result<Memory> {
        Err(Error::unsupported("this buffer cannot be exported"))
    }
}
