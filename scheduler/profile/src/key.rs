//! What identifies a row of measured parts, and what a row holds.

use polychip_partitioner::Time;

/// Measurements kept per device, part and operating point.
pub const KEPT: u32 = 101;
/// What identifies a row of measured parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartKey<'a> {
    /// Identity of the device: plugin, build, device and driver.
    pub device: &'a str,
    /// Structure fingerprint of the part.
    pub fingerprint: &'a [u8; 32],
    /// Name of the operating point; empty where none was set.
    pub operating_point: &'a str,
}

/// One measured run of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measurement {
    /// Time from the start to the end of the run on the device.
    pub time: Time,
    /// Energy of the run in microjoules, where the device measures it.
    pub energy_uj: Option<u64>,
}
