//! Errors: an invalid set.
//!
//! Invariant: a message names the device or task, and the value seen.

use std::fmt;

/// Why a set could not be judged.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Repr);

/// The class of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A time of zero, an index past its list, a task without parts.
    BadSet,
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("{name}: {words}")]
    Set { name: String, words: String },
}

impl Error {
    pub(crate) fn set(name: &str, words: impl fmt::Display) -> Self {
        Self(Repr::Set {
            name: name.to_owned(),
            words: words.to_string(),
        })
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Repr::Set { .. } => ErrorKind::BadSet,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
