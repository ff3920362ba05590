//! Types and shapes over a whole graph, node by node in order, with values of shape arithmetic.
//!
//! Invariants:
//! 1. What inference finds replaces what was declared, but for sizes it cannot tell.
//! 2. A size that depends on values is a bound (`Tensor::upper_bound`), and so is what follows from
//!    it; `Shape` of such a tensor has no known value.
//! 3. An op on a tensor with an encoding sees the real type; the tensor keeps that of its integers.
//! 4. An op outside the list leaves its outputs as they are declared; it is no error.
//!
//! Not here: the rules of each op (`polychip_ops::infer`).

use std::borrow::Cow;

use polychip_ops::{self as ops, Dim, ErrorKind as Rule, InferInput, Op, TensorType, Value};
use smallvec::SmallVec;

use crate::{Container, Error, Graph, NodeId};

mod control;
mod sequence;
mod values;

pub use values::Values;
pub(crate) use values::{assign, value_of};
use values::{facts_of, stores};

/// Infers every type and shape of a graph and its bodies.
///
/// # Errors
/// If a node breaks a rule of its op; the message names the node.
pub fn infer(graph: &mut Graph) -> Result<Values, Error> {
    let mut values = Values::default();
    infer_seeded(graph, &mut values)?;
    Ok(values)
}

/// As [`infer`], with values of some inputs known.
pub(crate) fn infer_seeded(graph: &mut Graph, values: &mut Values) -> Result<(), Error> {
    for id in graph.node_ids() {
        node(graph, id, values)?;
    }
    Ok(())
}

/// The type of an input, and what is known of its values.
type InputFacts<'a> = (Cow<'a, TensorType>, Option<Cow<'a, Value>>);

/// Infers the outputs of one node from its inputs.
pub(crate) fn node(graph: &mut Graph, id: NodeId, values: &mut Values) -> Result<(), Error> {
    match graph.node(id).op {
        Op::Custom => return Ok(()),
        Op::If | Op::Loop | Op::Scan | Op::SequenceMap => {
            return control::infer(graph, id, values, infer_seeded);
        }
        _ => {}
    }
    if sequence::infer(graph, id)? {
        return Ok(());
    }
    let node = graph.node(id);
    let mut inputs: SmallVec<[Option<InputFacts<'_>>; 4]> = SmallVec::with_capacity(node.inputs.len());
    let mut bound = false;
    for input in &node.inputs {
        let Some(input) = *input else {
            inputs.push(None);
            continue;
        };
        let tensor = graph.tensor(input);
        if !tensor.typed || tensor.container != Container::Tensor {
            return Ok(());
        }
        // rules look at each axis among all of them
        tensor.check_rank()?;
        bound |= tensor.upper_bound;
        inputs.push(match tensor.encoding.as_ref().filter(|_| !stores(node)) {
            Some(encoding) => {
                let mut ty = tensor.ty.clone();
                ty.dtype = encoding.real;
                Some((Cow::Owned(ty), None))
            }
            None => Some((Cow::Borrowed(&tensor.ty), facts_of(graph, values, input))),
        });
    }
    let run = |inputs: &[Option<InputFacts<'_>>]| {
        let inputs: SmallVec<[Option<InferInput<'_>>; 4]> = inputs
            .iter()
            .map(|input| {
                input.as_ref().map(|(ty, value)| InferInput {
                    ty,
                    value: value.as_deref(),
                })
            })
            .collect();
        ops::infer(node.op, &node.attributes, &inputs, node.outputs.len())
    };
    let mut result = run(&inputs);
    if bound && result.is_err() {
        // bounds that do not fit together may be sizes that do
        for (input, id) in inputs.iter_mut().zip(&node.inputs) {
            let (Some((ty, _)), Some(id)) = (input, id) else {
                continue;
            };
            if graph.tensor(*id).upper_bound {
                let ty = ty.to_mut();
                ty.shape = ty.shape.as_ref().map(|shape| vec![Dim::Unknown; shape.len()]);
            }
        }
        result = run(&inputs);
    }
    drop(inputs);
    let inferred = match result {
        Ok(inferred) => inferred,
        Err(error) if matches!(error.kind(), Rule::Custom | Rule::NotTensor | Rule::NeedsBody) => {
            return Ok(());
        }
        Err(error) => return Err(Error::infer(graph.describe(node), error)),
    };
    let outputs = node.outputs.clone();
    let measures = matches!(node.op, Op::Shape | Op::Size);
    for (output, mut inferred) in outputs.into_iter().zip(inferred) {
        let Some(output) = output else { continue };
        if bound && measures {
            inferred.value = None;
        } else if bound {
            inferred.upper_bound |= inferred.ty.rank() != Some(0);
        }
        assign(graph, id, output, inferred, values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
