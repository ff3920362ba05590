//! Why a reference kernel refused its operands.
//!
//! A refusal is always about the operands (a shape, an index, a parameter); kernels do not fail otherwise.

use std::fmt;

/// Text that describes operands which a reference kernel cannot compute with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What a reference kernel returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns early with an [`Error`] built from a format string.
macro_rules! refuse {
    ($($arg:tt)*) => {
        return Err($crate::reference::error::Error::new(format!($($arg)*)))
    };
}

/// Refuses unless a condition holds.
macro_rules! require {
    ($cond:expr, $($arg:tt)*) => {
        let holds: bool = $cond;
        if !holds {
            return Err($crate::reference::error::Error::new(format!($($arg)*)));
        }
    };
}

pub(crate) use {refuse, require};
