//! The key of a row of measured parts, and its measurements.

use polychip_partitioner::Time;

/// Number of measurements kept per device, part and operating point.
pub const KEPT: u32 = 101;
/// The key of a row of measured parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartKey<'a> {
    /// Identity of the device (`Device::identity`): plugin, version, build, vendor, device, chip,
    /// driver and settings.
    pub device: &'a str,
    /// Structure fingerprint of the part.
    pub fingerprint: &'a [u8; 32],
    /// Name of the operating point; empty for the default.
    pub operating_point: &'a str,
}

/// One measured run of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement {
    /// Time from the start to the end of the run on the device.
    pub time: Time,
    /// Energy of the run in microjoules, if the device measures it.
    pub energy_uj: Option<u64>,
}
