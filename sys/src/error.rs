//! What goes wrong when a vendor's library is looked for, opened and read.
//!
//! Invariant: each message names the library, the path, what was found, what is wanted, and what to do.

use std::path::PathBuf;

/// The result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A vendor's library that cannot be used, and why.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Cause);

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file in any of the places
    Missing,
    /// One library of a set is there and its sibling is not
    HalfInstalled,
    /// The file is for another processor, or no library at all
    WrongArchitecture,
    /// The system's loader refused the file
    Unloadable,
    /// The library is there but is not the interface that is wanted: a symbol or a provider is missing
    WrongInterface,
    /// The library's version is not one that the declarations hold for
    WrongVersion,
    /// The library leaves out a call that is needed
    MissingCall,
    /// The process holds the vendor's library from another folder already
    LoadedElsewhere,
}

#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Cause {
    #[error("{library} is not there: looked for it in {tried}; {remedy}")]
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
    #[error("{path} is not the interface wanted: {reason}; {remedy}")]
    WrongInterface {
        path: PathBuf,
        reason: String,
        remedy: String,
    },
    #[error("{path} offers interface version {found}, wanted is {wanted}; {remedy}")]
    WrongVersion {
        path: PathBuf,
        found: String,
        wanted: String,
        remedy: String,
    },
    #[error("the library does not offer the call `{call}`")]
    MissingCall { call: &'static str },
    #[error(
        "{wanted} cannot be opened: this process holds the libraries of {held} already, and they stay until it ends; \
         use one folder per process"
    )]
    LoadedElsewhere { wanted: PathBuf, held: PathBuf },
}

impl Error {
    /// What went wrong, for callers that act on it.
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

    /// The error of a call that a library leaves out.
    #[must_use]
    pub fn missing_call(call: &'static str) -> Self {
        Cause::MissingCall { call }.into()
    }

    /// The error of a library that is in none of the places tried.
    #[cfg(any(feature = "ascend", feature = "rknn"))]
    pub(crate) fn missing(library: &str, tried: &str, remedy: &str) -> Self {
        Cause::Missing {
            library: library.to_owned(),
            tried: tried.to_owned(),
            remedy: remedy.to_owned(),
        }
        .into()
    }

    /// The error of a library that the system's loader found by name and that is not the interface wanted.
    #[cfg(any(feature = "ascend", feature = "rknn"))]
    pub(crate) fn unusable(path: impl Into<PathBuf>, reason: String, remedy: &str) -> Self {
        Cause::WrongInterface {
            path: path.into(),
            reason,
            remedy: remedy.to_owned(),
        }
        .into()
    }

    /// The error of a process that holds the vendor's libraries of another folder.
    #[must_use]
    pub fn loaded_elsewhere(wanted: impl Into<PathBuf>, held: impl Into<PathBuf>) -> Self {
        Cause::LoadedElsewhere {
            wanted: wanted.into(),
            held: held.into(),
        }
        .into()
    }
}
