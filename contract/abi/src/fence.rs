//! Fences: the end of a run, and what the device measured of it.

use crate::sized::sized;

/// The end of one run. Signals once, with the run's status.
pub struct polychip_fence {
    _private: [u8; 0],
}

/// `start_ns` and `end_ns` hold values.
pub const POLYCHIP_TIMING_SPAN: u32 = 1;
/// `queued_ns` holds a value.
pub const POLYCHIP_TIMING_QUEUED: u32 = 2;
/// `energy_uj` holds a value.
pub const POLYCHIP_TIMING_ENERGY: u32 = 4;
/// `copied_bytes` holds a value.
pub const POLYCHIP_TIMING_COPIED: u32 = 8;

/// Measurements of a run by its device. Times are on the host's clock.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_timing {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Bits `POLYCHIP_TIMING_*` of the fields that hold a value.
    pub valid: u32,
    /// Time at which the device queued the run, in nanoseconds.
    pub queued_ns: u64,
    /// Time at which the device started computing, in nanoseconds.
    pub start_ns: u64,
    /// Time at which the device finished, in nanoseconds.
    pub end_ns: u64,
    /// Energy of the run, in microjoules.
    pub energy_uj: u64,
    /// Bytes of ports that the plugin or its library copied or converted for the run instead of
    /// using them in place. Copies between the host's and the device's side of a buffer count
    /// towards the next run that binds it.
    pub copied_bytes: u64,
}

sized!(polychip_timing);
