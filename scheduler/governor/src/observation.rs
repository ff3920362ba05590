//! The governor's inputs. Each is one line of the log and carries its time.
//!
//! Invariants: figures are whole numbers with their unit in the name, so that a row reads back
//! exactly; a figure without a sensor is absent, never invented.

use serde::{Deserialize, Serialize};

use crate::portfolio::{Candidate, Load};

/// An input to the governor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Time on any monotonic clock, in nanoseconds. An observation older than the last one gets the
    /// last one's time.
    pub time_ns: u64,
    /// The input.
    pub input: Input,
}

/// The kind of an observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A sensor reading of one place. Any rate is allowed; one per second is enough, ten are
    /// better.
    Reading(Reading),
    /// A run completed.
    Run(FinishedRun),
    /// A device is lost: runs of candidates that use it cannot complete.
    Lost {
        /// The device.
        device: usize,
    },
    /// A lost device works again.
    Back {
        /// The device.
        device: usize,
    },
    /// The battery, on a machine that has one.
    Battery {
        /// Charge in thousandths, if known.
        charge_permille: Option<u32>,
        /// Whether it is charging.
        charging: bool,
    },
    /// Whether the app is in the foreground (initially it is).
    Foreground(bool),
    /// The frame period and deadline; each is optional.
    Frames {
        /// Time between runs.
        period_ns: Option<u64>,
        /// Deadline of a run.
        deadline_ns: Option<u64>,
    },
    /// The policy's limits changed.
    Limits(PolicyLimits),
    /// New plans for the same devices: these candidates replace the old ones, and the first one
    /// runs.
    Replanned(Vec<Candidate>),
    /// Only time passed: lets the governor compare candidates when no runs or readings arrive.
    Tick,
}

/// The place of a sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SensorLocation {
    /// A device of the portfolio.
    Device(usize),
    /// The chip package, or the board near it.
    Package,
    /// The surface that a user touches, or the case.
    Skin,
}

/// The sensor readings of one place; `None` where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The place.
    pub place: SensorLocation,
    /// Temperature in thousandths of a degree Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_mc: Option<i64>,
    /// Power of the place (of the whole package or machine if the place is not a device).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<u64>,
    /// Maximum currently allowed clock: a lowered cap, not an idle clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_khz: Option<u64>,
    /// Share of time that the device is busy with other work, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_permille: Option<u32>,
    /// Whether the device reports lowered clocks for heat or power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
}

impl Reading {
    /// An empty reading.
    #[must_use]
    pub fn of(place: SensorLocation) -> Self {
        Self {
            place,
            temperature_mc: None,
            power_mw: None,
            frequency_khz: None,
            others_permille: None,
            throttled: None,
        }
    }
}

/// A completed run, or the mean of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedRun {
    /// The candidate that ran.
    pub candidate: usize,
    /// Number of runs in the mean; default 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub runs: u64,
    /// Time from submit to outputs.
    pub latency_ns: u64,
    /// Energy of the run, if the devices report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_uj: Option<u64>,
    /// Whether the app counted the run as late. If false, the governor itself compares the latency
    /// with the deadline.
    #[serde(default)]
    pub late: bool,
    /// Busy time and energy by device, as the fences report them. May be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(runs: &u64) -> bool {
    *runs == 1
}

/// Temperature and power limits; an absent limit does not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLimits {
    /// Temperature limit per device, by index; missing entries mean no limit.
    #[serde(default)]
    pub device_mc: Vec<Option<i64>>,
    /// Temperature limit of the package.
    #[serde(default)]
    pub package_mc: Option<i64>,
    /// Temperature limit of the surface.
    #[serde(default)]
    pub skin_mc: Option<i64>,
    /// Limit on the total power of the devices, averaged over seconds.
    #[serde(default)]
    pub power_mw: Option<u64>,
}

impl PolicyLimits {
    /// The temperature limit of a place.
    #[must_use]
    pub fn temperature(&self, place: SensorLocation) -> Option<i64> {
        match place {
            SensorLocation::Device(device) => self.device_mc.get(device).copied().flatten(),
            SensorLocation::Package => self.package_mc,
            SensorLocation::Skin => self.skin_mc,
        }
    }
}
