//! Whether a session learns from its own runs.

use std::fmt;
use std::str::FromStr;

/// How a session uses measurements of its own runs.
///
/// ```
/// use polychip::{Learn, Policy};
/// let certified = Policy::latency().learn(Learn::No);
/// assert_eq!("10%".parse(), Ok(Learn::Yes { budget_permille: 100 }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learn {
    /// Freezes the plan, for tests and certification. No learning code runs on the path of a run.
    No,
    /// Measures and records runs; the plan stays.
    Watch,
    /// Tries other plans, and adopts one that is faster with statistical confidence. Trials may
    /// cost this share of the time of all runs so far, plus four runs.
    Yes {
        /// The budget in thousandths, 20 to 200.
        budget_permille: u32,
    },
}

impl Learn {
    /// Smallest and largest budget, in thousandths.
    const RANGE: std::ops::RangeInclusive<u32> = 20..=200;

    /// The budget of trials in thousandths of the time of all runs; `None` if no plans are tried.
    #[must_use]
    pub fn budget_permille(self) -> Option<u32> {
        match self {
            Learn::No | Learn::Watch => None,
            Learn::Yes { budget_permille } => {
                Some(budget_permille.clamp(*Learn::RANGE.start(), *Learn::RANGE.end()))
            }
        }
    }
}

impl Default for Learn {
    fn default() -> Self {
        Learn::Yes { budget_permille: 50 }
    }
}

impl fmt::Display for Learn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Learn::No => f.write_str("no"),
            Learn::Watch => f.write_str("watch"),
            Learn::Yes { budget_permille } => write!(f, "{}%", f64::from(*budget_permille) / 10.0),
        }
    }
}

impl FromStr for Learn {
    type Err = String;

    /// Reads `no`, `watch`, `yes` (a budget of 5 %) or a budget from `2%` to `20%`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "no" => return Ok(Learn::No),
            "watch" => return Ok(Learn::Watch),
            "yes" => return Ok(Learn::default()),
            _ => {}
        }
        let percent = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok());
        let budget_permille = percent.map(|percent| (percent * 10.0).round() as u32);
        match budget_permille.filter(|permille| Learn::RANGE.contains(permille)) {
            Some(budget_permille) => Ok(Learn::Yes { budget_permille }),
            None => Err(format!("{text:?} is not one of no, watch, yes, 2% to 20%")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_values_round_trip() {
        for (text, value) in [
            ("no", Learn::No),
            ("watch", Learn::Watch),
            ("5%", Learn::default()),
            ("2.5%", Learn::Yes { budget_permille: 25 }),
        ] {
            assert_eq!(text.parse(), Ok(value));
            assert_eq!(value.to_string(), text);
        }
        assert_eq!("yes".parse(), Ok(Learn::default()));
        for wrong in ["", "1%", "21%", "5", "-5%", "maybe"] {
            assert!(wrong.parse::<Learn>().is_err(), "{wrong}");
        }
    }
}
