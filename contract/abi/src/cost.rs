//! Cost of a part, with a validity mask: a field counts only if its bit is set.

use crate::sized::sized;

/// `time_ns` holds a value.
pub const POLYCHIP_COST_TIME: u32 = 1;
/// `launch_ns` holds a value.
pub const POLYCHIP_COST_LAUNCH: u32 = 2;
/// `energy_uj` holds a value.
pub const POLYCHIP_COST_ENERGY: u32 = 4;
/// `power_mw` holds a value.
pub const POLYCHIP_COST_POWER: u32 = 8;
/// `memory_bytes` holds a value.
pub const POLYCHIP_COST_MEMORY: u32 = 16;
/// `error_permille` holds a value.
pub const POLYCHIP_COST_ERROR: u32 = 32;

/// The figures come from an emulated device.
pub const POLYCHIP_COST_EMULATED: u32 = 1;

/// A plugin's estimate of the cost of a part.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_cost {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Bits `POLYCHIP_COST_*` of the fields that hold a value.
    pub valid: u32,
    /// Bits `POLYCHIP_COST_EMULATED`.
    pub flags: u32,
    /// Expected relative error of `time_ns`, in thousandths.
    pub error_permille: u32,
    /// Time of one run without launch, in nanoseconds.
    pub time_ns: u64,
    /// Time to start one run, independent of its size, in nanoseconds.
    pub launch_ns: u64,
    /// Energy of one run, in microjoules.
    pub energy_uj: u64,
    /// Mean power during the run, in milliwatts.
    pub power_mw: u64,
    /// Device memory of the loaded part, in bytes.
    pub memory_bytes: u64,
}

sized!(polychip_cost);
