//! A launch: a kernel made ready, and the memory that it binds.

use std::sync::Arc;

use super::memory::Piece;
use super::pipeline::Pipeline;

/// Memory that a launch binds.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) piece: &'a Arc<Piece>,
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
    pub(crate) places: Vec<Place<'a>>,
    pub(crate) groups: [u32; 3],
}
