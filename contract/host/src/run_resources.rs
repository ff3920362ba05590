//! The executable and buffers that a run in flight keeps alive.
//!
//! Invariant: memory of a run that only a reset ended is neither freed nor reused.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::executable::Executable;
use crate::retained_memory;

/// The executable and buffers that a run in flight keeps alive.
pub(crate) struct RunResources {
    pub(crate) executable: Executable,
    pub(crate) buffers: Vec<Option<Arc<Buffer>>>,
}

impl RunResources {
    /// Marks the run as ended: the host may access its buffers again.
    pub(crate) fn end_run(&self) {
        for buffer in self.buffers.iter().flatten() {
            buffer.end_run();
        }
    }

    /// The tensors whose guard bytes the run overwrote, as text.
    pub(crate) fn damage(&self) -> Option<String> {
        let names = &self.executable.0.port_names;
        self.buffers.iter().enumerate().find_map(|(port, buffer)| {
            let words = buffer.as_ref()?.shared.damage()?;
            let name = names.get(port).map_or("", String::as_str);
            Some(words.replace("{}", &format!("tensor {name:?}")))
        })
    }

    /// Keeps the memory until the process ends, because only a reset ended the run: a hung thread
    /// or chip may still write to it.
    pub(crate) fn retain_memory(&self) {
        for buffer in self.buffers.iter().flatten() {
            if buffer.shared.is_mapped() {
                retained_memory::retain(&buffer.shared);
            } else {
                retained_memory::retain(buffer);
            }
        }
    }
}
