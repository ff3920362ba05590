//! Buffers: plain host memory, made by the SDK.
//!
//! Not here: the buffer itself (`polychip_sdk::HostBuffer`). A device with memory of its own has its own type
//! here, whose `begin_access` and `end_access` keep the caches right: they are the only place for that.

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKinds, Result};

/// Memory kinds that ports can be bound to.
pub(crate) const KINDS: MemoryKinds = HostBuffer::KINDS;

/// Makes a buffer.
pub(crate) fn create(wanted: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::create(wanted).map(Arc::new)
}

/// Imports the host's memory without a copy.
pub(crate) fn import(memory: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::import(memory).map(Arc::new)
}
