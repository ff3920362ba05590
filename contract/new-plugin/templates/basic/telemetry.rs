//! Rates of the device. It has no sensors.
//!
//! To add sensors, set `Offers::telemetry` and implement `Device::telemetry`. A missing sensor is
//! `None`, never 0.
//!
//! Not here: times of runs, which `polychip_sdk::Run` measures on the host's clock.

/// Multiply-adds of f32 per second. The planner uses the rates until costs are measured.
pub(crate) const PEAK_MACS_PER_S: u64 = 1_000_000_000;

/// Bytes read and written per second, for the planner and for `estimate`.
pub(crate) const PEAK_BYTES_PER_S: u64 = 1_000_000_000;
