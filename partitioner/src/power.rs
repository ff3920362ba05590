//! What a device draws, and how far an energy that is made of it may be from the truth.
//!
//! Invariants: low ≤ expected ≤ high, of powers and of energies; a sum of intervals is the interval of the sum, and
//! rests on the weakest of its terms.
//! Deliberately not here: the powers themselves (the scheduler has the table, and what was measured).

use crate::unit::{Energy, Milliwatts, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an energy or a power comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnergyProvenance {
    /// Measured for this part or model: by a rail, a battery, RAPL, NVML, or as a difference of such.
    Measured,
    /// Fitted to measured energies of other runs of the device.
    Fitted,
    /// Stated by the device's plugin or its data sheet.
    Vendor,
    /// Published of the nearest known chip.
    Family,
    /// That of a device of its class.
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

/// The interval of an energy, and where the energy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnergyRange {
    /// The least that it may be; JSON holds nanojoules.
    #[serde(rename = "low_nj")]
    pub low: Energy,
    /// What is expected of it; JSON holds nanojoules. A plan whose limits are held against energies counts the most.
    #[serde(rename = "expected_nj")]
    pub expected: Energy,
    /// The most that it may be; JSON holds nanojoules.
    #[serde(rename = "high_nj")]
    pub high: Energy,
    /// Where it comes from.
    pub provenance: EnergyProvenance,
}

impl EnergyRange {
    /// The interval of an energy that is taken as it is.
    #[must_use]
    pub fn exact(energy: Energy, provenance: EnergyProvenance) -> Self {
        Self {
            low: energy,
            expected: energy,
            high: energy,
            provenance,
        }
    }

    /// The interval of the sum; none where it does not fit.
    #[must_use]
    pub fn sum(self, other: Self) -> Option<Self> {
        Some(Self {
            low: self.low.checked_add(other.low)?,
            expected: self.expected.checked_add(other.expected)?,
            high: self.high.checked_add(other.high)?,
            provenance: self.provenance.max(other.provenance),
        })
    }

    /// How far it reaches with where it comes from: `vendor, 1.000 mJ to 3.000 mJ`.
    #[must_use]
    pub fn words(&self) -> String {
        match self.low == self.high {
            true => self.provenance.word().to_owned(),
            false => format!("{}, {} to {}", self.provenance.word(), self.low, self.high),
        }
    }
}

/// What a device draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// What it draws at rest, in milliwatts; zero where nobody says. No energy of a run counts it.
    #[serde(rename = "idle_mw")]
    pub idle: Milliwatts,
    /// What it is expected to draw beyond that while it computes, in milliwatts.
    #[serde(rename = "active_mw")]
    pub active: Milliwatts,
    /// The least that this may be, in milliwatts.
    #[serde(rename = "low_mw")]
    pub low: Milliwatts,
    /// The most that this may be, in milliwatts.
    #[serde(rename = "high_mw")]
    pub high: Milliwatts,
    /// Where it comes from.
    pub provenance: EnergyProvenance,
}

impl Power {
    /// A power that is taken as it is.
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

    /// The energy over a time with its interval; none where it does not fit.
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
    fn a_sum_reaches_as_far_as_its_terms_and_rests_on_the_weakest() {
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
