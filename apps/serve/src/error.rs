//! The error of this crate: failures that keep a server from running. A client's mistake is a `Problem`, returned to
//! the client.

use std::net::SocketAddr;

/// What went wrong, coarsely.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option is out of its range.
    Options,
    /// The address cannot be listened on.
    Listen,
    /// The model cannot be run.
    Model,
    /// The system gives no thread or no event queue.
    System,
    /// The thread that runs the model has ended by a bug.
    Ended,
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("{0}")]
    Options(String),
    #[error("listening on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("{source}")]
    Model { source: polychip_llm::Error },
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        source: std::io::Error,
    },
    #[error("the model thread has crashed; its message is on standard error")]
    Ended,
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Repr>);

impl Error {
    pub(crate) fn options(message: String) -> Error {
        Error(Box::new(Repr::Options(message)))
    }

    pub(crate) fn listen(address: SocketAddr, source: std::io::Error) -> Error {
        Error(Box::new(Repr::Listen { address, source }))
    }

    pub(crate) fn model(error: polychip_llm::Error) -> Error {
        Error(Box::new(Repr::Model { source: error }))
    }

    pub(crate) fn system(what: &'static str, source: std::io::Error) -> Error {
        Error(Box::new(Repr::System { what, source }))
    }

    pub(crate) fn ended() -> Error {
        Error(Box::new(Repr::Ended))
    }

    /// What went wrong, coarsely.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Repr::Options(_) => ErrorKind::Options,
            Repr::Listen { .. } => ErrorKind::Listen,
            Repr::Model { .. } => ErrorKind::Model,
            Repr::System { .. } => ErrorKind::System,
            Repr::Ended => ErrorKind::Ended,
        }
    }
}
