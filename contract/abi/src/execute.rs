//! One run of an executable.
//!
//! Invariants:
//! 1. `execute` returns without waiting for the run; the fence signals its end.
//! 2. Bound buffers and the executable outlive the fence.
//! 3. After a hang, until `device_reset`, the host reuses no buffer that the device may still
//!    write.

use crate::buffer::polychip_buffer;
use crate::fence::polychip_fence;
use crate::sized::sized;

/// Latency-critical work, such as a frame that a user waits for.
pub const POLYCHIP_PRIORITY_URGENT: u32 = 2;
/// Normal work.
pub const POLYCHIP_PRIORITY_NORMAL: u32 = 1;
/// Background work.
pub const POLYCHIP_PRIORITY_BATCH: u32 = 0;

/// Measure every step of the run (`fence_steps`), if the device can. Since 1.2.
pub const POLYCHIP_SUBMIT_STEPS: u32 = 1;

/// No deadline.
pub const POLYCHIP_NO_DEADLINE: u64 = u64::MAX;

/// A buffer bound to a port.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_binding {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// Port number.
    pub port: u32,
    /// Buffer of the same device.
    pub buffer: *mut polychip_buffer,
    /// Start of the tensor in the buffer, in bytes: a multiple of the port's alignment.
    pub offset: u64,
    /// Number of bytes from `offset` on that belong to the tensor. They lie inside the buffer, and
    /// are at least the port's `bytes`, or those of `dims` if it is given.
    pub bytes: u64,
    /// Actual extents of an input whose port states upper bounds, otherwise null.
    pub dims: *const i64,
    /// Number of extents at `dims`.
    pub rank: u64,
}

/// A run to start.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_submit {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_PRIORITY_*`: a hint for the order of runs.
    pub priority: u32,
    /// One binding for each port, in any order. The memory of an output overlaps that of no other
    /// port, except its `state_port`. The memory of inputs may overlap.
    pub bindings: *const polychip_binding,
    /// Number of bindings.
    pub binding_count: u64,
    /// Bytes from one binding to the next.
    pub binding_stride: u64,
    /// Fences of the same plugin instance, or imported by it, that must signal before the run
    /// starts. The plugin retains what it needs of them before `execute` returns; the host may then
    /// destroy them. If a fence signals a failure, the run computes nothing and ends with that
    /// status.
    pub waits: *const *mut polychip_fence,
    /// Number of fences in `waits`.
    pub wait_count: u64,
    /// Time after which the result is worthless, on the host's clock, in nanoseconds; or
    /// `POLYCHIP_NO_DEADLINE`. A plugin that drops a run because of its deadline ends it with
    /// `POLYCHIP_STATUS_CANCELLED`.
    pub deadline_ns: u64,
    /// Bits `POLYCHIP_SUBMIT_*`. Since 1.2.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(polychip_binding, polychip_submit);
