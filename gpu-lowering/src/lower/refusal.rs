//! Why a node is not lowered: a reason code of the contract and words.

use polychip_ops::InferError;
use polychip_sdk::{Error, Reason, Support};

/// Result of a step of lowering.
pub(crate) type Outcome<T> = Result<T, Refusal>;

/// A node that this plugin does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    reason: Reason,
    words: String,
    node: Option<u32>,
}

impl Refusal {
    /// A refusal for this reason.
    pub(crate) fn new(reason: Reason, words: impl Into<String>) -> Refusal {
        Refusal {
            reason,
            words: words.into(),
            node: None,
        }
    }

    /// The same at a node of the call's graph, unless it names one already.
    pub(crate) fn at(mut self, node: u32) -> Refusal {
        self.node.get_or_insert(node);
        self
    }

    /// The answer for a node.
    pub(crate) fn support(self) -> Support {
        Support::no(self.reason, self.words)
    }
}

impl From<polychip_gpu_kernels::Error> for Refusal {
    fn from(error: polychip_gpu_kernels::Error) -> Refusal {
        Refusal::new(Reason::Shape, error.to_string())
    }
}

impl From<InferError> for Refusal {
    fn from(error: InferError) -> Refusal {
        Refusal::new(Reason::Attribute, error.to_string())
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let error = Error::unsupported(refusal.words);
        match refusal.node {
            Some(node) => error.at_node(node),
            None => error,
        }
    }
}

/// A refusal of an op.
pub(super) fn op(words: impl Into<String>) -> Refusal {
    Refusal::new(Reason::Op, words)
}

/// A refusal of a data type.
pub(super) fn dtype(words: impl Into<String>) -> Refusal {
    Refusal::new(Reason::DType, words)
}

/// A refusal of a shape.
pub(super) fn shape(words: impl Into<String>) -> Refusal {
    Refusal::new(Reason::Shape, words)
}

/// A refusal of an attribute.
pub(super) fn attribute(words: impl Into<String>) -> Refusal {
    Refusal::new(Reason::Attribute, words)
}

/// A refusal of an input that would have to be constant.
pub(super) fn constant(words: impl Into<String>) -> Refusal {
    Refusal::new(Reason::NotConstant, words)
}
