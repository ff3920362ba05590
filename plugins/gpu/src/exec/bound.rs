//! Memory bound to a port of a run, as the kernels see it.

use std::sync::Arc;

use crate::buffer::GpuBuffer;
use crate::driver::memory::Piece;

/// Memory of a port.
pub(super) struct Bound {
    /// What the kernels see.
    pub(super) buffer: Arc<GpuBuffer>,
    pub(super) piece: Arc<Piece>,
    pub(super) offset: u64,
    /// What the host bound, where the kernels see a copy.
    pub(super) staged: Option<Staged>,
}

/// Memory that the host bound and the kernels see a copy of.
pub(super) struct Staged {
    pub(super) port: u32,
    pub(super) buffer: Arc<GpuBuffer>,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) output: bool,
}

impl Bound {
    pub(super) fn number(&self) -> u64 {
        self.buffer.side().number()
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn piece(&self) -> &Arc<Piece> {
        &self.piece
    }
}
