//! Times, energies, powers and temperatures as exact integers, so that sums are equal on every
//! host.
//!
//! Invariants: a [`Time`] counts whole picoseconds and an [`Energy`] whole nanojoules, so a
//! thousandth of the named unit is never lost; arithmetic that could overflow is checked.
//! Deliberately not here: floating point, except in text and in degrees as people write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! quantity {
    ($name:ident, $fine:ident, $whole:ident, $from_fine:ident, $from_whole:ident, $doc:literal, $fine_doc:literal, $scale:expr) => {
        #[doc = $doc]
        #[derive(
            Clone,
            Copy,
            Debug,
            Default,
            PartialEq,
            Eq,
            PartialOrd,
            Ord,
            Hash,
            Serialize,
            Deserialize,
            JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);

            #[doc = concat!("From ", $fine_doc, ".")]
            #[must_use]
            pub const fn $from_fine(value: u64) -> Self {
                Self(value)
            }

            /// From whole units; a value past the range becomes the largest one.
            #[must_use]
            pub const fn $from_whole(value: u64) -> Self {
                Self(value.saturating_mul(1000))
            }

            #[doc = concat!("The value in ", $fine_doc, ".")]
            #[must_use]
            pub const fn $fine(self) -> u64 {
                self.0
            }

            /// The value in whole units, rounded to the nearest.
            #[must_use]
            pub const fn $whole(self) -> u64 {
                self.0 / 1000 + (self.0 % 1000 >= 500) as u64
            }

            /// The sum; `None` on overflow.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// The difference, or zero if `other` is larger.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&scaled(self.0, &$scale))
            }
        }
    };
}

quantity!(
    Time,
    picoseconds,
    nanoseconds,
    from_picoseconds,
    from_nanoseconds,
    "A time. The unit is the nanosecond, the resolution one picosecond; JSON holds picoseconds.",
    "picoseconds",
    ["ps", "ns", "µs", "ms", "s"]
);
quantity!(
    Energy,
    nanojoules,
    microjoules,
    from_nanojoules,
    from_microjoules,
    "An energy. The unit is the microjoule, the resolution one nanojoule; JSON holds nanojoules.",
    "nanojoules",
    ["nJ", "µJ", "mJ", "J", "kJ"]
);

/// A power in milliwatts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Milliwatts(u64);

impl Milliwatts {
    /// From whole milliwatts.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value in milliwatts.
    #[must_use]
    pub const fn milliwatts(self) -> u64 {
        self.0
    }

    /// The energy of this power over a time, rounded up to a nanojoule; `None` on overflow.
    #[must_use]
    pub fn over(self, time: Time) -> Option<Energy> {
        // 1 mW for 1 ps is 1e-15 J, a millionth of a nanojoule
        let product = u128::from(self.0) * u128::from(time.picoseconds());
        u64::try_from(product.div_ceil(1_000_000))
            .ok()
            .map(Energy::from_nanojoules)
    }
}

impl fmt::Display for Milliwatts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} W", self.0 / 1000, self.0 % 1000)
    }
}

/// A temperature in thousandths of a degree Celsius.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct MilliCelsius(i64);

impl MilliCelsius {
    /// From thousandths of a degree.
    #[must_use]
    pub const fn new(millidegrees: i64) -> Self {
        Self(millidegrees)
    }

    /// From degrees, to the nearest thousandth.
    #[must_use]
    pub fn from_celsius(degrees: f64) -> Self {
        // `as` saturates, and NaN becomes 0
        Self((degrees * 1000.0).round() as i64)
    }

    /// In thousandths of a degree.
    #[must_use]
    pub const fn millidegrees(self) -> i64 {
        self.0
    }
}

impl fmt::Display for MilliCelsius {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} °C", self.0 as f64 / 1000.0)
    }
}

/// Three decimals in the largest unit that leaves a number of at least one.
fn scaled(value: u64, units: &[&str; 5]) -> String {
    let mut step = 0;
    let mut divisor = 1u64;
    while step < 4 && value / divisor >= 1000 {
        divisor *= 1000;
        step += 1;
    }
    if step == 0 {
        return format!("{value} {}", units[0]);
    }
    let thousandths = (value % divisor) / (divisor / 1000);
    format!("{}.{thousandths:03} {}", value / divisor, units[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_carries_units() {
        assert_eq!(Time::from_picoseconds(7).to_string(), "7 ps");
        assert_eq!(Time::from_nanoseconds(1500).to_string(), "1.500 µs");
        assert_eq!(Time::from_picoseconds(12_345_678_901).to_string(), "12.345 ms");
        assert_eq!(Energy::from_microjoules(2).to_string(), "2.000 µJ");
        assert_eq!(Time::from_picoseconds(u64::MAX).to_string(), "18446744.073 s");
    }

    #[test]
    fn power_over_time_rounds_up() {
        // 1 W for 1 ms is 1 mJ
        let energy = Milliwatts::new(1000)
            .over(Time::from_nanoseconds(1_000_000))
            .unwrap();
        assert_eq!(energy, Energy::from_microjoules(1000));
        assert_eq!(
            Milliwatts::new(1)
                .over(Time::from_picoseconds(1))
                .unwrap()
                .nanojoules(),
            1
        );
        assert!(
            Milliwatts::new(u64::MAX)
                .over(Time::from_picoseconds(u64::MAX))
                .is_none()
        );
    }

    #[test]
    fn degrees_have_millidegree_resolution() {
        assert_eq!(MilliCelsius::from_celsius(42.0005).millidegrees(), 42_001);
        assert_eq!(MilliCelsius::from_celsius(-0.25).to_string(), "-0.2 °C");
        assert_eq!(Milliwatts::new(4_007).to_string(), "4.007 W");
    }

    #[test]
    fn rounding_to_whole_units() {
        assert_eq!(Time::from_picoseconds(1499).nanoseconds(), 1);
        assert_eq!(Time::from_picoseconds(1500).nanoseconds(), 2);
        assert_eq!(Time::from_nanoseconds(u64::MAX).picoseconds(), u64::MAX);
    }
}
