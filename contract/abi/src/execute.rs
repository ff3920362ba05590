//! One run of an executable.
//!
//! Invariants:
//! 1. `execute` returns without waiting for the run; the fence tells the end.
//! 2. Bound buffers and the executable outlive the fence.
//! 3. After a hang, the host owns no buffer that the device may still write until `device_reset`.

use crate::buffer::polychip_buffer;
use crate::fence::polychip_fence;
use crate::sized::sized;

/// A frame that someone waits for.
pub const POLYCHIP_PRIORITY_URGENT: u32 = 2;
/// The usual.
pub const POLYCHIP_PRIORITY_NORMAL: u32 = 1;
/// Work that nobody waits for.
pub const POLYCHIP_PRIORITY_BATCH: u32 = 0;

/// Since 1.2. The device measures every step of the run (`fence_steps`), where it can.
pub const POLYCHIP_SUBMIT_STEPS: u32 = 1;

/// No deadline.
pub const POLYCHIP_NO_DEADLINE: u64 = u64::MAX;

/// A buffer for a port.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_binding {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// Number of the port.
    pub port: u32,
    /// Buffer of the same device.
    pub buffer: *mut polychip_buffer,
    /// Where the tensor starts in the buffer, in bytes: a multiple of the port's alignment.
    pub offset: u64,
    /// Bytes from `offset` that belong to the tensor: inside the buffer, and at least the port's `bytes`
    /// (or those of `dims`, where they are given).
    pub bytes: u64,
    /// Actual extents of an input whose port states upper bounds, else null.
    pub dims: *const i64,
    /// Number of extents at `dims`.
    pub rank: u64,
}

/// A run.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_submit {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_PRIORITY_*`: a hint for the order of runs.
    pub priority: u32,
    /// One binding for each port, in any order. What is bound to an output overlaps no other port's
    /// memory, but that of `state_port`; inputs may overlap.
    pub bindings: *const polychip_binding,
    /// Number of bindings.
    pub binding_count: u64,
    /// Bytes from one binding to the next.
    pub binding_stride: u64,
    /// Fences of the same plugin instance (or imported by it) that must signal first. The plugin takes
    /// what it needs of them before `execute` returns; the host may destroy them then. A run that waits
    /// for one that failed computes nothing and ends with that status.
    pub waits: *const *mut polychip_fence,
    /// Number of fences to wait for.
    pub wait_count: u64,
    /// When the result is worthless, on the host's clock, in nanoseconds; or `POLYCHIP_NO_DEADLINE`. A
    /// plugin that drops a run for it ends it as `POLYCHIP_STATUS_CANCELLED`.
    pub deadline_ns: u64,
    /// Since 1.2. Bits `POLYCHIP_SUBMIT_*`.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

sized!(polychip_binding, polychip_submit);
