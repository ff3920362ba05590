//! The error type of this crate.
//!
//! Invariants:
//! 1. A message names the tensor, key, token or file concerned, and the limit and value seen.
//! 2. An error means bad input, a failure of a device or the system, or a cancellation. A bug in this
//!    crate is a panic.

use std::fmt;
use std::path::{Path, PathBuf};

/// Category of an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file cannot be opened or mapped.
    File,
    /// The bytes are not a GGUF file, or the file contradicts itself.
    Malformed,
    /// The file needs something unsupported: a version, a block type, an architecture, a
    /// pre-tokenizer.
    Unsupported,
    /// The file is valid, but a key or tensor that its architecture needs is missing or of the
    /// wrong type or shape.
    Config,
    /// Prompt and answer together exceed the context length.
    Room,
    /// The vocabulary is missing or invalid, or a text or token cannot be translated.
    Tokenizer,
    /// The chat template does not compile, fails or refuses the messages.
    Template,
    /// A grammar or schema is invalid or unsupported.
    Grammar,
    /// Planning, compiling or running on devices failed, or memory, a thread or a process was unavailable.
    Run,
    /// The caller cancelled.
    Cancelled,
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Config(String),
    #[error("{what} not fit the context length of {capacity}")]
    Room { what: String, capacity: usize },
    #[error("{0}")]
    Tokenizer(String),
    #[error("the process that reads chat templates and grammars cannot be started: {0}")]
    Sandbox(std::io::Error),
    #[error("{0}")]
    Grammar(String),
    #[error("chat template: {message}")]
    Template {
        message: String,
        source: Option<minijinja::Error>,
    },
    #[error(transparent)]
    Run(polychip::Error),
    #[error("KV cache memory: {0}")]
    Memory(polychip::DeviceError),
    #[error("cannot start a thread for the answer: {0}")]
    Thread(std::io::Error),
    #[error("cancelled")]
    Cancelled,
}

/// Error of this crate: reading a model, translating text, or running.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Repr>);

impl Error {
    fn repr(repr: Repr) -> Error {
        Error(Box::new(repr))
    }

    pub(crate) fn file(path: &Path, source: std::io::Error) -> Error {
        Error::repr(Repr::File {
            path: path.to_owned(),
            source,
        })
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Error {
        Error::repr(Repr::Malformed(message.into()))
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Error {
        Error::repr(Repr::Unsupported(message.into()))
    }

    pub(crate) fn config(message: impl Into<String>) -> Error {
        Error::repr(Repr::Config(message.into()))
    }

    /// Error of kind [`ErrorKind::Room`]. `what` is completed by "not fit the context length of …", so
    /// it ends with "does" or "do".
    pub(crate) fn room(what: impl Into<String>, capacity: usize) -> Error {
        Error::repr(Repr::Room {
            what: what.into(),
            capacity,
        })
    }

    pub(crate) fn tokenizer(message: impl Into<String>) -> Error {
        Error::repr(Repr::Tokenizer(message.into()))
    }

    pub(crate) fn grammar(message: impl Into<String>) -> Error {
        Error::repr(Repr::Grammar(message.into()))
    }

    pub(crate) fn template(message: impl Into<String>) -> Error {
        Error::repr(Repr::Template {
            message: message.into(),
            source: None,
        })
    }

    pub(crate) fn run(source: polychip::Error) -> Error {
        Error::repr(Repr::Run(source))
    }

    pub(crate) fn memory(source: polychip::DeviceError) -> Error {
        Error::repr(Repr::Memory(source))
    }

    pub(crate) fn thread(source: std::io::Error) -> Error {
        Error::repr(Repr::Thread(source))
    }

    pub(crate) fn sandbox(source: std::io::Error) -> Error {
        Error::repr(Repr::Sandbox(source))
    }

    pub(crate) fn cancelled() -> Error {
        Error::repr(Repr::Cancelled)
    }

    pub(crate) fn jinja(message: String, source: minijinja::Error) -> Error {
        Error::repr(Repr::Template {
            message,
            source: Some(source),
        })
    }

    /// The runtime's error, if planning, compiling or running failed. `None` for all other errors,
    /// including those of kind [`ErrorKind::Run`] that concern KV cache memory or starting a thread or a
    /// process.
    #[must_use]
    pub fn of_run(&self) -> Option<&polychip::Error> {
        match &*self.0 {
            Repr::Run(error) => Some(error),
            _ => None,
        }
    }

    /// Category of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Repr::File { .. } => ErrorKind::File,
            Repr::Malformed(_) => ErrorKind::Malformed,
            Repr::Unsupported(_) => ErrorKind::Unsupported,
            Repr::Config(_) => ErrorKind::Config,
            Repr::Room { .. } => ErrorKind::Room,
            Repr::Tokenizer(_) => ErrorKind::Tokenizer,
            Repr::Grammar(_) => ErrorKind::Grammar,
            Repr::Template { .. } => ErrorKind::Template,
            Repr::Run(_) | Repr::Memory(_) | Repr::Thread(_) | Repr::Sandbox(_) => ErrorKind::Run,
            Repr::Cancelled => ErrorKind::Cancelled,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
