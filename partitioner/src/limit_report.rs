//! What limits a plan, where it stands at each of them, and where the best plan without limits would stand.
//!
//! Invariants: a line is about one limit; all its figures are in the unit that the limit's name says; what nobody
//! states is none, never a guess.
//! Deliberately not here: how a plan is found that keeps to limits (`limit`).

use crate::index::DeviceIndex;
use crate::unit::{Energy, MilliCelsius, Milliwatts, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of limit, named with the unit of its figures in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum Limit {
    /// Time of a run.
    #[serde(rename = "deadline_ps")]
    Deadline,
    /// Time of a run against the fastest plan's.
    #[serde(rename = "slowest_ps")]
    Slowest,
    /// Energy of a run.
    #[serde(rename = "energy_budget_nj")]
    EnergyBudget,
    /// Bytes that a device holds.
    #[serde(rename = "memory_bytes")]
    Memory,
    /// Mean power of all devices while runs follow each other, with what they are stated to draw idle.
    #[serde(rename = "power_mw")]
    Power,
    /// Where a device's temperature settles while runs follow each other.
    #[serde(rename = "temperature_mc")]
    Temperature,
}

impl Limit {
    /// A figure of this limit with its unit.
    fn words(self, value: i64) -> String {
        let whole = u64::try_from(value).unwrap_or_default();
        match self {
            Self::Deadline | Self::Slowest => Time::from_picoseconds(whole).to_string(),
            Self::EnergyBudget => Energy::from_nanojoules(whole).to_string(),
            Self::Memory => format!("{whole} bytes"),
            // a power past the range is energy in no time
            Self::Power if value == i64::MAX => "unbounded power".to_owned(),
            Self::Power => Milliwatts::new(whole).to_string(),
            Self::Temperature if value == i64::MAX => "unbounded".to_owned(),
            Self::Temperature => MilliCelsius::new(value).to_string(),
        }
    }
}

/// One limit, and where a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitReport {
    /// The limit.
    pub limit: Limit,
    /// The device that it is about, by index; none where it is about all together.
    pub device: Option<DeviceIndex>,
    /// The largest value allowed.
    pub most: i64,
    /// The plan's value; none where nobody states what it takes to know it.
    pub seen: Option<i64>,
    /// The value of the best plan without limits, where that was sought.
    pub free: Option<i64>,
}

impl LimitReport {
    /// Whether the plan is over the limit.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.seen.is_some_and(|seen| seen > self.most)
    }

    /// Whether the limit changed the plan: the best plan without limits is over it.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.free.is_some_and(|free| free > self.most)
    }

    /// What is limited, in words.
    pub(crate) fn what(&self, devices: &[String]) -> String {
        let of = self.device.and_then(|device| devices.get(device.index()));
        let of = of.map_or_else(String::new, |device| format!(" of {device}"));
        let what = match self.limit {
            Limit::Deadline => "deadline",
            Limit::Slowest => "time beside the fastest plan's",
            Limit::EnergyBudget => "energy budget",
            Limit::Memory => "memory",
            Limit::Power => "mean power",
            Limit::Temperature => "temperature",
        };
        format!("{what}{of}")
    }

    /// The limit in words.
    pub(crate) fn most_words(&self) -> String {
        self.limit.words(self.most)
    }

    /// The plan's value in words.
    pub(crate) fn seen_words(&self) -> String {
        self.seen
            .map_or_else(|| "unknown".to_owned(), |seen| self.limit.words(seen))
    }

    /// The whole line in words.
    #[must_use]
    pub fn words(&self, devices: &[String]) -> String {
        let mut words = format!("{}: ", self.what(devices));
        let Some(seen) = self.seen else {
            return words + "not known, so not limited";
        };
        words += &format!("{} of {}", self.limit.words(seen), self.limit.words(self.most));
        if self.is_exceeded() {
            words += &match (self.limit, seen) {
                (Limit::Power | Limit::Temperature, i64::MAX) => ", missed".to_owned(),
                // a difference of temperatures is no temperature
                (Limit::Temperature, _) => {
                    format!(", missed by {} K", thousandths(seen.saturating_sub(self.most)))
                }
                (limit, _) => format!(", missed by {}", limit.words(seen.saturating_sub(self.most))),
            };
            words += ", no plan was found that holds it";
        } else if let Some(free) = self.free.filter(|_| self.binds()) {
            words += &format!(", binds: {} without limits", self.limit.words(free));
        }
        words
    }
}

fn thousandths(value: i64) -> String {
    format!("{}.{:03}", value / 1000, value % 1000)
}
