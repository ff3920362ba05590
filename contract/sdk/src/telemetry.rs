//! Sensor readings of a device.

use polychip_abi as abi;

/// Reasons for lowered clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttle {
    /// Because of heat.
    pub heat: bool,
    /// Because of a power limit.
    pub power: bool,
}

/// Sensor readings; `None` for a missing sensor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// Time at which the sensors were read, on the host's clock, in nanoseconds.
    pub time_ns: u64,
    /// Temperature, in thousandths of a degree Celsius.
    pub temperature_mc: Option<i64>,
    /// Power, in milliwatts.
    pub power_mw: Option<u64>,
    /// Energy since a fixed point in time, in microjoules.
    pub energy_uj: Option<u64>,
    /// Clock, in kilohertz.
    pub frequency_khz: Option<u64>,
    /// Memory in use, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// Share of time spent computing, in thousandths.
    pub load_permille: Option<u32>,
    /// Reasons for lowered clocks.
    pub throttle: Option<Throttle>,
}

impl Telemetry {
    pub(crate) fn record(&self) -> abi::polychip_telemetry {
        let bit = |present: bool, bit: u32| if present { bit } else { 0 };
        abi::polychip_telemetry {
            valid: bit(self.temperature_mc.is_some(), abi::POLYCHIP_TELEMETRY_TEMPERATURE)
                | bit(self.power_mw.is_some(), abi::POLYCHIP_TELEMETRY_POWER)
                | bit(self.energy_uj.is_some(), abi::POLYCHIP_TELEMETRY_ENERGY)
                | bit(self.frequency_khz.is_some(), abi::POLYCHIP_TELEMETRY_FREQUENCY)
                | bit(self.memory_used_bytes.is_some(), abi::POLYCHIP_TELEMETRY_MEMORY)
                | bit(self.load_permille.is_some(), abi::POLYCHIP_TELEMETRY_LOAD)
                | bit(self.throttle.is_some(), abi::POLYCHIP_TELEMETRY_THROTTLE),
            time_ns: self.time_ns,
            temperature_mc: self.temperature_mc.unwrap_or(0),
            power_mw: self.power_mw.unwrap_or(0),
            energy_uj: self.energy_uj.unwrap_or(0),
            frequency_khz: self.frequency_khz.unwrap_or(0),
            memory_used_bytes: self.memory_used_bytes.unwrap_or(0),
            load_permille: self.load_permille.unwrap_or(0),
            throttle: self.throttle.map_or(0, |throttle| {
                bit(throttle.heat, abi::POLYCHIP_THROTTLE_HEAT)
                    | bit(throttle.power, abi::POLYCHIP_THROTTLE_POWER)
            }),
            ..<abi::polychip_telemetry as abi::Sized>::sized()
        }
    }
}
