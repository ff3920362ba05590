//! Buffers: plain host memory from the SDK, whatever memory kinds a script lets a device import.

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

/// Memory kinds that buffers give.
pub(crate) const EXPORTS: MemoryKinds = MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd]);

/// Makes a buffer.
pub(crate) fn create(wanted: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::create(wanted).map(Arc::new)
}

/// Imports the host's memory without a copy.
pub(crate) fn import(memory: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::import(memory).map(Arc::new)
}
