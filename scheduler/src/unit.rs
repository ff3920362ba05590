//! Units of the sensors: types, so that no bare number of degrees or watts travels.

use std::fmt;

/// A temperature in thousandths of a degree Celsius.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_kept_to_a_thousandth() {
        assert_eq!(MilliCelsius::from_celsius(42.0005).millidegrees(), 42_001);
        assert_eq!(MilliCelsius::from_celsius(-0.25).to_string(), "-0.2 °C");
    }
}
