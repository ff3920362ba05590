//! Buffers: plain host memory, made by the SDK, whatever kinds a script says that a device imports.

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

/// Memory kinds that buffers give.
pub(crate) const EXPORTS: MemoryKinds = MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd]);

/// Makes a buffer.
pub(crate) fn create(wanted: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::create(wanted).map(Arc::new)
}

/// Takes over memory of the host without a copy.
pub(crate) fn import(memory: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::import(memory).map(Arc::new)
}
