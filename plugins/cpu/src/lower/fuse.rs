//! Which nodes are computed in the epilogue of a convolution or matrix product, in the pass of a normalisation, or by
//! the strides of an attention.
//!
//! Invariants:
//! 1. A tensor inside a chain has one reader, no encoding, and is no output of the part.
//! 2. A chain is emitted at the place of its last node, so that a residual from another branch exists by then.
//! 3. A node is in at most one chain.
//!
//! The graph's own groups are hints of the same patterns; since a group may hold more than an epilogue can do,
//! the chains are found here, from the nodes themselves.

use polychip_cpu_kernels::Unary;
use polychip_ops::Op;

use super::brief::Precision;
use super::{IDENTITY, attention, conv, elementwise, matmul, nibbles, normalise};
use crate::part::{Node, Part, TensorIndex};

/// What is computed behind an anchor.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    /// A constant added per output channel or column, as many elements as there are of them.
    pub(crate) bias: Option<TensorIndex>,
    /// A tensor of the result's shape that is added.
    pub(crate) residual: Option<TensorIndex>,
    /// The residual is added after the activation.
    pub(crate) after: bool,
    /// Applied to the sum.
    pub(crate) activation: Unary,
    /// Factor of a product of two computed operands.
    pub(crate) alpha: f32,
    /// The tensor that comes out, where nodes are fused behind the anchor.
    pub(crate) output: Option<TensorIndex>,
    /// The sum that the anchor, a normalisation, makes on its way.
    pub(crate) sum: Option<Sum>,
}

/// A sum of two tensors of one shape, made by the normalisation that reads it first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sum {
    /// What is added.
    pub(crate) terms: [TensorIndex; 2],
    /// Others read the sum, too.
    pub(crate) kept: bool,
}

impl Tail {
    /// Nothing behind the anchor.
    pub(crate) const NONE: Tail = Tail {
        bias: None,
        residual: None,
        after: false,
        activation: IDENTITY,
        alpha: 1.0,
        output: None,
        sum: None,
    };
}

/// The chains of a part.
pub(crate) struct Fusion {
    /// Per node: the anchor emitted in its place and what is behind it, or nothing where it is part of a chain.
    emitted: Vec<Option<(usize, Tail)>>,
    /// Per tensor: what an attention reads in its stead, where a transposition of rows and heads would make it.
    turned: Vec<Option<TensorIndex>>,
}

impl Fusion {
    /// Per tensor what an attention reads in its stead.
    pub(crate) fn turned(&self) -> &[Option<TensorIndex>] {
        &self.turned
    }

    /// The anchor that is emitted at the place of a node.
    pub(crate) fn at(&self, node: usize) -> Option<(usize, &Tail)> {
        self.emitted[node].as_ref().map(|(anchor, tail)| (*anchor, tail))
    }
}

