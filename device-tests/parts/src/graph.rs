//! Short constructors for graphs.

use polychip_graph::{Constant, Graph, Node, Tensor, TensorId};
use polychip_ops::{DType, Op, TensorType};

/// Adds a tensor of known shape.
pub fn tensor(graph: &mut Graph, name: &str, dtype: DType, sizes: &[usize]) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(dtype, sizes)))
}

/// Adds a constant of these bytes.
pub fn constant(graph: &mut Graph, name: &str, dtype: DType, sizes: &[usize], bytes: Vec<u8>) -> TensorId {
    let data = Constant {
        bytes: bytes.into(),
        file: None,
    };
    graph.add_tensor(Tensor::constant(name, TensorType::known(dtype, sizes), data))
}

/// Adds a node of one output, without attributes.
pub fn node(graph: &mut Graph, op: Op, inputs: &[TensorId], output: TensorId) {
    let inputs = inputs.iter().copied().map(Some).collect();
    graph.add_node(Node::new(op, inputs, vec![Some(output)]));
}

/// `y = op(x, c)` of one type, `y` of the shape of `x`.
#[must_use]
pub fn binary(op: Op, dtype: DType, [left, right]: [&[usize]; 2]) -> Graph {
    let mut graph = Graph::new("binary");
    let x = tensor(&mut graph, "x", dtype, left);
    let c = tensor(&mut graph, "c", dtype, right);
    let y = tensor(&mut graph, "y", dtype, left);
    node(&mut graph, op, &[x, c], y);
    graph.inputs = vec![x, c];
    graph.outputs = vec![y];
    graph
}

/// `y = relu(x + [1, -1, 0.5, -8])`.
#[must_use]
pub fn relu_of_sum() -> Graph {
    let mut graph = Graph::new("sum");
    let x = tensor(&mut graph, "x", DType::F32, &[4]);
    let summand = floats(&[1.0, -1.0, 0.5, -8.0]);
    let c = constant(&mut graph, "c", DType::F32, &[4], summand);
    let sum = tensor(&mut graph, "sum", DType::F32, &[4]);
    let y = tensor(&mut graph, "y", DType::F32, &[4]);
    node(&mut graph, Op::Add, &[x, c], sum);
    node(&mut graph, Op::Relu, &[sum], y);
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    graph
}

/// Numbers as bytes of f32.
#[must_use]
pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Bytes of f32 as numbers.
#[must_use]
pub fn numbers(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks().0.iter();
    words.map(|&bytes| f32::from_le_bytes(bytes)).collect()
}
