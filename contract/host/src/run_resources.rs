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
