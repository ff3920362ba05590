//! Buffers: memory that host and library share behind a descriptor, and plain host memory, which the library is given by
//! address.
//!
//! Invariants:
//! 1. What is shared is one memory: the library maps the descriptor that the host does.
//! 2. On a phone, only memory that the NPU reaches is imported: a copy of the driver's would be hidden.
//!
//! Not here: cache maintenance of dma-bufs and hardware buffers (`polychip_sdk::HostBuffer`).

use std::sync::Arc;

use polychip_sdk::{Buffer, HostBacked, HostBuffer, Memory, MemoryKind, MemoryKinds, Result};

use crate::api;
use crate::shared::Shared;

/// Memory kinds that are imported without a copy.
pub(crate) fn imports(emulated: bool) -> MemoryKinds {
    if emulated {
        MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd, MemoryKind::DmaBuf])
    } else if cfg!(target_os = "android") {
        MemoryKinds::of(&[MemoryKind::DmaBuf, MemoryKind::HardwareBuffer])
    } else {
        MemoryKinds::of(&[MemoryKind::DmaBuf])
    }
}

/// Memory kinds that ports can be bound to: of `Host` and `Memfd`, a driver copies where it must.
pub(crate) const PORTS: MemoryKinds = MemoryKinds::of(&[
    MemoryKind::Host,
    MemoryKind::Memfd,
    MemoryKind::DmaBuf,
    MemoryKind::HardwareBuffer,
]);

/// A buffer.
pub struct NeuronBuffer {
    /// Before the host's memory, which outlives it.
    shared: Option<api::Memory>,
    host: HostBuffer,
}

impl NeuronBuffer {
    /// A buffer of the requested kind.
    ///
    /// # Errors
    /// If memory runs out, or the library does not share it.
    pub(crate) fn create(device: &Shared, wanted: &Memory) -> Result<Arc<NeuronBuffer>> {
        let host = HostBuffer::create(wanted)?;
        let shared = match wanted.kind() {
            MemoryKind::Host => None,
            kind => Some(device.api.memory(&host.export(kind)?)?),
        };
        Ok(Arc::new(NeuronBuffer { shared, host }))
    }

    /// A buffer over the host's memory.
    ///
    /// # Errors
    /// `Unsupported` if the kind is not imported, or the library does not take it.
    pub(crate) fn import(device: &Shared, memory: &Memory) -> Result<Arc<NeuronBuffer>> {
        if !imports(device.api.is_emulated()).contains(memory.kind()) {
            let what = format!("memory of kind {:?} would be copied", memory.kind());
            return Err(polychip_sdk::Error::unsupported(what));
        }
        let host = HostBuffer::import(memory)?;
        let shared = match memory.kind() {
            MemoryKind::Host => None,
            _ => Some(device.api.memory(memory)?),
        };
        Ok(Arc::new(NeuronBuffer { shared, host }))
    }

    /// Memory that a port is bound to.
    pub(crate) fn parts(&self) -> (Option<&api::Memory>, &HostBuffer) {
        (self.shared.as_ref(), &self.host)
    }
}

impl HostBacked for NeuronBuffer {
    fn host(&self) -> &HostBuffer {
        &self.host
    }
}
