//! A loaded part.

use std::sync::Arc;

use crate::{Buffer, Fence, Port, Result, Submit};

/// Memory of a loaded part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecutableInfo {
    /// Device memory for constants and code, in bytes.
    pub constant_bytes: u64,
    /// Device memory for intermediate tensors, in bytes.
    pub arena_bytes: u64,
}

/// A loaded part, ready to run. Methods are called from several threads at once.
pub trait Executable: Send + Sync + Sized + 'static {
    /// Memory bound to its ports.
    type Buffer: Buffer;
    /// The end of a run.
    type Fence: Fence;

    /// Its memory.
    fn info(&self) -> ExecutableInfo;

    /// Its ports: inputs in the graph's order, then outputs. Read once, when the part is loaded.
    fn ports(&self) -> &[Port];

    /// Starts a run and returns its fence without waiting for the run. Must not allocate when warm.
    /// [`crate::Run::start`] implements it for a part whose computation is a blocking call
    /// ([`crate::Compute`]). `submit` is already checked: one binding per port, in port order, each
    /// inside its buffer and large enough.
    ///
    /// # Errors
    /// The run cannot start. A run that starts reports through its fence.
    fn execute(self: &Arc<Self>, submit: &Submit<'_, Self::Buffer, Self::Fence>) -> Result<Arc<Self::Fence>>;
}
