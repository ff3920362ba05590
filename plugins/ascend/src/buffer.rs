//! Buffers: memory of the board, with a copy for the host. Host memory is neither imported nor
//! exported: the library takes no dma-buf, and a model's ports are memory of the board.
//!
//! Not here: the two sides of a buffer and when they are copied (`polychip_sdk::DeviceBuffer`).

use std::sync::{Arc, Weak};

use polychip_sdk::{DeviceBuffer, Error, HostBuffer, Memory, MemoryKind, Result, Side};

use crate::driver::{Opening, Piece};
use crate::shared::Shared;

/// The board's side of a buffer.
pub struct AscendSide {
    shared: Weak<Shared>,
}

/// A buffer.
pub type AscendBuffer = DeviceBuffer<AscendSide>;

/// Makes a buffer.
pub(crate) fn create(shared: &Arc<Shared>, wanted: &Memory) -> Result<Arc<AscendBuffer>> {
    if wanted.kind() != MemoryKind::Host {
        let kind = wanted.kind();
        return Err(Error::unsupported(format!(
            "buffers of kind {kind:?} are not made here"
        )));
    }
    let bytes = wanted.bytes().max(1);
    let host = HostBuffer::create(&Memory::wanted(MemoryKind::Host, bytes, wanted.alignment()))?;
    let side = AscendSide {
        shared: Arc::downgrade(shared),
    };
    AscendBuffer::made(side, host, wanted.bytes(), true).map(Arc::new)
}

impl Side for AscendSide {
    type Opening = Opening;
    type Piece = Piece;

    fn opening(&self) -> Option<Arc<Opening>> {
        self.shared.upgrade().map(|shared| shared.opening())
    }

    fn number(opening: &Opening) -> u64 {
        opening.number()
    }

    fn local(&self, opening: &Arc<Opening>, bytes: u64) -> Result<Piece> {
        let bytes = usize::try_from(bytes).map_err(|_| Error::bad_argument("a buffer is too large"))?;
        Piece::new(opening, bytes)
    }

    fn in_place(&self, _: &Arc<Opening>, _: &HostBuffer, _: u64) -> Result<Piece> {
        Err(Error::unsupported("the board does not use host memory in place"))
    }

    fn read(&self, _: &Arc<Opening>, piece: &Piece, to: &mut [u8]) -> Result<()> {
        piece.read(to)
    }

    fn write(&self, _: &Arc<Opening>, piece: &Piece, from: &[u8]) -> Result<()> {
        piece.write(from)
    }
}
