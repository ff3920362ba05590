//! Buffers: memory that host and runtime share behind a descriptor.
//!
//! Invariant: a run gets the file that the host maps: nothing is copied.
//!
//! Not here: cache maintenance of dma-bufs (`polychip_sdk::HostBuffer`).

#![allow(unsafe_code, reason = "the host's descriptors are held here")]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use polychip_sdk::{Buffer, Error, HostBacked, HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

/// Memory kinds that are imported without a copy: on a phone, memory of the NPU's reach only.
pub(crate) fn kinds(emulated: bool) -> MemoryKinds {
    if emulated {
        MemoryKinds::of(&[MemoryKind::Memfd, MemoryKind::DmaBuf])
    } else {
        MemoryKinds::of(&[MemoryKind::DmaBuf])
    }
}

/// Alignment of mappings, and so of what is bound.
pub(crate) const PAGE: u64 = 4096;

/// A buffer.
pub struct NnrtBuffer {
    host: HostBuffer,
    file: OwnedFd,
    /// Where in the file it begins.
    start: usize,
}

impl NnrtBuffer {
    fn new(host: HostBuffer, memory: &Memory) -> Result<Arc<NnrtBuffer>> {
        let fd = memory
            .fd()
            .and_then(|fd| i32::try_from(fd).ok())
            .filter(|&fd| fd >= 0);
        let fd = fd.ok_or_else(|| Error::bad_argument("memory without a descriptor"))?;
        // SAFETY: open during this call: the host's by the contract, or the buffer's own.
        let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
        let file = file.map_err(|error| Error::unsupported(format!("a descriptor is not held: {error}")))?;
        let start = usize::try_from(memory.offset())
            .map_err(|_| Error::bad_argument("memory beyond the address space"))?;
        Ok(Arc::new(NnrtBuffer { host, file, start }))
    }

    /// A buffer of the requested kind, or without a request of one that the runtime supports.
    ///
    /// # Errors
    /// If memory runs out, or the runtime does not support the kind.
    pub(crate) fn create(emulated: bool, wanted: &Memory) -> Result<Arc<NnrtBuffer>> {
        let kind = match wanted.kind() {
            MemoryKind::Host if emulated => MemoryKind::Memfd,
            kind if kinds(emulated).contains(kind) => kind,
            kind => {
                return Err(Error::unsupported(format!(
                    "buffers of kind {kind:?} are not the chip's"
                )));
            }
        };
        if wanted.alignment() > PAGE {
            let what = format!(
                "a buffer aligned to {} bytes: files lie on pages",
                wanted.alignment()
            );
            return Err(Error::unsupported(what));
        }
        let host = HostBuffer::create(&Memory::wanted(kind, wanted.bytes(), wanted.alignment()))?;
        let memory = host.export(kind)?;
        NnrtBuffer::new(host, &memory)
    }

    /// A buffer over the host's memory.
    ///
    /// # Errors
    /// `Unsupported` if the runtime does not support the kind.
    pub(crate) fn import(emulated: bool, memory: &Memory) -> Result<Arc<NnrtBuffer>> {
        if !kinds(emulated).contains(memory.kind()) {
            let what = format!("memory of kind {:?} would be copied", memory.kind());
            return Err(Error::unsupported(what));
        }
        NnrtBuffer::new(HostBuffer::import(memory)?, memory)
    }

    /// The file, where in it a range begins, and how long the file is at least.
    ///
    /// # Errors
    /// If the range exceeds the buffer.
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Result<(&OwnedFd, usize, usize)> {
        if offset
            .checked_add(bytes)
            .is_none_or(|end| end > self.host.bytes())
        {
            return Err(Error::bad_argument("a port is bound past the end of its buffer"));
        }
        Ok((&self.file, self.start + offset, self.start + self.host.bytes()))
    }
}

impl HostBacked for NnrtBuffer {
    fn host(&self) -> &HostBuffer {
        &self.host
    }
}
