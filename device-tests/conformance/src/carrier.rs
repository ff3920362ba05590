//! Small graphs for all cases except those about ops: the first one that a device supports.
//!
//! Invariant: every carrier has an input, an output, and a result that differs from its inputs and from zero.

use std::sync::LazyLock;

use polychip_graph::{Encoding, EncodingAxis, Graph, Node, Tensor, TensorId};
use polychip_ops::{DType, Literal, Op, TensorType};

use crate::problem::{Numbers, Problem};
use crate::value::literal;

/// The carriers, in the order in which they are tried.
#[must_use]
pub fn all() -> &'static [Problem] {
    static ALL: LazyLock<Vec<Problem>> = LazyLock::new(|| {
        vec![
            add_relu("add-relu-f32", DType::F32, &[1, 3, 5, 7], None),
            add_relu("add-relu-f32-vector", DType::F32, &[8], None),
            add_relu("add-relu-f16", DType::F16, &[1, 3, 5, 7], None),
            add_relu("add-relu-u8", DType::U8, &[1, 4, 8, 8], Some(quantised())),
            identity(),
        ]
    });
    &ALL
}

/// Names of the carriers.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().iter().map(|problem| problem.name.as_str())
}

fn quantised() -> Encoding {
    Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [0.02].into(),
        zero_points: [64].into(),
        real: DType::F32,
    }
}

/// A tensor of a graph.
fn tensor(
    graph: &mut Graph,
    name: &str,
    dtype: DType,
    sizes: &[usize],
    encoding: &Option<Encoding>,
) -> TensorId {
    let mut tensor = Tensor::new(name, TensorType::known(dtype, sizes));
    tensor.encoding.clone_from(encoding);
    graph.add_tensor(tensor)
}

/// `y = relu(a + b)`.
fn add_relu(name: &str, dtype: DType, sizes: &[usize], encoding: Option<Encoding>) -> Problem {
    let mut graph = Graph::new(name);
    let [a, b, sum, y] = ["a", "b", "sum", "y"].map(|name| tensor(&mut graph, name, dtype, sizes, &encoding));
    graph.add_node(Node::new(Op::Add, vec![Some(a), Some(b)], vec![Some(sum)]).named("add"));
    graph.add_node(Node::new(Op::Relu, vec![Some(sum)], vec![Some(y)]).named("relu"));
    graph.inputs = vec![a, b];
    graph.outputs = vec![y];
    let (low, high) = if encoding.is_some() {
        (0.0, 150.0)
    } else {
        (-2.0, 3.0)
    };
    let inputs = ["a", "b"].map(|input| values(&format!("{name}/{input}"), dtype, sizes, low, high));
    Problem::new(graph, inputs.to_vec()).expect("invariant: the carriers are tested")
}

fn identity() -> Problem {
    let mut graph = Graph::new("identity-f32");
    let [x, y] = ["x", "y"].map(|name| tensor(&mut graph, name, DType::F32, &[8], &None));
    graph.add_node(Node::new(Op::Identity, vec![Some(x)], vec![Some(y)]).named("identity"));
    graph.inputs = vec![x];
    graph.outputs = vec![y];
    Problem::new(graph, vec![values("identity", DType::F32, &[8], 1.0, 3.0)])
        .expect("invariant: the carriers are tested")
}

/// Values of a tensor from a seed.
#[must_use]
pub fn values(seed: &str, dtype: DType, sizes: &[usize], low: f64, high: f64) -> Literal {
    let mut numbers = Numbers::of(seed);
    let count = sizes.iter().product();
    let values: Vec<f64> = (0..count).map(|_| numbers.between(low, high)).collect();
    literal(dtype, sizes, &values).expect("invariant: carriers are of numbers")
}

#[cfg(test)]
mod tests {
    #[test]
    fn carriers_compute_something() {
        for problem in super::all() {
            let output = &problem.expected[0];
            assert!(output.bytes.iter().any(|byte| *byte != 0), "{}", problem.name);
            assert!(
                problem.name.starts_with("identity")
                    || problem.inputs.iter().all(|input| input.bytes != output.bytes)
            );
        }
        assert_eq!(super::names().count(), super::all().len());
    }
}
