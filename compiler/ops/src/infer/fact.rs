//! What is known of a node's inputs, and what follows for its outputs.
//!
//! Invariant: a size or value that stands here is right for every run, or is marked as an upper bound.
//! Not here: how it follows (`infer`, a file per op class).

use crate::{TensorType, Value};

/// What is known of one input.
#[derive(Clone, Copy, Debug)]
pub struct InferInput<'a> {
    /// Element type and shape.
    pub ty: &'a TensorType,
    /// Its values, as far as they are known.
    pub value: Option<&'a Value>,
}

/// What follows for one output.
#[derive(Clone, PartialEq, Debug)]
pub struct Inferred {
    /// Element type and shape.
    pub ty: TensorType,
    /// Its values, where shape arithmetic gives them.
    pub value: Option<Value>,
    /// The sizes depend on values at run time: the known ones are upper bounds.
    pub upper_bound: bool,
}
