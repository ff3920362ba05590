//! Memory bound to a port of a run, as the kernels see it.

use std::sync::Arc;

use crate::buffer::GpuBuffer;
use crate::driver::memory::MemoryBlock;

/// The memory bound to a port.
pub(super) struct PortBinding {
    /// The buffer that the kernels see.
    pub(super) buffer: Arc<GpuBuffer>,
    pub(super) block: Arc<MemoryBlock>,
    pub(super) offset: u64,
    /// The buffer that the host bound, if the kernels see a copy.
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

impl PortBinding {
    pub(super) fn number(&self) -> u64 {
        self.buffer.side().number()
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn block(&self) -> &Arc<MemoryBlock> {
        &self.block
    }
}
