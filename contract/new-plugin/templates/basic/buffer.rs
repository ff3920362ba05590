//! Buffers: plain host memory, made by the SDK.
//!
//! If your device has memory of its own, replace `polychip_sdk::HostBuffer` by a type of yours. Only
//! its `begin_access` and `end_access` may maintain caches.

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKinds, Result};

/// Memory kinds that ports can be bound to.
pub(crate) const KINDS: MemoryKinds = HostBuffer::KINDS;

/// Makes a buffer in host memory.
pub(crate) fn create(wanted: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::create(wanted).map(Arc::new)
}

/// Makes a buffer over the host's memory, without a copy.
pub(crate) fn import(memory: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::import(memory).map(Arc::new)
}
