//! Device power, and the interval of an energy that is derived from it.
//!
//! Invariants: low ≤ expected ≤ high, of powers and of energies; a sum of intervals is the interval
//! of the sum, and has the weakest provenance of its terms. Deliberately not here: the powers
//! themselves (the scheduler has the table and the measurements).

use crate::unit::{Energy, Milliwatts, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Provenance of an energy or a power, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnergyProvenance {
    /// Measured for this part or model by a sensor of a supply rail, a battery, RAPL or NVML, or as
    /// a difference of readings.
    Measured,
    /// Fitted to measured energies of other runs of the device.
    Fitted,
    /// Stated by the device's plugin or its data sheet.
    Vendor,
    /// Published for the nearest known chip.
    Family,
    /// Typical of a device of its class.
    Default,
}

impl EnergyProvenance {
    /// The word that reports use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Vendor => "vendor",
            Self::Family => "family",
            Self::Default => "default",
        }
    }
}

/// An energy's interval and provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnergyRange {
    /// Lower bound; JSON holds nanojoules.
    #[serde(rename = "low_nj")]
    pub low: Energy,
    /// Expected value; JSON holds nanojoules. A plan with limits on energies uses the upper bound
    /// instead.
    #[serde(rename = "expected_nj")]
    pub expected: Energy,
    /// Upper bound; JSON holds nanojoules.
    #[serde(rename = "high_nj")]
    pub high: Energy,
    /// Its provenance.
    pub provenance: EnergyProvenance,
}

impl EnergyRange {
    /// The interval of an exact energy.
    #[must_use]
    pub fn exact(energy: Energy, provenance: EnergyProvenance) -> Self {
        Self {
            low: energy,
            expected: energy,
            high: energy,
            provenance,
        }
    }

    /// The interval of the sum; `None` on overflow.
    #[must_use]
    pub fn sum(self, other: Self) -> Option<Self> {
        Some(Self {
            low: self.low.checked_add(other.low)?,
            expected: self.expected.checked_add(other.expected)?,
            high: self.high.checked_add(other.high)?,
            provenance: self.provenance.max(other.provenance),
        })
    }

    /// Provenance and interval as text: `vendor, 1.000 mJ to 3.000 mJ`.
    #[must_use]
    pub fn words(&self) -> String {
        if self.low == self.high {
            self.provenance.word().to_owned()
        } else {
            format!("{}, {} to {}", self.provenance.word(), self.low, self.high)
        }
    }
}

/// The power of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Idle power in milliwatts; zero if unknown. The energy of a run excludes it.
    #[serde(rename = "idle_mw")]
    pub idle: Milliwatts,
    /// Expected power above idle while it computes, in milliwatts.
    #[serde(rename = "active_mw")]
    pub active: Milliwatts,
    /// Lower bound of the active power, in milliwatts.
    #[serde(rename = "low_mw")]
    pub low: Milliwatts,
    /// Upper bound of the active power, in milliwatts.
    #[serde(rename = "high_mw")]
    pub high: Milliwatts,
    /// Its provenance.
    pub provenance: EnergyProvenance,
}

impl Power {
    /// An exact active power.
    #[must_use]
    pub fn exact(active: Milliwatts, provenance: EnergyProvenance) -> Self {
        Self {
            idle: Milliwatts::default(),
            active,
            low: active,
            high: active,
            provenance,
        }
    }

    /// The energy over a time with its interval; `None` on overflow.
    #[must_use]
    pub fn over(self, time: Time) -> Option<(Energy, EnergyRange)> {
        let range = EnergyRange {
            low: self.low.over(time)?,
            expected: self.active.over(time)?,
            high: self.high.over(time)?,
            provenance: self.provenance,
        };
        Some((range.expected, range))
    }
}

/// A power that somebody states.
impl From<Milliwatts> for Power {
    fn from(active: Milliwatts) -> Self {
        Self::exact(active, EnergyProvenance::Vendor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_interval_is_the_interval_of_sums() {
        let power = Power {
            low: Milliwatts::new(500),
            high: Milliwatts::new(4_000),
            provenance: EnergyProvenance::Default,
            ..Power::from(Milliwatts::new(2_000))
        };
        // a watt for a millisecond is a millijoule
        let (energy, range) = power.over(Time::from_nanoseconds(1_000_000)).unwrap();
        assert_eq!(energy.microjoules(), 2_000);
        let measured = EnergyRange::exact(Energy::from_microjoules(100), EnergyProvenance::Measured);
        let sum = range.sum(measured).unwrap();
        assert_eq!((sum.low.microjoules(), sum.high.microjoules()), (600, 4_100));
        assert_eq!(sum.provenance, EnergyProvenance::Default);
        assert_eq!(sum.words(), "default, 600.000 µJ to 4.100 mJ");
        assert_eq!(measured.words(), "measured");
        assert_eq!(
            range.sum(EnergyRange::exact(
                Energy::from_nanojoules(u64::MAX),
                sum.provenance
            )),
            None
        );
    }
}
