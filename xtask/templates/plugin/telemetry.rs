//! What the device measures. It has no sensors.
//!
//! Not here: spans of runs (`polychip_sdk::Run` takes them on the host's clock, which is virtual in tests), and until
//! there are sensors `Device::telemetry`, which `Offers::telemetry` announces. A sensor that is missing is `None`,
//! never 0.

/// Multiply-adds of f32 per second: what the planner prices by until costs are measured.
pub(crate) const PEAK_MACS_PER_S: u64 = 1_000_000_000;

/// Bytes moved per second, as above; estimates go by it.
pub(crate) const PEAK_BYTES_PER_S: u64 = 1_000_000_000;
