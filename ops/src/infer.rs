//! Shape and dtype inference of one node from what is known of its inputs.
//!
//! Invariants:
//! 1. Inputs that are certainly wrong are an error; what is only unknown flows through.
//! 2. A size that is given is right for every run, or a bound where `upper_bound` says so.
//! 3. Without symbols and with the values of shape inputs, every size comes out known.
//!
//! Not here: body graphs of If, Loop and Scan, sequences and optionals (an error names them).

use crate::{Attributes, ErrorKind, InferError, Op, TensorType, Value};

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

/// Infers the outputs of a node: `outputs` of them, trailing optional ones left out.
///
/// # Errors
/// Where a rule of the op is broken, or the op is one that shapes alone do not tell:
/// see [`ErrorKind`].
pub fn infer(
    op: Op,
    attributes: &Attributes,
    inputs: &[Option<InferInput<'_>>],
    outputs: usize,
) -> Result<Vec<Inferred>, InferError> {
    let _ = (attributes, inputs, outputs);
    Err(InferError::new(
        op,
        ErrorKind::Custom,
        "no shape function is known",
    ))
}
