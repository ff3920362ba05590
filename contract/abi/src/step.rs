//! Steps of a run, and the time of each.

use crate::sized::sized;
use crate::span::polychip_text;

/// A plain loop computes the step, because there is no kernel.
pub const POLYCHIP_STEP_REFERENCE: u32 = 1;
/// `operations` holds a value.
pub const POLYCHIP_STEP_OPERATIONS: u32 = 2;
/// `moved_bytes` holds a value.
pub const POLYCHIP_STEP_BYTES: u32 = 4;

/// One step of a run: a kernel or a plain loop that computes one node or several fused nodes. `name`
/// and `nodes` are valid as long as the fence that reported the step. Since 1.2.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct polychip_step {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Bits `POLYCHIP_STEP_*`.
    pub flags: u32,
    /// The plugin's name of the kernel or loop.
    pub name: polychip_text,
    /// The computed nodes, as indices in the part's graph; none if the step serves the whole part.
    pub nodes: *const u32,
    /// Number of nodes.
    pub node_count: u64,
    /// Time of the step, in nanoseconds.
    pub time_ns: u64,
    /// Arithmetic operations; a multiply-add counts as two.
    pub operations: u64,
    /// Bytes read and written.
    pub moved_bytes: u64,
}

impl Default for polychip_step {
    fn default() -> Self {
        Self {
            struct_size: 0,
            flags: 0,
            name: polychip_text::default(),
            nodes: std::ptr::null(),
            node_count: 0,
            time_ns: 0,
            operations: 0,
            moved_bytes: 0,
        }
    }
}

sized!(polychip_step);
