//! Why a node is not lowered: a reason of the contract and its detail.
//!
//! Invariant: the detail names the tensor, attribute or value concerned.

use polychip_sdk::{Error, Reason, Support};

/// Result of lowering.
pub(crate) type Lowered<T> = Result<T, Refusal>;

/// Why a node is not lowered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Refusal {
        Refusal {
            reason,
            detail: detail.into(),
        }
    }

    /// An attribute value that is not offered.
    pub(crate) fn attribute(detail: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Attribute, detail)
    }

    /// A shape that is not offered.
    pub(crate) fn shape(detail: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Shape, detail)
    }

    /// A quantisation that is not offered.
    pub(crate) fn encoding(detail: impl Into<String>) -> Refusal {
        Refusal::new(Reason::Encoding, detail)
    }

    /// The answer to a question of support.
    pub(crate) fn support(self) -> Support {
        Support::no(self.reason, self.detail)
    }

    /// The error of a compilation, at a node.
    pub(crate) fn error(self, node: u32, op: &str) -> Error {
        Error::unsupported(format!("{op}: {:?}: {}", self.reason, self.detail)).at_node(node)
    }
}
