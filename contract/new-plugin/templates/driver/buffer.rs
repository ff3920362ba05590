//! Buffers: host memory that the chip uses in place, or memory of the chip with a copy for the host.
//!
//! Not here: the two sides of a buffer, and when they are copied (`polychip_sdk::DeviceBuffer`).

use std::sync::{Arc, Weak};

use polychip_sdk::{DeviceBuffer, Error, HostBuffer, Memory, MemoryKind, MemoryKinds, Result, Side};

use crate::driver::{MemoryBlock, Session};
use crate::shared::Shared;

/// A buffer.
pub type XyzBuffer = DeviceBuffer<XyzSide>;

/// Memory kinds that are imported without a copy.
pub(crate) fn imports(shared: &Shared) -> MemoryKinds {
    if shared.shares_memory {
        HostBuffer::KINDS
    } else {
        MemoryKinds::of(&[])
    }
}

/// Memory kinds that ports can be bound to.
pub(crate) fn bindable(shared: &Shared) -> MemoryKinds {
    if shared.shares_memory {
        HostBuffer::KINDS
    } else {
        MemoryKinds::of(&[MemoryKind::Host])
    }
}

/// Makes a buffer in the chip's memory, with a copy for the host.
pub(crate) fn create(shared: &Arc<Shared>, wanted: &Memory) -> Result<Arc<XyzBuffer>> {
    /// The SDK lets kernels write whole vectors at the end.
    const ROUND: u64 = 256;
    let bytes = wanted.bytes().max(1).next_multiple_of(ROUND);
    let host = HostBuffer::create(&Memory::wanted(wanted.kind(), bytes, wanted.alignment()))?;
    XyzBuffer::made(XyzSide::of(shared), host, wanted.bytes(), true).map(Arc::new)
}

/// Makes a buffer over the host's memory, without a copy.
pub(crate) fn import(shared: &Arc<Shared>, memory: &Memory) -> Result<Arc<XyzBuffer>> {
    if !imports(shared).contains(memory.kind()) {
        let what = format!("memory of kind {:?} is not used in place", memory.kind());
        return Err(Error::unsupported(what));
    }
    XyzBuffer::imported(XyzSide::of(shared), memory).map(Arc::new)
}

/// The chip's side of a buffer.
pub struct XyzSide {
    shared: Weak<Shared>,
}

impl XyzSide {
    fn of(shared: &Arc<Shared>) -> XyzSide {
        XyzSide {
            shared: Arc::downgrade(shared),
        }
    }
}

impl Side for XyzSide {
    type Opening = Session;
    type Piece = MemoryBlock;

    fn opening(&self) -> Option<Arc<Session>> {
        self.shared.upgrade().map(|shared| shared.session())
    }

    fn number(session: &Session) -> u64 {
        session.number()
    }

    fn local(&self, session: &Arc<Session>, bytes: u64) -> Result<MemoryBlock> {
        MemoryBlock::allocate(session, bytes)
    }

    fn in_place(&self, session: &Arc<Session>, host: &HostBuffer, bytes: u64) -> Result<MemoryBlock> {
        MemoryBlock::import(session, host, bytes)
    }

    fn read(&self, _: &Arc<Session>, block: &MemoryBlock, to: &mut [u8]) -> Result<()> {
        block.read(to)
    }

    fn write(&self, _: &Arc<Session>, block: &MemoryBlock, from: &[u8]) -> Result<()> {
        block.write(from)
    }
}
