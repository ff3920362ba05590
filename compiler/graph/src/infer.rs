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

use polychip_ops::{self as ops, Dim, ErrorKind as Rule, InferInput, Inferred, Op, TensorType, Value};

use crate::describe::describe;
use crate::{Container, Error, Graph, Node, NodeId, TensorId};

mod control;
mod sequence;

/// Most elements of a constant whose values take part in shape arithmetic.
const VALUE_ELEMENTS: usize = 1024;

/// Values of tensors, as far as shape arithmetic knows them.
#[derive(Clone, Debug, Default)]
pub struct Values {
    known: Vec<Option<Value>>,
}

impl Values {
    /// What is known of a tensor's values. Small constants are not listed here: they are in the graph.
    pub fn get(&self, id: TensorId) -> Option<&Value> {
        self.known.get(id.index())?.as_ref()
    }

    pub(crate) fn set(&mut self, id: TensorId, value: Option<Value>) {
        if self.known.len() <= id.index() {
            self.known.resize(id.index() + 1, None);
        }
        self.known[id.index()] = value;
    }
}

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

/// The known value of a tensor: of shape arithmetic, or of a small constant.
pub(crate) fn value_of(graph: &Graph, values: &Values, id: TensorId) -> Option<Value> {
    if let Some(value) = values.get(id) {
        return Some(value.clone());
    }
    let tensor = graph.tensor(id);
    let data = tensor.data.as_ref()?;
    (tensor.ty.elements()? <= VALUE_ELEMENTS).then(|| data.to_literal(&tensor.ty).map(Value::Literal))?
}

/// Whether an op reads and writes the stored integers of tensors with an encoding, not the reals that they encode.
fn stores(node: &Node) -> bool {
    matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear)
}

/// Infers the outputs of one node from its inputs.
pub(crate) fn node(graph: &mut Graph, id: NodeId, values: &mut Values) -> Result<(), Error> {
    match graph.node(id).op {
        Op::Custom => return Ok(()),
        Op::If | Op::Loop | Op::Scan | Op::SequenceMap => return control::infer(graph, id, values),
        _ => {}
    }
    if sequence::infer(graph, id)? {
        return Ok(());
    }
    let node = graph.node(id);
    let mut inputs: Vec<Option<(TensorType, Option<Value>)>> = Vec::with_capacity(node.inputs.len());
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
                Some((ty, None))
            }
            None => Some((tensor.ty.clone(), value_of(graph, values, input))),
        });
    }
    let run = |inputs: &[Option<(TensorType, Option<Value>)>]| {
        let inputs: Vec<Option<InferInput<'_>>> = inputs
            .iter()
            .map(|input| {
                input.as_ref().map(|(ty, value)| InferInput {
                    ty,
                    value: value.as_ref(),
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
                ty.shape = ty.shape.as_ref().map(|shape| vec![Dim::Unknown; shape.len()]);
            }
        }
        result = run(&inputs);
    }
    let inferred = match result {
        Ok(inferred) => inferred,
        Err(error) if matches!(error.kind(), Rule::Custom | Rule::NotTensor | Rule::NeedsBody) => {
            return Ok(());
        }
        Err(error) => return Err(Error::infer(describe(graph, node), error)),
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

/// Notes what was inferred of an output.
pub(crate) fn assign(
    graph: &mut Graph,
    node: NodeId,
    output: TensorId,
    inferred: Inferred,
    values: &mut Values,
) -> Result<(), Error> {
    let tensor = graph.tensor(output);
    let mut inferred = inferred;
    if let Some(encoding) = tensor.encoding.as_ref().filter(|_| !stores(graph.node(node))) {
        if encoding.real == inferred.ty.dtype {
            inferred.ty.dtype = tensor.ty.dtype;
        }
        inferred.value = None;
    }
    if tensor.typed && tensor.ty.dtype != inferred.ty.dtype {
        return Err(Error::inference(format!(
            "node {}: output \"{}\" is declared as {}, but is {}",
            describe(graph, graph.node(node)),
            tensor.name,
            tensor.ty.dtype,
            inferred.ty.dtype
        )));
    }
    let tensor = graph.tensor_mut(output);
    let declared = tensor.typed.then_some(tensor.ty.shape.take()).flatten();
    tensor.ty = TensorType {
        dtype: inferred.ty.dtype,
        shape: merge(inferred.ty.shape, declared),
    };
    tensor.typed = true;
    tensor.container = Container::Tensor;
    tensor.upper_bound = inferred.upper_bound;
    values.set(output, inferred.value);
    Ok(())
}

/// The inferred shape, with declared sizes where inference knows none.
fn merge(inferred: Option<Vec<Dim>>, declared: Option<Vec<Dim>>) -> Option<Vec<Dim>> {
    let Some(mut dims) = inferred else { return declared };
    if let Some(declared) = declared.filter(|declared| declared.len() == dims.len()) {
        for (dim, declared) in dims.iter_mut().zip(declared) {
            if *dim == Dim::Unknown {
                *dim = declared;
            }
        }
    }
    Some(dims)
}

#[cfg(test)]
mod tests;
