//! The cadence of an app's runs, which determines a device's clock and therefore the time of the
//! next run.
//!
//! Runs are back to back, at a period, or after a long idle time. Periods fall into classes by
//! factors of two. Class bounds avoid common frame rates: 60, 50, 30, 25, 24, 20, 15, 10, 5, 2 and
//! 1 per second are at least 10 % away.
//!
//! Invariants:
//! 1. Every run has one cadence, and the text of a cadence parses to the same one.
//! 2. A longer period is never in a class of shorter ones.
//!
//! Not here: which measurements count at a cadence (`conditions`, `statistics`), pacing runs (the
//! scheduler).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shortest period that is one, in microseconds. Governors of clocks look every 10 ms or more seldom
/// (cpufreq's `sampling_rate`, devfreq's `polling_ms`): to them, shorter gaps are no gaps.
const SHORTEST_US: u64 = 1_750;
/// Classes of periods; the last one ends at 1.792 s.
const CLASSES: u8 = 10;
/// Inverse of the smallest share of a period that counts as a gap.
const GAP_SHARE: u64 = 10;
/// Per cent by which a period must be outside its class to be clearly of another one.
const CLEARLY_PERCENT: u64 = 20;

/// How runs follow each other.
///
/// ```
/// use polychip_profile::Cadence;
/// use std::time::Duration;
/// let camera = Cadence::of_period(Duration::from_millis(33));
/// assert_eq!(camera.to_string(), "28..56ms");
/// assert_eq!("28..56ms".parse(), Ok(camera));
/// assert_eq!(Cadence::of_period(Duration::ZERO), Cadence::BackToBack);
/// ```
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Cadence {
    /// Each run begins as soon as the previous one has ended.
    #[default]
    BackToBack,
    /// Runs begin at a period of this class.
    Paced(PeriodClass),
    /// The device has been idle for so long that a longer idle time makes no difference.
    AfterIdle,
}

/// A class of periods, from its shortest to twice that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeriodClass(u8);

impl PeriodClass {
    /// The shortest period of the class.
    #[must_use]
    pub fn shortest(self) -> Duration {
        Duration::from_micros(SHORTEST_US << self.0)
    }

    /// The shortest period of the next class.
    #[must_use]
    pub fn end(self) -> Duration {
        2 * self.shortest()
    }
}

impl Cadence {
    /// The cadence of runs at this period; zero means back to back.
    #[must_use]
    pub fn of_period(period: Duration) -> Cadence {
        let times = period.as_micros() / u128::from(SHORTEST_US);
        match times.checked_ilog2() {
            None => Cadence::BackToBack,
            Some(class) if class < u32::from(CLASSES) => Cadence::Paced(PeriodClass(class as u8)),
            Some(_) => Cadence::AfterIdle,
        }
    }

    /// The cadence of a run, from the gap between the previous run's end and its start, and its
    /// duration. A gap below a tenth of the period, or below the shortest period, counts as no gap.
    #[must_use]
    pub fn of_run(gap: Duration, took: Duration) -> Cadence {
        let period = gap.saturating_add(took);
        let is_short = gap < Duration::from_micros(SHORTEST_US);
        if is_short || gap.saturating_mul(GAP_SHARE as u32) < period {
            return Cadence::BackToBack;
        }
        Cadence::of_period(period)
    }

    /// The shortest period of this cadence; zero for back to back.
    #[must_use]
    pub fn shortest_period(self) -> Duration {
        match self {
            Cadence::BackToBack => Duration::ZERO,
            Cadence::Paced(class) => class.shortest(),
            Cadence::AfterIdle => PeriodClass(CLASSES).shortest(),
        }
    }

    /// Whether a run with this gap and duration clearly has another cadence, and not only a period
    /// that varies around a class bound.
    #[must_use]
    pub fn is_clearly_other(self, gap: Duration, took: Duration) -> bool {
        let own = |gap: Duration| Cadence::of_run(gap, took) == self;
        let scaled = |percent: u64| gap.saturating_mul(percent as u32) / 100;
        !own(gap) && !own(scaled(100 - CLEARLY_PERCENT)) && !own(scaled(100 + CLEARLY_PERCENT))
    }

