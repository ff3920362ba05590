//! Hints from the app to a governed session while it runs.

use std::time::Duration;

use polychip_partitioner::{MilliCelsius, Milliwatts};

/// A hint from the app to a governed session while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Whether a user waits for the runs.
    Foreground(bool),
    /// Puts energy first, as on a low battery.
    BatterySaver(bool),
    /// Time between runs; `None`: as often as they are submitted.
    FramePeriod(Option<Duration>),
    /// Deadline of a run.
    Deadline(Option<Duration>),
    /// Limit on the total power of the devices.
    MaxPower(Option<Milliwatts>),
    /// Limit on the temperature of each device.
    MaxTemperature(Option<MilliCelsius>),
    /// Limit on the temperature of the surface that a hand touches.
    MaxSurfaceTemperature(Option<MilliCelsius>),
    /// Forecast of the thermal headroom some seconds ahead, in thousandths: 1,000 is severe
    /// throttling, as in Android's `AThermal_getThermalHeadroom`. `None`: the system's own value,
    /// if any.
    ThermalHeadroom(Option<u32>),
    /// Battery charge in thousandths, and whether it is charging. `None`: the system's own value,
    /// if any.
    Battery(Option<(u32, bool)>),
}
