//! Host memory: aligned bytes, and the buffer shared by devices that compute on host memory.
//!
//! Invariants:
//! 1. `data` is valid for `bytes` bytes as long as the buffer lives: the buffer owns it, maps it,
//!    or the host keeps it until `buffer_destroy`. An Android hardware buffer has an address only
//!    while it is locked; `data` never holds one.
//! 2. The host orders reads and writes. The contract forbids it to bind memory to two runs at once
//!    if one of them writes it.

#![allow(unsafe_code, reason = "allocations and mappings are handled here")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::{Access, Buffer, Error, ErrorKind, Memory, MemoryKind, MemoryKinds, Result};

/// Owned bytes at a chosen alignment, zeroed when they are allocated.
pub struct AlignedBytes {
    data: NonNull<u8>,
    bytes: usize,
    layout: Layout,
}

// SAFETY: the memory is owned, and reached through `&` and `&mut` as any box's.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// Allocates zeroed bytes at a multiple of `alignment`, a power of two.
    ///
    /// # Errors
    /// There is not enough memory, the size exceeds the address space, or `alignment` is not a power
    /// of two; all with the kind `OutOfMemory`.
    pub fn zeroed(bytes: usize, alignment: usize) -> Result<AlignedBytes> {
        let full = || Error::new(ErrorKind::OutOfMemory, format!("no memory for {bytes} bytes"));
        let layout = Layout::from_size_align(bytes.max(1), alignment.max(1)).map_err(|_| full())?;
        // SAFETY: the layout has at least one byte.
        let data = unsafe { alloc_zeroed(layout) };
        Ok(AlignedBytes {
            data: NonNull::new(data).ok_or_else(full)?,
            bytes,
            layout,
        })
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.data.as_ptr(), self.layout) }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` initialised bytes of our own.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.bytes) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `bytes` initialised bytes of our own, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.bytes) }
    }
}

/// Bytes are a blob.
impl crate::Blob for AlignedBytes {
    fn bytes(&self) -> Result<&[u8]> {
        Ok(self)
    }
}

enum Hold {
    /// Owned; never read, freed on drop.
    Owned(#[allow(dead_code, reason = "held for its drop")] AlignedBytes),
    /// Owned by the host.
    Host,
    /// A mapping of a file, with the file if the buffer owns it.
    #[cfg(unix)]
    Mapped {
        #[allow(dead_code, reason = "held for its drop")]
        map: memmap2::MmapRaw,
        file: Option<std::os::fd::OwnedFd>,
    },
    /// A mapping of the host's dma-buf.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    DmaBuf {
        #[allow(dead_code, reason = "held for its drop")]
        map: memmap2::MmapRaw,
        fd: std::os::fd::OwnedFd,
        offset: u64,
        /// Flags of the open access; 0 if none is open.
        open: std::sync::atomic::AtomicU64,
    },
    /// A hardware buffer, and the offset of the memory in it.
    #[cfg(target_os = "android")]
    Hardware {
        buffer: crate::hardware_buffer::HardwareBuffer,
        offset: usize,
    },
}

/// A buffer in host memory: created, or imported from a host pointer, an anonymous memory file, a
/// dma-buf or an Android hardware buffer.
pub struct HostBuffer {
    data: NonNull<u8>,
    bytes: usize,
    hold: Hold,
}

// SAFETY: the memory is plain bytes; who uses it when is the host's plan (invariant 2).
unsafe impl Send for HostBuffer {}
// SAFETY: as above.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// Memory kinds that a device on host memory can import and export on this system.
    pub const KINDS: MemoryKinds = if cfg!(any(target_os = "linux", target_os = "android")) {
        MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd])
    } else {
        MemoryKinds::of(&[MemoryKind::Host])
    };

    /// Makes a zeroed buffer of the requested size, alignment (at least 64) and kind (`Host`, and
    /// `Memfd` on Linux).
    ///
    /// # Errors
    /// There is not enough memory, or the kind is another one.
    pub fn create(wanted: &Memory) -> Result<HostBuffer> {
        let bytes = to_usize(wanted.bytes())?;
        match wanted.kind() {
            MemoryKind::Host => {
                let owned = AlignedBytes::zeroed(bytes, to_usize(wanted.alignment())?.max(64))?;
                Ok(HostBuffer {
                    data: owned.data,
                    bytes,
                    hold: Hold::Owned(owned),
                })
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            MemoryKind::Memfd => {
                let file = rustix::fs::memfd_create("polychip-buffer", rustix::fs::MemfdFlags::CLOEXEC)
                    .and_then(|file| {
                        rustix::fs::ftruncate(&file, bytes.max(1) as u64)?;
                        Ok(file)
                    })
                    .map_err(|error| {
                        Error::new(ErrorKind::OutOfMemory, format!("no memory file: {error}"))
                    })?;
                let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
                // a file may be longer than what there is room for
                HostBuffer::map(descriptor, 0, bytes, Some(file))
                    .map_err(|error| Error::new(ErrorKind::OutOfMemory, error.to_string()))
            }
            kind => Err(Error::unsupported(format!(
                "buffers of kind {kind:?} are not made here"
            ))),
        }
    }

    /// Makes a buffer over the host's memory, without a copy.
    ///
    /// # Errors
    /// `Unsupported` if the kind is not `Host`, `Memfd`, `DmaBuf` or `HardwareBuffer`, or a file
    /// cannot be mapped.
    pub fn import(memory: &Memory) -> Result<HostBuffer> {
        let bytes = to_usize(memory.bytes())?;
        match memory.kind() {
            MemoryKind::Host => Ok(HostBuffer {
                data: NonNull::new(memory.data())
                    .ok_or_else(|| Error::bad_argument("host memory to import is null"))?,
                bytes,
                hold: Hold::Host,
            }),
            #[cfg(unix)]
            MemoryKind::Memfd => {
                let fd = memory
                    .fd()
                    .and_then(|fd| i32::try_from(fd).ok())
                    .ok_or_else(|| Error::bad_argument("a memory file to import has no descriptor"))?;
                HostBuffer::map(fd, memory.offset(), bytes, None)
            }
            #[cfg(any(target_os = "linux", target_os = "android"))]
            MemoryKind::DmaBuf => {
                let fd = memory
                    .fd()
                    .and_then(|fd| i32::try_from(fd).ok())
                    .ok_or_else(|| Error::bad_argument("a dma-buf to import has no descriptor"))?;
                HostBuffer::map_dma_buf(fd, memory.offset(), bytes)
            }
            #[cfg(target_os = "android")]
            MemoryKind::HardwareBuffer => {
                // SAFETY: a handle comes from the contract or from unsafe code, which vouches for it.
                let buffer = unsafe { crate::hardware_buffer::HardwareBuffer::hold(memory.handle()) }?;
                let end = memory.offset().saturating_add(memory.bytes());
                if end > buffer.bytes {
                    return Err(Error::bad_argument(format!(
                        "{bytes} bytes at offset {} exceed a hardware buffer of {} bytes",
                        memory.offset(),
                        buffer.bytes
                    )));
                }
                Ok(HostBuffer {
                    data: NonNull::dangling(),
                    bytes,
                    hold: Hold::Hardware {
                        buffer,
                        offset: to_usize(memory.offset())?,
                    },
                })
            }
            kind => Err(Error::unsupported(format!(
                "memory of kind {kind:?} cannot be imported"
            ))),
        }
    }

    #[cfg(unix)]
    fn map(fd: i32, offset: u64, bytes: usize, file: Option<std::os::fd::OwnedFd>) -> Result<HostBuffer> {
        let map = memmap2::MmapOptions::new()
            .offset(offset)
            .len(bytes.max(1))
            .map_raw(fd)
            .map_err(|error| Error::unsupported(format!("a memory file cannot be mapped: {error}")))?;
        Ok(HostBuffer {
            data: NonNull::new(map.as_mut_ptr()).expect("invariant: a mapping is not null"),
            bytes,
            hold: Hold::Mapped { map, file },
        })
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn map_dma_buf(fd: i32, offset: u64, bytes: usize) -> Result<HostBuffer> {
        // SAFETY: the caller's, open during this call by the contract.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
            .try_clone_to_owned()
            .map_err(|error| Error::unsupported(format!("a dma-buf cannot be held: {error}")))?;
        let map = memmap2::MmapOptions::new()
            .offset(offset)
            .len(bytes.max(1))
            .map_raw(&fd)
            .map_err(|error| Error::unsupported(format!("a dma-buf cannot be mapped: {error}")))?;
        // a file that is not a dma-buf is detected before it is used as one
        let probe = crate::dma_buf::flags(Access::READ);
        crate::dma_buf::begin(&fd, probe)
            .and_then(|()| crate::dma_buf::end(&fd, probe))
            .map_err(|_| Error::unsupported("the descriptor is not a dma-buf"))?;
        Ok(HostBuffer {
            data: NonNull::new(map.as_mut_ptr()).expect("invariant: a mapping is not null"),
            bytes,
            hold: Hold::DmaBuf {
                map,
                fd,
                offset,
                open: std::sync::atomic::AtomicU64::new(0),
            },
        })
    }

    /// The dma-buf that the memory was imported from, and the start of the memory in it, in bytes.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[must_use]
    pub fn dma_buf(&self) -> Option<(std::os::fd::BorrowedFd<'_>, u64)> {
        match &self.hold {
            Hold::DmaBuf { fd, offset, .. } => Some((std::os::fd::AsFd::as_fd(fd), *offset)),
            _ => None,
        }
    }

    /// The Android hardware buffer (`AHardwareBuffer *`) that the memory was imported from, and the
    /// start of the memory in it, in bytes.
    #[cfg(target_os = "android")]
    #[must_use]
    pub fn hardware_buffer(&self) -> Option<(u64, u64)> {
        match &self.hold {
            Hold::Hardware { buffer, offset } => Some((buffer.handle(), *offset as u64)),
            _ => None,
        }
    }

    /// Address of the first byte; not usable for a hardware buffer.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// Copies a range out.
    ///
    /// # Errors
    /// The range exceeds the buffer.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.access_by_cpu(Access::READ, offset, to.len(), |from| {
            // SAFETY: in range; `to` is a borrowed slice, which the host's memory cannot overlap.
            unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
        })
    }

    /// Copies a range in.
    ///
    /// # Errors
    /// The range exceeds the buffer.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.access_by_cpu(Access::BOTH, offset, from.len(), |to| {
            // SAFETY: in range; `from` is a borrowed slice, which the host's memory cannot overlap.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
        })
    }

    /// Calls `used` with the address of a range. If the memory is a dma-buf, announces the CPU's
    /// access to the kernel.
    fn access_by_cpu(
        &self,
        access: Access,
        offset: usize,
        bytes: usize,
        used: impl FnOnce(*mut u8),
    ) -> Result<()> {
        self.check(offset, bytes)?;
        match &self.hold {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Hold::DmaBuf { fd, .. } => {
                let flags = crate::dma_buf::flags(access);
                crate::dma_buf::begin(fd, flags)?;
                used(self.data.as_ptr().wrapping_add(offset));
                crate::dma_buf::end(fd, flags)
            }
            #[cfg(target_os = "android")]
            Hold::Hardware {
                buffer,
                offset: start,
            } => {
                used(buffer.lock(access)?.wrapping_add(start + offset));
                buffer.unlock()
            }
            _ => {
                let _ = access;
                used(self.data.as_ptr().wrapping_add(offset));
                Ok(())
            }
        }
    }

    /// A range as a slice.
    ///
    /// # Errors
    /// The range exceeds the buffer.
    ///
    /// # Safety
    /// Nothing writes to the range while the slice lives: it is bound to an input of a run in
    /// flight.
    pub unsafe fn slice(&self, offset: usize, bytes: usize) -> Result<&[u8]> {
        let data = self.range(offset, bytes)?;
        // SAFETY: in range, initialised (zeroed or the host's), not written as the caller promises.
        Ok(unsafe { std::slice::from_raw_parts(data, bytes) })
    }

    /// A range as a mutable slice.
    ///
    /// # Errors
    /// The range exceeds the buffer.
    ///
    /// # Safety
    /// Nothing else uses the range while the slice lives: it is bound to an output of a run in
    /// flight.
    #[allow(clippy::mut_from_ref, reason = "exclusive by the caller's promise")]
    pub unsafe fn slice_mut(&self, offset: usize, bytes: usize) -> Result<&mut [u8]> {
        let data = self.range(offset, bytes)?;
        // SAFETY: in range, initialised, used by the caller alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(data, bytes) })
    }

    /// Exports the first `bytes` bytes of the memory; [`Buffer::export`] exports all of it.
    ///
    /// # Errors
    /// `Unsupported` if it cannot be exported as this kind.
    pub fn export_first(&self, kind: MemoryKind, bytes: usize) -> Result<Memory> {
        self.check(0, bytes)?;
        let all = self.export(kind)?;
        Ok(match all.fd() {
            Some(fd) => Memory::file(kind, fd, all.offset(), bytes as u64),
            // SAFETY: valid for more bytes than that, as long as the buffer.
            None => unsafe { Memory::host(all.data(), bytes as u64) },
        })
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<()> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(Error::bad_argument(format!(
                "{bytes} bytes at offset {offset} exceed a buffer of {} bytes",
                self.bytes
            )));
        }
        Ok(())
    }

    /// The address of a range of memory that always has an address.
    fn range(&self, offset: usize, bytes: usize) -> Result<*mut u8> {
        self.check(offset, bytes)?;
        #[cfg(target_os = "android")]
        if let Hold::Hardware { .. } = &self.hold {
            return Err(Error::unsupported(
                "a hardware buffer has no address while it is not locked",
            ));
        }
        Ok(self.data.as_ptr().wrapping_add(offset))
    }
}

fn to_usize(value: u64) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| Error::new(ErrorKind::OutOfMemory, format!("{value} bytes do not fit memory")))
}

impl Buffer for HostBuffer {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8> {
        #[cfg(target_os = "android")]
        if let Hold::Hardware {
            buffer,
            offset: start,
        } = &self.hold
        {
            self.check(offset, bytes)?;
            return Ok(buffer.lock(access)?.wrapping_add(start + offset));
        }
        let data = self.range(offset, bytes)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Hold::DmaBuf { fd, open, .. } = &self.hold {
            let flags = crate::dma_buf::flags(access);
            crate::dma_buf::begin(fd, flags)?;
            open.store(flags, std::sync::atomic::Ordering::Release);
        }
        let _ = access;
        Ok(data)
    }

    fn end_access(&self) -> Result<()> {
        #[cfg(target_os = "android")]
        if let Hold::Hardware { buffer, .. } = &self.hold {
            return buffer.unlock();
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Hold::DmaBuf { fd, open, .. } = &self.hold {
            let flags = open.swap(0, std::sync::atomic::Ordering::AcqRel);
            if flags != 0 {
                crate::dma_buf::end(fd, flags)?;
            }
        }
        Ok(())
    }

    fn export(&self, kind: MemoryKind) -> Result<Memory> {
        match (kind, &self.hold) {
            #[cfg(target_os = "android")]
            (_, Hold::Hardware { .. }) => Err(Error::unsupported("a hardware buffer is not exported")),
            (MemoryKind::Host, _) => {
                // SAFETY: valid as long as the buffer, which is as long as the contract asks.
                Ok(unsafe { Memory::host(self.data.as_ptr(), self.bytes as u64) })
            }
            #[cfg(unix)]
            (MemoryKind::Memfd, Hold::Mapped { file: Some(file), .. }) => Ok(Memory::file(
                MemoryKind::Memfd,
                i64::from(std::os::fd::AsRawFd::as_raw_fd(file)),
                0,
                self.bytes as u64,
            )),
            _ => Err(Error::unsupported(format!(
                "this buffer cannot be exported as {kind:?}"
            ))),
        }
    }
}

/// A buffer whose memory is a [`HostBuffer`]'s, which then does all that [`Buffer`] asks.
pub trait HostBacked: Send + Sync + Sized + 'static {
    /// The host's view of the memory.
    fn host(&self) -> &HostBuffer;
}

impl<B: HostBacked> Buffer for B {
    fn bytes(&self) -> usize {
        self.host().bytes()
    }

    fn begin_access(&self, access: Access, offset: usize, bytes: usize) -> Result<*mut u8> {
        self.host().begin_access(access, offset, bytes)
    }

    fn end_access(&self) -> Result<()> {
        self.host().end_access()
    }

    fn export(&self, kind: MemoryKind) -> Result<Memory> {
        self.host().export(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_within_range() {
        let buffer = HostBuffer::create(&Memory::wanted(MemoryKind::Host, 10, 128)).unwrap();
        assert_eq!(buffer.as_ptr() as usize % 128, 0);
        buffer.copy_in(6, &[1, 2, 3, 4]).unwrap();
        let mut all = [9; 10];
        buffer.copy_out(0, &mut all).unwrap();
        assert_eq!(all, [0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        assert!(buffer.copy_in(7, &[0; 4]).is_err() && buffer.copy_in(usize::MAX, &[0]).is_err());
        assert!(buffer.export(MemoryKind::Memfd).is_err());
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))] // Miri has no memory files
    fn file_that_is_not_a_dma_buf_is_refused() {
        let ours = HostBuffer::create(&Memory::wanted(MemoryKind::Memfd, 4096, 1)).unwrap();
        let file = ours.export(MemoryKind::Memfd).unwrap();
        let given = Memory::file(MemoryKind::DmaBuf, file.fd().unwrap(), 0, 4096);
        let error = HostBuffer::import(&given).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("not a dma-buf"), "{error}");
        let given = Memory::wanted(MemoryKind::DmaBuf, 4096, 1);
        assert_eq!(
            HostBuffer::import(&given).err().unwrap().kind(),
            ErrorKind::BadArgument
        );
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))] // Miri has no memory files
    fn memory_file_is_shared_by_both_sides() {
        let ours = HostBuffer::create(&Memory::wanted(MemoryKind::Memfd, 5000, 1)).unwrap();
        let exported = ours.export(MemoryKind::Memfd).unwrap();
        let theirs = HostBuffer::import(&exported).unwrap();
        ours.copy_in(4999, &[42]).unwrap();
        let mut byte = [0];
        theirs.copy_out(4999, &mut byte).unwrap();
        assert_eq!(byte, [42]);
    }
}
