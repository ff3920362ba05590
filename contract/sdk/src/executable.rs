//! A loaded part.

use std::sync::Arc;

use crate::{Buffer, Fence, Port, Result, Submit};

/// What a loaded part holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExecutableInfo {
    /// Device memory of constants and code, in bytes.
    pub constant_bytes: u64,
    /// Device memory of intermediate tensors, in bytes.
    pub arena_bytes: u64,
}

/// A loaded part, ready to run.
pub trait Executable: Send + Sync + Sized + 'static {
    /// Memory that its ports are bound to.
    type Buffer: Buffer;
    /// The end of a run.
    type Fence: Fence;

    /// What it holds.
    fn info(&self) -> ExecutableInfo;

    /// Its ports: inputs in the graph's order, then outputs. Read once, when it is loaded.
    fn ports(&self) -> &[Port];

    /// Starts a run and gives its fence. Does not wait for it, and does not allocate when warm:
    /// [`crate::Run::start`] does that for a part that computes in a call ([`crate::Compute`]). The submit was
    /// checked: one binding per port, in the order of ports, each inside its buffer and large enough.
    ///
    /// # Errors
    /// Where the run cannot start. A run that starts reports through its fence.
    fn execute(self: &Arc<Self>, submit: &Submit<'_, Self::Buffer, Self::Fence>) -> Result<Arc<Self::Fence>>;
}
