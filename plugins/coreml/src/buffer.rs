//! Buffers: plain host memory, which the processor, the GPU and the Neural Engine of Apple's chips share.
//!
//! Not here: the buffer itself (`polychip_sdk::HostBuffer`), arrays of Core ML over it (`exec`).

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKinds, Result};

/// Memory kinds that ports can be bound to.
pub(crate) const KINDS: MemoryKinds = HostBuffer::KINDS;

/// Makes a buffer.
pub(crate) fn create(wanted: &Memory) -> Result<Arc<HostBuffer>> {
    Ok(Arc::new(HostBuffer::create(wanted)?))
}

/// Imports the host's memory without a copy.
pub(crate) fn import(memory: &Memory) -> Result<Arc<HostBuffer>> {
    Ok(Arc::new(HostBuffer::import(memory)?))
}