/// Finds the chains of a part.
pub(crate) fn plan(part: &Part, precision: &Precision) -> Fusion {
    let uses = part.uses();
    let mut first: Vec<Option<usize>> = vec![None; part.tensors.len()];
    let mut reader = first.clone();
    for (index, node) in part.nodes.iter().enumerate() {
        for tensor in node.reads() {
            first[tensor].get_or_insert(index);
            reader[tensor] = Some(index);
        }
    }
    let mut taken = vec![false; part.nodes.len()];
    let mut emitted: Vec<Option<(usize, Tail)>> = vec![None; part.nodes.len()];
    let mut turned = vec![None; part.tensors.len()];
    attentions(part, &uses, &reader, &mut taken, &mut emitted, &mut turned);
    let mut sums: Vec<Option<Sum>> = vec![None; part.nodes.len()];
    for (index, node) in part.nodes.iter().enumerate() {
        if taken[index] {
            continue;
        }
        if let Some((norm, terms)) = normalised(part, node, &first) {
            let kept = node.output(0).is_some_and(|sum| uses[sum] > 1);
            sums[norm] = Some(Sum { terms, kept });
            continue;
        }
        let anchor = if nibbles::covers(part, node) {
            emitted[index] = Some((index, Tail::NONE));
            continue;
        } else if conv::covers(part, node) {
            Anchor::Conv
        } else if matmul::covers_constant(part, node) {
            Anchor::Product
        } else if matmul::covers(part, node) {
            Anchor::Computed
        } else {
            let tail = Tail {
                sum: sums[index],
                ..Tail::NONE
            };
            emitted[index] = Some((index, tail));
            continue;
        };
        let Some(mut current) = node.output(0) else {
            emitted[index] = Some((index, Tail::NONE));
            continue;
        };
        if let Some((next, tail)) = joined(part, node, current, &uses, &reader)
            && !taken[next]
        {
            taken[next] = true;
            emitted[next] = Some((index, tail));
            continue;
        }
        let mut chain = Chain {
            part,
            precision,
            anchor,
            tail: Tail::NONE,
            has_bias: has_bias(part, index),
        };
        let mut last = index;
        while uses[current] == 1 && part.plain_f32(current) {
            let Some(next) = reader[current].filter(|&next| !taken[next]) else {
                break;
            };
            let Some(output) = chain.absorb(next, current) else {
                break;
            };
            taken[next] = true;
            last = next;
            current = output;
        }
        if last != index {
            chain.tail.output = Some(current);
        }
        emitted[last] = Some((index, chain.tail));
    }
    Fusion { emitted, turned }
}

/// Finds the transpositions of rows and heads around attentions, which read and write through strides.
fn attentions(
    part: &Part,
    uses: &[usize],
    reader: &[Option<usize>],
    taken: &mut [bool],
    emitted: &mut [Option<(usize, Tail)>],
    turned: &mut [Option<TensorIndex>],
) {
    let mut maker: Vec<Option<usize>> = vec![None; part.tensors.len()];
    for (index, node) in part.nodes.iter().enumerate() {
        for &tensor in node.outputs.iter().flatten() {
            maker[tensor] = Some(index);
        }
    }
    for (index, node) in part.nodes.iter().enumerate() {
        if !attention::covers(part, node) {
            continue;
        }
        for &tensor in node.inputs.iter().take(3).flatten() {
            if uses[tensor] == 1
                && let Some(turn) = maker[tensor]
                && let Some(source) = attention::turns(part, &part.nodes[turn])
            {
                turned[tensor] = Some(source);
                taken[turn] = true;
            }
        }
        if let Some(output) = node.output(0)
            && uses[output] == 1
            && let Some(turn) = reader[output]
            && attention::turns(part, &part.nodes[turn]) == Some(output)
        {
            (taken[index], taken[turn]) = (true, true);
            let tail = Tail {
                output: part.nodes[turn].output(0),
                ..Tail::NONE
            };
            emitted[turn] = Some((index, tail));
        }
    }
}

/// The normalisation that adds the two terms of a sum on its way, and the terms.
fn normalised(part: &Part, node: &Node, first: &[Option<usize>]) -> Option<(usize, [TensorIndex; 2])> {
    if node.op != Op::Add {
        return None;
    }
    let (a, b, sum) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let norm = first[sum]?;
    let alike = [a, b]
        .iter()
        .all(|&t| part.plain_f32(t) && part.dims(t) == part.dims(sum));
    let adds = alike
        && part.plain_f32(sum)
        && part.nodes[norm].input(0) == Some(sum)
        && normalise::adds(part, &part.nodes[norm]);
    adds.then_some((norm, [a, b]))
}

/// The sum that a product of codes takes part in, where it is computed in integers as one with it.
fn joined(
    part: &Part,
    node: &Node,
    current: TensorIndex,
    uses: &[usize],
    reader: &[Option<usize>],
) -> Option<(usize, Tail)> {
    let next = reader[current].filter(|&next| uses[current] == 1 && part.nodes[next].op == Op::Add)?;
    let sum = &part.nodes[next];
    let other = [sum.input(0)?, sum.input(1)?]
        .into_iter()
        .find(|&t| t != current)?;
    let output = super::quantised::joins_residual(part, node, sum, other)?;
    let tail = Tail {
        residual: Some(other),
        output: Some(output),
        ..Tail::NONE
    };
    Some((next, tail))
}