    /// How many classes of ever longer gaps there are before it.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Cadence::BackToBack => 0,
            Cadence::Paced(class) => 1 + class.0,
            Cadence::AfterIdle => 1 + CLASSES,
        }
    }
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cadence::BackToBack => f.write_str("back-to-back"),
            Cadence::AfterIdle => f.write_str("after-idle"),
            Cadence::Paced(class) => {
                let ms = |bound: Duration| bound.as_micros() as f64 / 1e3;
                write!(f, "{}..{}ms", ms(class.shortest()), ms(class.end()))
            }
        }
    }
}

/// The error of parsing a text that is not a cadence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid cadence {0:?}; expected back-to-back, after-idle, or a class of periods such as 28..56ms")]
pub struct NoCadence(String);

impl FromStr for Cadence {
    type Err = NoCadence;

    fn from_str(text: &str) -> Result<Cadence, NoCadence> {
        let paced = (0..CLASSES).map(|class| Cadence::Paced(PeriodClass(class)));
        let mut all = [Cadence::BackToBack, Cadence::AfterIdle].into_iter().chain(paced);
        all.find(|cadence| cadence.to_string() == text)
            .ok_or_else(|| NoCadence(text.to_owned()))
    }
}

impl TryFrom<String> for Cadence {
    type Error = NoCadence;

    fn try_from(text: String) -> Result<Cadence, NoCadence> {
        text.parse()
    }
}

impl From<Cadence> for String {
    fn from(cadence: Cadence) -> String {
        cadence.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    #[test]
    fn common_frame_rates_are_not_class_bounds() {
        for per_second in [
            120.0, 90.0, 60.0, 50.0, 30.0, 25.0, 24.0, 20.0, 15.0, 10.0, 5.0, 2.0, 1.0,
        ] {
            let period = 1e3 / per_second;
            let class = Cadence::of_period(ms(period));
            for jitter in [0.91, 1.09] {
                assert_eq!(Cadence::of_period(ms(period * jitter)), class, "{per_second}/s");
            }
        }
    }

    #[test]
    fn cadence_classes_have_names() {
        let words = |period: f64| Cadence::of_period(ms(period)).to_string();
        assert_eq!(words(0.0), "back-to-back");
        assert_eq!(words(1.7), "back-to-back");
        assert_eq!(words(2.0), "1.75..3.5ms");
        assert_eq!(words(33.3), "28..56ms");
        assert_eq!(words(100.0), "56..112ms");
        assert_eq!(words(1_000.0), "896..1792ms");
        assert_eq!(words(1_800.0), "after-idle");
        assert_eq!(
            "33ms".parse::<Cadence>().unwrap_err(),
            NoCadence("33ms".to_owned())
        );
    }

    #[test]
    fn busy_device_is_back_to_back() {
        assert_eq!(Cadence::of_run(ms(2.0), ms(31.0)), Cadence::BackToBack);
        assert_eq!(Cadence::of_run(ms(1.7), ms(0.5)), Cadence::BackToBack);
        assert_eq!(Cadence::of_run(ms(8.0), ms(25.0)), Cadence::of_period(ms(33.0)));
        assert_eq!(Cadence::of_run(ms(30_000.0), ms(1.0)), Cadence::AfterIdle);
    }

    #[test]
    fn period_near_a_bound_keeps_its_class() {
        let camera = Cadence::of_period(ms(33.0));
        assert!(!camera.is_clearly_other(ms(40.0), ms(1.0)));
        assert!(!camera.is_clearly_other(ms(58.0), ms(1.0)));
        assert!(camera.is_clearly_other(ms(99.0), ms(1.0)));
        assert!(camera.is_clearly_other(ms(0.1), ms(1.0)));
        assert!(!Cadence::BackToBack.is_clearly_other(ms(0.0), ms(1.0)));
    }

    proptest! {
        #[test]
        fn longer_periods_are_of_the_same_class_or_a_later_one(a in 0u64..5_000_000, b in 0u64..5_000_000) {
            let of = |us: u64| Cadence::of_period(Duration::from_micros(us));
            let (short, long) = (a.min(b), a.max(b));
            prop_assert!(of(short) <= of(long));
            prop_assert!(of(short).rank() <= of(long).rank());
            prop_assert!(of(short).shortest_period() <= Duration::from_micros(short));
            prop_assert_eq!(of(a).to_string().parse(), Ok(of(a)));
        }
    }
}
