//! Outcome of a case, and the reason it stopped.
//!
//! Invariant: a passing case ran its check; if a plugin lacks a required feature, the case is skipped or refused with
//! the reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plugin::Failure;

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "detail")]
pub enum Verdict {
    /// The plugin does what the contract says.
    Passed,
    /// The plugin says that it does not support the graph, and why.
    Refused(String),
    /// The plugin does not offer what the case asks about.
    Skipped(String),
    /// The plugin breaks the contract.
    Failed(String),
}

impl Verdict {
    /// The word for tables.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Refused(_) => "refused",
            Verdict::Skipped(_) => "skipped",
            Verdict::Failed(_) => "failed",
        }
    }

    /// The words behind it.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Verdict::Passed => "",
            Verdict::Refused(words) | Verdict::Skipped(words) | Verdict::Failed(words) => words,
        }
    }
}

/// Why a case stopped before it passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// As [`Verdict::Refused`].
    Refused(String),
    /// As [`Verdict::Skipped`].
    Skipped(String),
    /// As [`Verdict::Failed`].
    Failed(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure.to_string())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Refused(words) | Stop::Skipped(words) | Stop::Failed(words) => f.write_str(words),
        }
    }
}

impl From<Stop> for Verdict {
    fn from(stop: Stop) -> Verdict {
        match stop {
            Stop::Refused(words) => Verdict::Refused(words),
            Stop::Skipped(words) => Verdict::Skipped(words),
            Stop::Failed(words) => Verdict::Failed(words),
        }
    }
}

/// The result of a case: `Ok` where it passed.
pub type Judgement = Result<(), Stop>;

/// A failure with words.
pub fn fail<T>(words: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(words.into()))
}

/// A skip with words.
pub fn skip<T>(words: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skipped(words.into()))
}

/// Fails the case with words where a condition does not hold.
macro_rules! check {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err($crate::verdict::Stop::Failed(format!($($words)+)));
        }
    };
}
pub(crate) use check;
