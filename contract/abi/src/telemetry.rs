//! Sensor readings of a device, with a validity mask.

use crate::sized::sized;

/// `temperature_mc` holds a value.
pub const POLYCHIP_TELEMETRY_TEMPERATURE: u32 = 1;
/// `power_mw` holds a value.
pub const POLYCHIP_TELEMETRY_POWER: u32 = 2;
/// `energy_uj` holds a value.
pub const POLYCHIP_TELEMETRY_ENERGY: u32 = 4;
/// `frequency_khz` holds a value.
pub const POLYCHIP_TELEMETRY_FREQUENCY: u32 = 8;
/// `load_permille` holds a value.
pub const POLYCHIP_TELEMETRY_LOAD: u32 = 16;
/// `throttle` holds a value.
pub const POLYCHIP_TELEMETRY_THROTTLE: u32 = 32;
/// `memory_used_bytes` holds a value.
pub const POLYCHIP_TELEMETRY_MEMORY: u32 = 64;

/// Clocks are lowered because of heat.
pub const POLYCHIP_THROTTLE_HEAT: u32 = 1;
/// Clocks are lowered because of a power limit.
pub const POLYCHIP_THROTTLE_POWER: u32 = 2;

/// Current sensor readings of a device.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_telemetry {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Bits `POLYCHIP_TELEMETRY_*` of the fields that hold a value.
    pub valid: u32,
    /// Time at which the sensors were read, on the host's clock, in nanoseconds.
    pub time_ns: u64,
    /// Temperature, in thousandths of a degree Celsius.
    pub temperature_mc: i64,
    /// Power, in milliwatts.
    pub power_mw: u64,
    /// Energy since a fixed point in time, in microjoules.
    pub energy_uj: u64,
    /// Clock, in kilohertz.
    pub frequency_khz: u64,
    /// Memory in use, in bytes.
    pub memory_used_bytes: u64,
    /// Share of time spent computing, in thousandths.
    pub load_permille: u32,
    /// Bits `POLYCHIP_THROTTLE_*`.
    pub throttle: u32,
}

sized!(polychip_telemetry);
