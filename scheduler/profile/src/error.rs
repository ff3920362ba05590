//! Errors: a file that is no profile, or a profile that is corrupt, of another version, unreadable
//! or not writable.
//!
//! Invariant: a message names the file and the remedy.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why rows cannot be read or written.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Why a profile is unusable or cannot store a row.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Repr>);

/// The class of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is no profile database, or it is corrupt, of another version, or not writable.
    BadProfile,
    /// A file cannot be read or written.
    Io,
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("{0}")]
    Bad(String),
    #[error("{context}: {source}")]
    Json {
        context: &'static str,
        source: serde_json::Error,
    },
    #[error(
        "profile database {} (unchanged; use another file or move it away): {source}",
        path.display()
    )]
    Database { path: PathBuf, source: Failure },
    #[cfg(feature = "sqlite")]
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
}

impl Error {
    pub(crate) fn bad(words: impl fmt::Display) -> Self {
        Self(Box::new(Repr::Bad(words.to_string())))
    }

    pub(crate) fn json(context: &'static str, source: serde_json::Error) -> Self {
        Self(Box::new(Repr::Json { context, source }))
    }

    pub(crate) fn database(path: &Path, source: impl Into<Failure>) -> Self {
        Self(Box::new(Repr::Database {
            path: path.to_owned(),
            source: source.into(),
        }))
    }

    /// That the build reads and writes no files.
    #[cfg(not(feature = "sqlite"))]
    pub(crate) fn no_files(path: &Path) -> Self {
        Self::bad(format!(
            "profile database {}: this build keeps no profiles in files (feature `sqlite` of polychip-profile, `database` of \
             polychip); without one costs come from bundles, from what this process measures, and from what devices state",
            path.display()
        ))
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        Self(Box::new(Repr::File { path, source }))
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Repr::Bad(_) | Repr::Json { .. } | Repr::Database { .. } => ErrorKind::BadProfile,
            #[cfg(feature = "sqlite")]
            Repr::File { .. } => ErrorKind::Io,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Result with the profile's error.
pub type Result<T> = std::result::Result<T, Error>;
