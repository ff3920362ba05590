//! Errors of finding, opening and reading a vendor's library.
//!
//! Invariant: each message names the library, the path, what was found, what is required, and the
//! remedy.

use std::path::PathBuf;

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A vendor's library that cannot be used, with the reason.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Cause);

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file on any search path
    Missing,
    /// One library of a set is present, and another one is missing
    HalfInstalled,
    /// The file is for another processor, or not a library
    WrongArchitecture,
    /// The system's loader refused the file
    Unloadable,
    /// The library lacks the required interface: a symbol or a provider is missing
    WrongInterface,
    /// The declarations do not cover the library's version
    WrongVersion,
    /// The library lacks a required function
    MissingCall,
    /// The process has already loaded the vendor's library from another folder
    LoadedElsewhere,
}

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Cause {
    #[error("{library} was not found; searched {tried}; {remedy}")]
    Missing {
        library: String,
        tried: String,
        remedy: String,
    },
    #[error("{library} is missing beside {sibling}: the installation is incomplete; {remedy}")]
    HalfInstalled {
        library: String,
        sibling: PathBuf,
        remedy: String,
    },
    #[error("{path} cannot be used: {found}; {remedy}")]
    WrongArchitecture {
        path: PathBuf,
        found: String,
        remedy: String,
    },
    #[error("{path} cannot be opened: {reason}; {remedy}")]
    Unloadable {
        path: PathBuf,
        reason: String,
        remedy: String,
    },
    #[error("{path} lacks the required interface: {reason}; {remedy}")]
    WrongInterface {
        path: PathBuf,
        reason: String,
        remedy: String,
    },
    #[error("{path} offers interface version {found}, required is {wanted}; {remedy}")]
    WrongVersion {
        path: PathBuf,
        found: String,
        wanted: String,
        remedy: String,
    },
    #[error("the library does not offer the call `{call}`")]
    MissingCall { call: &'static str },
    #[error(
        "{wanted} cannot be opened: this process has already loaded the libraries of {held}, which stay loaded until it ends; \
         use one folder per process"
    )]
    LoadedElsewhere { wanted: PathBuf, held: PathBuf },
}

impl Error {
    /// Kind of the error, for callers that act on it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Cause::Missing { .. } => ErrorKind::Missing,
            Cause::HalfInstalled { .. } => ErrorKind::HalfInstalled,
            Cause::WrongArchitecture { .. } => ErrorKind::WrongArchitecture,
            Cause::Unloadable { .. } => ErrorKind::Unloadable,
            Cause::WrongInterface { .. } => ErrorKind::WrongInterface,
            Cause::WrongVersion { .. } => ErrorKind::WrongVersion,
            Cause::MissingCall { .. } => ErrorKind::MissingCall,
            Cause::LoadedElsewhere { .. } => ErrorKind::LoadedElsewhere,
        }
    }

    /// The error of a function that the library lacks.
    #[must_use]
    pub fn missing_call(call: &'static str) -> Self {
        Cause::MissingCall { call }.into()
    }

    /// The error of a library that none of the searched folders holds.
    #[cfg(any(feature = "ascend", feature = "rknn"))]
    pub(crate) fn missing(library: &str, tried: &str, remedy: &str) -> Self {
        Cause::Missing {
            library: library.to_owned(),
            tried: tried.to_owned(),
            remedy: remedy.to_owned(),
        }
        .into()
    }

    /// The error of a library that the system's loader found by name but that lacks the required
    /// interface.
    #[cfg(any(feature = "ascend", feature = "rknn"))]
    pub(crate) fn unusable(path: impl Into<PathBuf>, reason: String, remedy: &str) -> Self {
        Cause::WrongInterface {
            path: path.into(),
            reason,
            remedy: remedy.to_owned(),
        }
        .into()
    }

    /// The error of a process that has loaded the vendor's libraries from another folder.
    #[must_use]
    pub fn loaded_elsewhere(wanted: impl Into<PathBuf>, held: impl Into<PathBuf>) -> Self {
        Cause::LoadedElsewhere {
            wanted: wanted.into(),
            held: held.into(),
        }
        .into()
    }
}
