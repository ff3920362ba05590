//! The one error of this crate.
//!
//! Invariants:
//! 1. A message names the node, tensor, file or line concerned, and the limit and value seen.
//! 2. An error means bad input; a bug of ours is a panic.

use std::fmt;

use polychip_ops::InferError;

/// What went wrong, coarsely.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are no model, or the model contradicts itself.
    Malformed,
    /// The model is of a version, or uses a feature, that is not supported.
    Unsupported,
    /// The nodes depend on each other in a circle.
    Cycle,
    /// Types or shapes do not fit an op's rules.
    Inference,
    /// Data outside the model file is missing, too short or in a forbidden place.
    ExternalData,
    /// A dimension name or size that does not fit the model.
    Dim,
    /// Results along a dimension are made of other positions of it.
    Mixed,
    /// The text form does not parse.
    Text,
    /// A graph breaks an invariant.
    Invalid,
}

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error("{0}")]
    Malformed(String),
    #[error("model is not readable as ONNX protobuf: {0}{early}", early = early(.0))]
    Wire(#[source] prost::DecodeError),
    #[error("{0}")]
    Unsupported(String),
    #[error("{0}")]
    Cycle(String),
    #[error("node {node}: {source}")]
    Infer { node: String, source: InferError },
    #[error("{0}")]
    Inference(String),
    #[error("{message}")]
    ExternalData {
        message: String,
        source: Option<std::io::Error>,
    },
    #[error("{0}")]
    Dim(String),
    #[error("{0}")]
    Mixed(String),
    #[error("line {line}: {message}")]
    Text { line: usize, message: String },
    #[error("{0}")]
    Invalid(String),
}

/// The message about a file that ends within a field.
fn early(source: &prost::DecodeError) -> &'static str {
    if source.to_string().contains("underflow") {
        return "; the file ends early, as after a download that broke off: fetch it again";
    }
    ""
}

/// Why a graph could not be made, read or changed.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Repr>);

impl Error {
    fn repr(repr: Repr) -> Error {
        Error(Box::new(repr))
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Error {
        Error::repr(Repr::Malformed(message.into()))
    }

    pub(crate) fn wire(source: prost::DecodeError) -> Error {
        Error::repr(Repr::Wire(source))
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Error {
        Error::repr(Repr::Unsupported(message.into()))
    }

    pub(crate) fn cycle(message: impl Into<String>) -> Error {
        Error::repr(Repr::Cycle(message.into()))
    }

    pub(crate) fn infer(node: impl Into<String>, source: InferError) -> Error {
        Error::repr(Repr::Infer {
            node: node.into(),
            source,
        })
    }

    pub(crate) fn inference(message: impl Into<String>) -> Error {
        Error::repr(Repr::Inference(message.into()))
    }

    pub(crate) fn external(message: impl Into<String>, source: Option<std::io::Error>) -> Error {
        Error::repr(Repr::ExternalData {
            message: message.into(),
            source,
        })
    }

    pub(crate) fn dim(message: impl Into<String>) -> Error {
        Error::repr(Repr::Dim(message.into()))
    }

    pub(crate) fn mixed(message: impl Into<String>) -> Error {
        Error::repr(Repr::Mixed(message.into()))
    }

    pub(crate) fn text(line: usize, message: impl Into<String>) -> Error {
        Error::repr(Repr::Text {
            line,
            message: message.into(),
        })
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::repr(Repr::Invalid(message.into()))
    }

    /// What went wrong, coarsely.
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Repr::Malformed(_) | Repr::Wire(_) => ErrorKind::Malformed,
            Repr::Unsupported(_) => ErrorKind::Unsupported,
            Repr::Cycle(_) => ErrorKind::Cycle,
            Repr::Infer { .. } | Repr::Inference(_) => ErrorKind::Inference,
            Repr::ExternalData { .. } => ErrorKind::ExternalData,
            Repr::Dim(_) => ErrorKind::Dim,
            Repr::Mixed(_) => ErrorKind::Mixed,
            Repr::Text { .. } => ErrorKind::Text,
            Repr::Invalid(_) => ErrorKind::Invalid,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}, {self})", self.kind())
    }
}
