//! Buffers: plain host memory, made by the SDK; the CPU binds it as it is.
//!
//! Not here: the buffer itself (`polychip_sdk::HostBuffer`), which host pointers and memory files become
//! without a copy.

use std::sync::Arc;

use polychip_sdk::{HostBuffer, Memory, MemoryKinds, Result};

/// Memory kinds that the CPU computes on.
pub(crate) const KINDS: MemoryKinds = HostBuffer::KINDS;

/// Makes a buffer.
pub(crate) fn create(wanted: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::create(wanted).map(Arc::new)
}

/// Takes over memory of the host without a copy.
pub(crate) fn import(memory: &Memory) -> Result<Arc<HostBuffer>> {
    HostBuffer::import(memory).map(Arc::new)
}
