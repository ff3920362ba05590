//! Errors in reading results.

use std::path::{Path, PathBuf};

use polychip_farm_record::LinesError;

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Why results cannot be read; names the file.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Cause);

/// What sort of error it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder cannot be read.
    Io,
    /// A file is there and holds something else.
    BadRun,
    /// What was asked for is not in the runs.
    BadSelection,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Lines { path: PathBuf, source: LinesError },
    #[error("{path}: {words}")]
    BadRun { path: PathBuf, words: String },
    #[error("{0}")]
    Selection(String),
}

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Error {
        let path = path.to_owned();
        Cause::Io { path, source }.into()
    }

    pub(crate) fn lines(path: &Path, source: LinesError) -> Error {
        let path = path.to_owned();
        Cause::Lines { path, source }.into()
    }

    pub(crate) fn bad_run(path: &Path, words: impl ToString) -> Error {
        let (path, words) = (path.to_owned(), words.to_string());
        Cause::BadRun { path, words }.into()
    }

    pub(crate) fn selection(words: impl ToString) -> Error {
        Cause::Selection(words.to_string()).into()
    }

    /// What sort of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Cause::Io { .. } => ErrorKind::Io,
            Cause::Lines { .. } | Cause::BadRun { .. } => ErrorKind::BadRun,
            Cause::Selection(_) => ErrorKind::BadSelection,
        }
    }
}
