//! What a governor is told: a row of the log each, with its time.
//!
//! Invariants: figures are whole numbers with their unit in the name, so that a row reads back exactly; what a
//! sensor does not say is left out, never invented.

use serde::{Deserialize, Serialize};

use crate::portfolio::{Candidate, Load};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// When, on any clock that does not go back. An observation older than the last one counts as of that one's time.
    pub time_ns: u64,
    /// What.
    pub input: Input,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Sensors of one place were read. Readings may come at any pace; once a second is enough, ten times is better.
    Reading(Reading),
    /// A run ended well.
    Run(FinishedRun),
    /// A device is gone: no run of a candidate that uses it can end well.
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
        /// Charge in thousandths, where it is known.
        charge_permille: Option<u32>,
        /// Power comes from outside.
        charging: bool,
    },
    /// The app is in front of a person, or it is not. Until told, it is.
    Foreground(bool),
    /// How often runs start and how long each may take; none: as often and as long as they like.
    Frames {
        /// Time between two runs.
        period_ns: Option<u64>,
        /// Longest time of a run that counts as in time.
        deadline_ns: Option<u64>,
    },
    /// The policy's limits changed.
    Limits(PolicyLimits),
    /// Plans were made anew, for the same devices: these candidates replace the old ones, the first one runs.
    Replanned(Vec<Candidate>),
    /// Nothing but time: lets the governor look, where no run and no reading comes for long.
    Tick,
}

/// Where a sensor sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A device of the portfolio.
    Device(usize),
    /// The chip package, or the board near it.
    Package,
    /// The surface that a person touches, or the case.
    Skin,
}

/// What the sensors of one place say; what they do not say is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Where.
    pub place: Place,
    /// Temperature in thousandths of a degree Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_mc: Option<i64>,
    /// Power of the place (of the whole package or machine where it is none of a device).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<u64>,
    /// The clock that the device may run at now: a lowered cap, not an idle device's rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_khz: Option<u64>,
    /// The share of time for which the device is busy with others' work, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_permille: Option<u32>,
    /// The device says that it has lowered its clocks for heat or power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
}

impl Reading {
    /// A reading that says nothing yet.
    #[must_use]
    pub fn of(place: Place) -> Self {
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

/// A run that ended with its outputs, or the mean of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedRun {
    /// The candidate that ran.
    pub candidate: usize,
    /// Runs that it is the mean of; left out: one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub runs: u64,
    /// From submit to outputs.
    pub latency_ns: u64,
    /// Energy of the run, where the devices say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_uj: Option<u64>,
    /// It was not in time, by the app's own count. Without it the governor compares with the deadline.
    #[serde(default)]
    pub late: bool,
    /// What the fences say of each device, where they do: busy time and energy. May be empty.
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

/// What must not be exceeded. None: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLimits {
    /// Highest temperature per device, by its index; a list that is too short means no limit for the rest.
    #[serde(default)]
    pub device_mc: Vec<Option<i64>>,
    /// Highest temperature of the package.
    #[serde(default)]
    pub package_mc: Option<i64>,
    /// Highest temperature of the surface.
    #[serde(default)]
    pub skin_mc: Option<i64>,
    /// Highest power of the devices together, averaged over seconds.
    #[serde(default)]
    pub power_mw: Option<u64>,
}

impl PolicyLimits {
    /// The highest temperature of a place.
    #[must_use]
    pub fn temperature(&self, place: Place) -> Option<i64> {
        match place {
            Place::Device(device) => self.device_mc.get(device).copied().flatten(),
            Place::Package => self.package_mc,
            Place::Skin => self.skin_mc,
        }
    }
}
