//! Why a node was not computed.
//!
//! Invariant: `Unsupported` is decided by op, attributes and element types alone.

use std::fmt;

use polychip_cpu_kernels::reference;
use polychip_ops::Op;

/// Why the evaluator does not compute a node of this op, these attributes and these element types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub(crate) String);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kinds of [`EvaluateError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The evaluator has no kernel for this op, attribute or element type.
    Unsupported,
    /// The inputs do not fit the op: a shape, an index or an attribute's value.
    BadInput,
    /// The caller asked to stop.
    Cancelled,
}

/// A node that was not computed.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct EvaluateError(#[from] Inner);

#[derive(Clone, Debug, thiserror::Error)]
enum Inner {
    #[error("{} is not supported: {why}", op.name())]
    Unsupported { op: Op, why: Reason },
    #[error("{}: {why}", op.name())]
    BadInput { op: Op, why: reference::Error },
    #[error("{}: stopped on request", op.name())]
    Cancelled { op: Op },
}

impl EvaluateError {
    pub(crate) fn unsupported(op: Op, why: Reason) -> Self {
        Self(Inner::Unsupported { op, why })
    }

    pub(crate) fn bad_input(op: Op, why: reference::Error) -> Self {
        Self(Inner::BadInput { op, why })
    }

    pub(crate) fn cancelled(op: Op) -> Self {
        Self(Inner::Cancelled { op })
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Inner::Unsupported { .. } => ErrorKind::Unsupported,
            Inner::BadInput { .. } => ErrorKind::BadInput,
            Inner::Cancelled { .. } => ErrorKind::Cancelled,
        }
    }

    /// The op of the node.
    #[must_use]
    pub fn op(&self) -> Op {
        match self.0 {
            Inner::Unsupported { op, .. } | Inner::BadInput { op, .. } | Inner::Cancelled { op } => op,
        }
    }
}
