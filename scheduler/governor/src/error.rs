//! Errors: an invalid portfolio, or a log that does not replay.
//!
//! Invariant: a message names the candidate, device or line, and the value seen.

use std::fmt;

/// Why a governor could not be made or a log not replayed.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Repr);

/// The class of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No candidate, or a candidate that contradicts itself or the device list.
    BadPortfolio,
    /// A log that is unreadable, of another version, or with other decisions.
    BadLog,
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("{0}")]
    Portfolio(String),
    #[error("governor log, line {line}: {words}")]
    Log { line: usize, words: String },
}

impl Error {
    pub(crate) fn portfolio(words: impl fmt::Display) -> Self {
        Self(Repr::Portfolio(words.to_string()))
    }

    pub(crate) fn log(line: usize, words: impl fmt::Display) -> Self {
        let words = words.to_string();
        Self(Repr::Log { line, words })
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Repr::Portfolio(_) => ErrorKind::BadPortfolio,
            Repr::Log { .. } => ErrorKind::BadLog,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Result with the governor's error.
pub type Result<T> = std::result::Result<T, Error>;
