//! The one error of this crate: why the outputs of a node cannot be inferred.
//!
//! Invariants:
//! 1. The message names the op, the port or attribute, and the sizes or types seen.
//! 2. An error means a bad model or one outside the rules; never a bug of ours.
//!
//! Not here: names of nodes and tensors; the graph adds those.

use std::fmt;

use crate::Op;

/// What kind of rule a node breaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Too few or too many inputs or outputs.
    Arity,
    /// An element type that the port does not take, or that differs from its fellows.
    DType,
    /// A rank or size that does not fit.
    Shape,
    /// An attribute that is missing, of the wrong kind or out of range.
    Attribute,
    /// A value of an input that is out of range.
    Value,
    /// The op carries body graphs: the graph infers those first.
    NeedsBody,
    /// The op works on sequences or optionals, which are not tensors.
    NotTensor,
    /// A custom op: nothing is known of its outputs.
    Custom,
    /// A size does not fit the machine.
    Overflow,
}

/// Why inference failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .0.op, .0.message)]
pub struct InferError(Box<Repr>);

#[derive(Clone, PartialEq, Eq)]
struct Repr {
    op: Op,
    kind: ErrorKind,
    input: Option<usize>,
    message: String,
}

impl InferError {
    pub(crate) fn new(op: Op, kind: ErrorKind, message: impl Into<String>) -> InferError {
        InferError(Box::new(Repr {
            op,
            kind,
            input: None,
            message: message.into(),
        }))
    }

    pub(crate) fn at_input(mut self, input: usize) -> InferError {
        self.0.input = Some(input);
        self
    }

    /// The kind of rule that was broken.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The op.
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// The input concerned, where it is one.
    pub fn input(&self) -> Option<usize> {
        self.0.input
    }
}

impl fmt::Debug for InferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InferError({:?}, {self})", self.0.kind)
    }
}
