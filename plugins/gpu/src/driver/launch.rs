//! A launch: a kernel made ready, and the memory that it binds.

use std::sync::Arc;

use super::memory::MemoryBlock;
use super::pipeline::Pipeline;

/// The memory of one binding of a launch.
#[derive(Clone, Copy)]
pub(crate) struct BufferBinding<'a> {
    pub(crate) block: &'a Arc<MemoryBlock>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Whether the kernel writes there.
    pub(crate) writes: bool,
}

/// One launch.
#[derive(Clone)]
pub(crate) struct Launch<'a> {
    pub(crate) pipeline: &'a Arc<Pipeline>,
    /// By binding.
    pub(crate) bindings: Vec<BufferBinding<'a>>,
    pub(crate) groups: [u32; 3],
}
