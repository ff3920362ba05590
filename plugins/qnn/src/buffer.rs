//! Buffers: memory behind a descriptor, which the chip reaches where contexts register it, and plain host memory, which the
//! library is given by its address and copies.
//!
//! Not here: cache maintenance of dma-bufs (`polychip_sdk::HostBuffer`), what contexts know (`exec`).

#![allow(unsafe_code, reason = "the host's descriptors are held here")]

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use polychip_sdk::{Buffer, Error, HostBacked, HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

use crate::session::Range;

/// Memory kinds that ports can be bound to: of `Host` and `Memfd`, a chip's library copies.
pub(crate) const PORTS: MemoryKinds =
    MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd, MemoryKind::DmaBuf]);

/// How the library accesses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By its address: a chip's library copies.
    Address,
    /// By its descriptor, registered with a context: the chip has it in place.
    Registered,
}

/// Memory that the library can access, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) way: Way,
    /// The library drives no chip: it computes on the host.
    pub(crate) emulated: bool,
}

impl Reach {
    /// Kinds that are imported without a copy.
    pub(crate) fn imports(self) -> MemoryKinds {
        match (self.way, self.emulated) {
            (Way::Address, true) => HostBuffer::KINDS,
            // a chip's library would copy each
            (Way::Address, false) => MemoryKinds::of(&[]),
            (Way::Registered, true) => MemoryKinds::of(&[MemoryKind::Memfd, MemoryKind::DmaBuf]),
            (Way::Registered, false) => MemoryKinds::of(&[MemoryKind::DmaBuf]),
        }
    }
}

/// A buffer.
pub struct QnnBuffer {
    host: HostBuffer,
    /// The memory's descriptor, where the buffer begins in it, and how much it holds up to the buffer's end.
    file: Option<(OwnedFd, u64, u64)>,
}

impl QnnBuffer {
    /// Makes a buffer.
    pub(crate) fn create(reach: Reach, wanted: &Memory) -> Result<Arc<QnnBuffer>> {
        let host = HostBuffer::create(wanted)?;
        let file = match (reach.way, wanted.kind()) {
            // memory that a chip does not register is passed by address
            (Way::Registered, kind) if reach.imports().contains(kind) => hold(&host.export(kind)?)?,
            _ => None,
        };
        Ok(Arc::new(QnnBuffer { host, file }))
    }

    /// Imports the host's memory without a copy.
    pub(crate) fn import(reach: Reach, memory: &Memory) -> Result<Arc<QnnBuffer>> {
        if !reach.imports().contains(memory.kind()) {
            let what = format!("memory of kind {:?} would be copied", memory.kind());
            return Err(Error::unsupported(what));
        }
        let file = match reach.way {
            Way::Address => None,
            Way::Registered => hold(memory)?,
        };
        let host = HostBuffer::import(memory)?;
        Ok(Arc::new(QnnBuffer { host, file }))
    }

    /// The range from `offset` on, where contexts can know it.
    pub(crate) fn range(&self, offset: usize) -> Option<Range> {
        let (fd, start, whole) = self.file.as_ref()?;
        Some(Range {
            fd: fd.as_raw_fd(),
            offset: start + offset as u64,
            whole: *whole,
        })
    }
}

/// A descriptor of our own for that of a memory, which is open during the call.
fn hold(memory: &Memory) -> Result<Option<(OwnedFd, u64, u64)>> {
    let fd = memory
        .fd()
        .and_then(|fd| i32::try_from(fd).ok())
        .filter(|&fd| fd >= 0);
    let fd = fd.ok_or_else(|| Error::bad_argument("memory has no descriptor"))?;
    // SAFETY: the host's or the buffer's own, open during this call by the contract.
    let held = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    let held =
        held.map_err(|error| Error::unsupported(format!("the memory's file cannot be held: {error}")))?;
    let end = memory.offset().checked_add(memory.bytes());
    let end = end.ok_or_else(|| Error::bad_argument("memory to import leaves the address space"))?;
    Ok(Some((held, memory.offset(), end)))
}

impl HostBacked for QnnBuffer {
    fn host(&self) -> &HostBuffer {
        &self.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulator_uses_host_memory_directly_and_chip_maps_it() {
        let imports = |way, emulated| Reach { way, emulated }.imports();
        assert!(imports(Way::Address, true).contains(MemoryKind::Host));
        for kind in [MemoryKind::Host, MemoryKind::Memfd, MemoryKind::DmaBuf] {
            assert!(!imports(Way::Address, false).contains(kind), "{kind:?}");
        }
        for emulated in [true, false] {
            let registered = imports(Way::Registered, emulated);
            assert!(registered.contains(MemoryKind::DmaBuf) && !registered.contains(MemoryKind::Host));
            assert_eq!(registered.contains(MemoryKind::Memfd), emulated);
        }
    }
}
