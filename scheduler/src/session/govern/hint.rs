//! What an app tells a governed session while it runs.

use std::time::Duration;

use polychip_partitioner::{MilliCelsius, Milliwatts};

/// What an app tells a governed session while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// A person waits for the runs, or nobody does.
    Foreground(bool),
    /// Energy counts above all, as with a low battery.
    BatterySaver(bool),
    /// Time between two runs; none: as often as they are submitted.
    FramePeriod(Option<Duration>),
    /// Longest time of a run that is in time.
    Deadline(Option<Duration>),
    /// Highest power of the devices together.
    MaxPower(Option<Milliwatts>),
    /// Highest temperature of each device.
    MaxTemperature(Option<MilliCelsius>),
    /// Highest temperature of the surface that a hand touches.
    MaxSurfaceTemperature(Option<MilliCelsius>),
    /// How much of the way to severe slowing down is used up some seconds from now, in thousandths: Android's
    /// `AThermal_getThermalHeadroom`. None: as the system says it, where it does.
    ThermalHeadroom(Option<u32>),
    /// The battery's charge in thousandths, and whether it is charged. None: as the system says it, where it does.
    Battery(Option<(u32, bool)>),
}
