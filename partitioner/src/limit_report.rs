//! The limits of a plan, the plan's value at each, and the value of the best plan without limits.
//!
//! Invariants: a line is about one limit; all its figures are in the unit that the limit's name
//! states; an unknown figure is `None`, never a guess. Deliberately not here: planning within limits
//! (`limit`).

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
    /// Time of a run, if it is limited relative to the fastest plan's.
    #[serde(rename = "slowest_ps")]
    Slowest,
    /// Energy of a run.
    #[serde(rename = "energy_budget_nj")]
    EnergyBudget,
    /// Bytes that a device holds.
    #[serde(rename = "memory_bytes")]
    Memory,
    /// Mean power of all devices under runs back to back, including their stated idle power.
    #[serde(rename = "power_mw")]
    Power,
    /// Steady-state temperature of a device under runs back to back.
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

/// One limit and the plan's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitReport {
    /// The limit.
    pub limit: Limit,
    /// The device that it applies to, by index; none if it applies to all together.
    pub device: Option<DeviceIndex>,
    /// The limit's value.
    pub most: i64,
    /// The plan's value; none if a figure for it is unknown.
    pub seen: Option<i64>,
    /// The value in the best plan without limits, if that plan was computed.
    pub free: Option<i64>,
}

impl LimitReport {
    /// Whether the plan exceeds the limit.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.seen.is_some_and(|seen| seen > self.most)
    }

    /// Whether the limit changed the plan: the best plan without limits exceeds it.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.free.is_some_and(|free| free > self.most)
    }

    /// The limited quantity as text.
    pub(crate) fn what(&self, devices: &[String]) -> String {
        let of = self.device.and_then(|device| devices.get(device.index()));
        let of = of.map_or_else(String::new, |device| format!(" of {device}"));
        let what = match self.limit {
            Limit::Deadline => "deadline",
            Limit::Slowest => "time relative to the fastest plan's",
            Limit::EnergyBudget => "energy budget",
            Limit::Memory => "memory",
            Limit::Power => "mean power",
            Limit::Temperature => "temperature",
        };
        format!("{what}{of}")
    }

    /// The limit as text.
    pub(crate) fn most_words(&self) -> String {
        self.limit.words(self.most)
    }

    /// The plan's value as text.
    pub(crate) fn seen_words(&self) -> String {
        self.seen
            .map_or_else(|| "unknown".to_owned(), |seen| self.limit.words(seen))
    }

    /// The whole line as text.
    #[must_use]
    pub fn words(&self, devices: &[String]) -> String {
        let mut words = format!("{}: ", self.what(devices));
        let Some(seen) = self.seen else {
            return words + "unknown, so not enforced";
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
            words += ", no plan found holds it";
        } else if let Some(free) = self.free.filter(|_| self.binds()) {
            words += &format!(", binds: {} without limits", self.limit.words(free));
        }
        words
    }
}

fn thousandths(value: i64) -> String {
    format!("{}.{:03}", value / 1000, value % 1000)
}