fn has_bias(part: &Part, node: usize) -> bool {
    part.nodes[node].input(2).is_some()
}

/// What an anchor's epilogue can do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// Convolution: bias per channel, residual, activation.
    Conv,
    /// Product with a constant: bias per column, residual, activation.
    Product,
    /// Product of two computed operands: factor, activation.
    Computed,
}

struct Chain<'a> {
    part: &'a Part,
    precision: &'a Precision,
    anchor: Anchor,
    tail: Tail,
    has_bias: bool,
}

impl Chain<'_> {
    /// Takes a node that reads `current` into the chain, and gives the tensor that comes out.
    fn absorb(&mut self, next: usize, current: TensorIndex) -> Option<TensorIndex> {
        let part = self.part;
        let node = &part.nodes[next];
        let output = node.output(0)?;
        // an output with an encoding is rounded behind the chain, so it may only be its last tensor
        let f32_out = super::convert::stands_for_f32(part, output);
        if !f32_out || self.tail.after || part.dims(output)? != part.dims(current)? {
            return None;
        }
        let bare = self.tail.activation == IDENTITY;
        if let Some(activation) = elementwise::activation(part, node) {
            if node.input(0) != Some(current) || !bare {
                return None;
            }
            self.tail.activation = activation;
            return Some(output);
        }
        match node.op {
            Op::Add => {
                let other = [node.input(0)?, node.input(1)?]
                    .into_iter()
                    .find(|&t| t != current)?;
                if self.anchor == Anchor::Computed {
                    return None;
                }
                if !self.has_bias && bare && self.tail.residual.is_none() && self.is_bias(other, output) {
                    self.tail.bias = Some(other);
                    self.has_bias = true;
                    return Some(output);
                }
                let same = part.dims(other)? == part.dims(output)?;
                if !same || self.tail.residual.is_some() || !super::convert::stands_for_f32(part, other) {
                    return None;
                }
                // a product of bf16 adds bf16
                if self.anchor == Anchor::Product && self.precision.is_wide(output) {
                    return None;
                }
                self.tail.residual = Some(other);
                self.tail.after = !bare;
                Some(output)
            }
            Op::Mul | Op::Div if self.anchor == Anchor::Computed && bare && !self.has_bias => {
                let (other, is_left) = match (node.input(0)?, node.input(1)?) {
                    (a, b) if a == current && b != current => (b, true),
                    (a, b) if b == current && a != current => (a, false),
                    _ => return None,
                };
                if !part.plain_f32(other) || (node.op == Op::Div && !is_left) {
                    return None;
                }
                let factor = part.scalar(other)?;
                let factor = if node.op == Op::Div { 1.0 / factor } else { factor };
                let alpha = (f64::from(self.tail.alpha) * factor) as f32;
                if !alpha.is_finite() {
                    return None;
                }
                self.tail.alpha = alpha;
                Some(output)
            }
            _ => None,
        }
    }

    /// Whether a constant is a bias per channel of an image, or per column of a matrix.
    fn is_bias(&self, tensor: TensorIndex, output: TensorIndex) -> bool {
        let part = self.part;
        let (Some(dims), Some(shape)) = (part.dims(tensor), part.dims(output)) else {
            return false;
        };
        if part.tensors[tensor].constant.is_none() || !part.plain_f32(tensor) || dims.len() > shape.len() {
            return false;
        }
        let axis = if self.anchor == Anchor::Conv {
            1
        } else {
            shape.len() - 1
        };
        let first = shape.len() - dims.len();
        axis >= first
            && dims.iter().enumerate().all(|(i, &size)| {
                if first + i == axis {
                    size == shape[axis]
                } else {
                    size == 1
                }
            })
    }
}
