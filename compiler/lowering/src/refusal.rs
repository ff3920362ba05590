//! Why a node is not lowered: a reason code of the contract and words.
//!
//! Invariant: the words name the tensor, attribute or value concerned.

use polychip_ops::InferError;
use polychip_sdk::{Error, ErrorKind, Reason, Support};

/// Result of a step of lowering.
pub type Outcome<T> = Result<T, Refusal>;

/// A node that is not lowered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    reason: Reason,
    words: String,
    node: Option<u32>,
}

impl Refusal {
    /// A refusal for this reason.
    pub fn new(reason: Reason, words: impl Into<String>) -> Refusal {
        Refusal {
            reason,
            words: words.into(),
            node: None,
        }
    }

    /// A refusal of an op.
    pub fn op(words: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Op, words)
    }

    /// A refusal of a data type.
    pub fn dtype(words: impl Into<String>) -> Refusal {
        Refusal::new(Reason::DType, words)
    }

    /// A refusal of a shape.
    pub fn shape(words: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Shape, words)
    }

    /// A refusal of an attribute.
    pub fn attribute(words: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Attribute, words)
    }

    /// A refusal of a quantisation.
    pub fn encoding(words: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Encoding, words)
    }

    /// A refusal of an input that would have to be constant.
    pub fn constant(words: impl Into<String>) -> Refusal {
        Refusal::new(Reason::NotConstant, words)
    }

    /// The same at a node of the call's graph, unless it names one already.
    #[must_use]
    pub fn at(mut self, node: u32) -> Refusal {
        self.node.get_or_insert(node);
        self
    }

    /// Reason code.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The node of the call's graph, where it is known.
    pub fn node(&self) -> Option<u32> {
        self.node
    }

    /// The words.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The answer for a node.
    pub fn support(self) -> Support {
        Support::no(self.reason, self.words)
    }
}

impl From<InferError> for Refusal {
    fn from(error: InferError) -> Refusal {
        Refusal::attribute(error.to_string())
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let error = match refusal.reason {
            Reason::Memory => Error::new(ErrorKind::OutOfMemory, refusal.words),
            _ => Error::unsupported(refusal.words),
        };
        match refusal.node {
            Some(node) => error.at_node(node),
            None => error,
        }
    }
}
