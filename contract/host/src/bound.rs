//! What a run in flight keeps alive: its executable and its buffers.
//!
//! Invariant: memory of a run that only a reset ended is neither freed nor used again.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::executable::Executable;
use crate::kept;

/// What a run in flight keeps alive.
pub(crate) struct Bound {
    pub(crate) executable: Executable,
    pub(crate) buffers: Vec<Option<Arc<Buffer>>>,
}

impl Bound {
    /// The run has ended: the host may access its buffers again.
    pub(crate) fn end_run(&self) {
        for buffer in self.buffers.iter().flatten() {
            buffer.end_run();
        }
    }

    /// Only a reset ended the run: a thread or a chip that came not back to the plugin may still write, so
    /// the memory is neither freed nor used again.
    pub(crate) fn keep_memory(&self) {
        for buffer in self.buffers.iter().flatten() {
            if buffer.shared.is_mapped() {
                kept::keep(&buffer.shared);
            } else {
                kept::keep(buffer);
            }
        }
    }
}
