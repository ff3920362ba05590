//! What inference knows of tensors' values, and how it notes what it found.
//!
//! Not here: the order of nodes (`infer`), bodies (`control`).

use std::borrow::Cow;

use polychip_ops::{Dim, Inferred, Op, TensorType, Value};

use crate::{Container, Error, Graph, Node, NodeId, TensorId};

/// Most elements of a constant whose values take part in shape arithmetic.
pub(super) const VALUE_ELEMENTS: usize = 1024;

/// Values of tensors, as far as shape arithmetic knows them.
#[derive(Clone, Debug, Default)]
pub struct Values {
    pub(super) known: Vec<Option<Value>>,
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

/// The known value of a tensor: of shape arithmetic, or of a small constant.
pub(crate) fn value_of(graph: &Graph, values: &Values, id: TensorId) -> Option<Value> {
    facts_of(graph, values, id).map(Cow::into_owned)
}

/// As [`value_of`], without a copy of what is listed.
pub(super) fn facts_of<'a>(graph: &Graph, values: &'a Values, id: TensorId) -> Option<Cow<'a, Value>> {
    if let Some(value) = values.get(id) {
        return Some(Cow::Borrowed(value));
    }
    let tensor = graph.tensor(id);
    let data = tensor.data.as_ref()?;
    let literal = (tensor.ty.elements()? <= VALUE_ELEMENTS).then(|| data.to_literal(&tensor.ty))?;
    literal.map(Value::Literal).map(Cow::Owned)
}

/// Whether an op reads and writes the stored integers of tensors with an encoding, not the reals that they encode.
pub(super) fn stores(node: &Node) -> bool {
    matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear)
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
            graph.describe(graph.node(node)),
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
