//! Tensors as polynomials of another tensor, so that a formula is found in whatever order it is written.
//!
//! Invariant: the polynomial describes the tensor for every value of `x`, up to rounding.

use polychip_ops::Op;

use crate::passes::pattern;
use crate::{Graph, TensorId};

/// Coefficients of 1, x, x² and x³.
pub(super) type Polynomial = [f64; 4];

/// How deep a formula may nest.
const DEPTH: usize = 6;

/// The tensor as a polynomial of `x`, if it is one of degree 3 at most.
pub(super) fn of(graph: &Graph, tensor: TensorId, x: TensorId) -> Option<Polynomial> {
    expand(graph, tensor, x, DEPTH)
}

fn expand(graph: &Graph, tensor: TensorId, x: TensorId, depth: usize) -> Option<Polynomial> {
    if tensor == x {
        return Some([0.0, 1.0, 0.0, 0.0]);
    }
    if let Some(value) = pattern::scalar(graph, tensor) {
        return Some([value, 0.0, 0.0, 0.0]);
    }
    let depth = depth.checked_sub(1)?;
    let node = graph.node(graph.producer(tensor)?);
    let (a, b) = pattern::pair(node)?;
    let left = |depth| expand(graph, a, x, depth);
    let right = |depth| expand(graph, b, x, depth);
    match node.op {
        Op::Add => Some(combine(left(depth)?, right(depth)?, 1.0)),
        Op::Sub => Some(combine(left(depth)?, right(depth)?, -1.0)),
        Op::Mul => product(left(depth)?, right(depth)?),
        Op::Div => Some(left(depth)?.map(|c| c / pattern::scalar(graph, b).unwrap_or(f64::NAN)))
            .filter(|coefficients| coefficients.iter().all(|c| c.is_finite())),
        Op::Pow => {
            let base = left(depth)?;
            match pattern::scalar(graph, b)? {
                1.0 => Some(base),
                2.0 => product(base, base),
                3.0 => product(product(base, base)?, base),
                _ => None,
            }
        }
        _ => None,
    }
}

fn combine(a: Polynomial, b: Polynomial, sign: f64) -> Polynomial {
    std::array::from_fn(|power| a[power] + sign * b[power])
}

/// The product; `None` above degree 3.
pub(super) fn product(a: Polynomial, b: Polynomial) -> Option<Polynomial> {
    let mut result = [0.0; 4];
    for (i, &left) in a.iter().enumerate() {
        for (j, &right) in b.iter().enumerate() {
            if left != 0.0 && right != 0.0 {
                *result.get_mut(i + j)? += left * right;
            }
        }
    }
    Some(result)
}

/// Whether all coefficients agree within a relative tolerance.
pub(super) fn near(a: Polynomial, b: Polynomial, tolerance: f64) -> bool {
    a.iter()
        .zip(&b)
        .all(|(a, b)| (a - b).abs() <= tolerance * b.abs())
}

/// Tensors that a formula may be a polynomial of: whatever is read on the way down, nearest first.
pub(super) fn candidates(graph: &Graph, tensor: TensorId) -> Vec<TensorId> {
    let mut found = vec![tensor];
    let mut next = 0;
    while next < found.len() && found.len() < 16 {
        let producer = graph.producer(found[next]).map(|id| graph.node(id));
        next += 1;
        let Some(node) =
            producer.filter(|node| matches!(node.op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Pow))
        else {
            continue;
        };
        for input in node.reads() {
            if !graph.tensor(input).is_constant() && !found.contains(&input) {
                found.push(input);
            }
        }
    }
    found
}

/// Follows `tensor` through products with polynomials of `x` as long as nobody else reads it, and
/// returns the tensor where the product of all of them is `goal`.
pub(super) fn climb(
    graph: &Graph,
    mut tensor: TensorId,
    x: TensorId,
    goal: Polynomial,
    tolerance: f64,
) -> Option<TensorId> {
    let mut total = [1.0, 0.0, 0.0, 0.0];
    for _ in 0..DEPTH {
        let node = graph.node(graph.only_consumer(tensor)?);
        let factor = match node.op {
            Op::Mul => of(graph, pattern::other(node, tensor)?, x)?,
            Op::Div if node.input(0) == Some(tensor) => {
                [1.0 / pattern::scalar(graph, node.input(1)?)?, 0.0, 0.0, 0.0]
            }
            _ => return None,
        };
        total = product(total, factor)?;
        tensor = node.output(0)?;
        if near(total, goal, tolerance) {
            return Some(tensor);
        }
    }
    None
}
