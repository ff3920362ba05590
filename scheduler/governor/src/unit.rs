//! Times and energies for internal comparisons, as types that cannot be mixed.
//!
//! Invariant: a [`RunTime`] and a [`RunEnergy`] share no trait of ours, do not convert and compare
//! only with their own kind, so that a choice among candidates is made in one unit.

/// A run time in nanoseconds.
///
/// ```compile_fail,E0308
/// use polychip_governor::{RunEnergy, RunTime};
/// assert!(RunTime::from_ns(1.0) < RunEnergy::from_uj(2.0));
/// ```
///
/// ```
/// use polychip_governor::{RunEnergy, RunTime};
/// assert!(RunTime::from_ns(1.0) < RunTime::from_ns(2.0) && RunEnergy::from_uj(1.0) < RunEnergy::from_uj(2.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct RunTime(f64);

/// A run energy in microjoules.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct RunEnergy(f64);

impl RunTime {
    /// From nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: f64) -> RunTime {
        RunTime(ns)
    }

    /// In nanoseconds.
    #[must_use]
    pub const fn ns(self) -> f64 {
        self.0
    }

    /// Scaled by a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> RunTime {
        RunTime(self.0 * factor)
    }
}

impl RunEnergy {
    /// From microjoules.
    #[must_use]
    pub const fn from_uj(uj: f64) -> RunEnergy {
        RunEnergy(uj)
    }

    /// In microjoules.
    #[must_use]
    pub const fn uj(self) -> f64 {
        self.0
    }

    /// Scaled by a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> RunEnergy {
        RunEnergy(self.0 * factor)
    }
}
