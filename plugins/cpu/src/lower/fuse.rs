//! Which nodes are computed in the epilogue of a convolution or matrix product, in the pass of a normalisation, or by
//! the strides of an attention.
//!
//! Invariant: a group is a chain: a tensor inside it has one reader, no encoding, and is no output of the part.
//!
//! Not here: how groups grow (the front end's [`Fusion`]).

use polychip_lowering::{Epilogue, Fusion, Group};
use polychip_ops::Op;

use super::builder::{Lowering, Options};
use super::encoding::{is_unrounded, stands_for_f32};
use super::epilogue::{FusedEpilogue, IDENTITY, Sum};
use super::function::activation;
use super::precision::Precision;
use super::{attention, blocks, cached, conv, int4, int8, matmul, normalise};
use crate::part::{Node, Part, TensorIndex};

/// The groups of a part.
pub(super) struct Groups {
    /// Per node: the anchor emitted in its place and what is behind it, or nothing where it is part of a group.
    emitted: Vec<Option<(usize, FusedEpilogue)>>,
    /// Per tensor: what an attention reads in its stead, where it is a transposed view of that, or that in more bits.
    transposed: Vec<Option<TensorIndex>>,
}

impl Groups {
    /// The anchor that is emitted at the place of a node.
    pub(super) fn at(&self, node: usize) -> Option<(usize, &FusedEpilogue)> {
        self.emitted[node]
            .as_ref()
            .map(|(anchor, fused)| (*anchor, fused))
    }
}

/// A part of which nothing is lowered yet, and the groups that it will be lowered in.
pub(super) fn begin<'a>(part: &'a Part, options: &Options<'a>) -> (Lowering<'a>, Groups) {
    let precision = if options.is_reduced() {
        Precision::reduced(part, |node| is_product(part, node))
    } else {
        Precision::full(part)
    };
    let groups = plan(part, &precision);
    let lowering = Lowering::new(part, options, precision, groups.transposed.clone());
    (lowering, groups)
}

/// Whether a node multiplies in bf16 where that is allowed.
fn is_product(part: &Part, node: &Node) -> bool {
    conv::covers(part, node)
        || matmul::covers(part, node) && matmul::worth_bf16(part, node)
        || attention::covers(part, node)
}

/// Finds the groups of a part.
fn plan(part: &Part, precision: &Precision) -> Groups {
    let uses = part.uses();
    let mut fusion = Fusion::new(part);
    let mut groups = Groups {
        emitted: vec![None; part.nodes.len()],
        transposed: vec![None; part.tensors.len()],
    };
    attentions(part, &mut fusion, &mut groups);
    let mut sums: Vec<Option<Sum>> = vec![None; part.nodes.len()];
    for (index, node) in part.nodes.iter().enumerate() {
        // a Cast that products have no use for (`part`)
        let is_idle = node.op == Op::Cast && node.inputs.is_empty();
        if fusion.is_taken(index) || is_idle {
            continue;
        }
        if let Some((norm, addends)) = normalised(part, node, &fusion) {
            let is_stored = node.output(0).is_some_and(|sum| uses[sum] > 1);
            sums[norm] = Some(Sum { addends, is_stored });
            continue;
        }
        let anchor = if blocks::covers(part, node) {
            let beside = beside(part, index, &mut fusion);
            let fused = FusedEpilogue {
                beside,
                ..FusedEpilogue::NONE
            };
            groups.emitted[index] = Some((index, fused));
            continue;
        } else if int4::covers(part, node) {
            groups.emitted[index] = Some((index, FusedEpilogue::NONE));
            continue;
        } else if conv::covers(part, node) {
            Anchor::Conv
        } else if matmul::covers_constant(part, node) {
            Anchor::Product
        } else if matmul::covers(part, node) {
            Anchor::Computed
        } else {
            let fused = FusedEpilogue {
                sum: sums[index],
                ..FusedEpilogue::NONE
            };
            groups.emitted[index] = Some((index, fused));
            continue;
        };
        if let Some((next, fused)) = joined(part, node, &fusion)
            && !fusion.is_taken(next)
        {
            fusion.take(next);
            groups.emitted[next] = Some((index, fused));
            continue;
        }
        let kernel = Kernel {
            part,
            precision,
            uses: &uses,
            anchor,
        };
        let chain = Chain {
            fused: FusedEpilogue::NONE,
            has_bias: node.input(2).is_some(),
        };
        let group = fusion.grow(&kernel, Group::behind(part, index, chain));
        let last = group.last();
        let mut fused = group.state.fused;
        fused.output = group.output.filter(|_| last != index);
        groups.emitted[last] = Some((index, fused));
    }
    groups
}

/// Takes the products behind this one that can be of one step with it.
fn beside(part: &Part, index: usize, fusion: &mut Fusion<'_>) -> Vec<usize> {
    let Some(rows) = part.nodes[index].input(0) else {
        return Vec::new();
    };
    let goes_with = |&other: &usize| {
        other > index
            && !fusion.is_taken(other)
            && blocks::goes_with(part, &part.nodes[other], &part.nodes[index])
    };
    let mut others: Vec<usize> = fusion.readers(rows).iter().copied().filter(goes_with).collect();
    others.truncate(blocks::MOST - 1);
    others.iter().for_each(|&other| fusion.take(other));
    others
}

/// Finds the transpositions of rows and heads around attentions, which read and write through strides.
fn attentions(part: &Part, fusion: &mut Fusion<'_>, groups: &mut Groups) {
    for (index, node) in part.nodes.iter().enumerate() {
        if cached::covers(part, node) {
            pasts(part, node, fusion, groups);
            continue;
        }
        if !attention::covers(part, node) {
            continue;
        }
        for &tensor in node.inputs.iter().take(3).flatten() {
            if fusion.only_reader(tensor).is_some()
                && let Some(transpose) = fusion.producer(tensor)
                && !fusion.is_taken(transpose)
                && let Some(source) = attention::swaps_heads(part, &part.nodes[transpose])
            {
                groups.transposed[tensor] = Some(source);
                fusion.take(transpose);
            }
        }
        if let Some(output) = node.output(0)
            && let Some(transpose) = fusion.only_reader(output)
            && !fusion.is_taken(transpose)
            && attention::swaps_heads(part, &part.nodes[transpose]) == Some(output)
        {
            fusion.take(index);
            fusion.take(transpose);
            let fused = FusedEpilogue {
                output: part.nodes[transpose].output(0),
                ..FusedEpilogue::NONE
            };
            groups.emitted[transpose] = Some((index, fused));
        }
    }
}

/// Finds the memories of f16 that an attention reads as they are stored: of keys and of values, or of neither.
fn pasts(part: &Part, node: &Node, fusion: &mut Fusion<'_>, groups: &mut Groups) {
    let past = |i: usize| {
        let tensor = node.input(i)?;
        let cast = fusion.only_reader(tensor).and(fusion.producer(tensor))?;
        let source = cached::widened(part, &part.nodes[cast]).filter(|_| !fusion.is_taken(cast))?;
        Some((tensor, cast, source))
    };
    if let (Some(keys), Some(values)) = (past(4), past(5)) {
        for (tensor, cast, source) in [keys, values] {
            groups.transposed[tensor] = Some(source);
            fusion.take(cast);
        }
    }
}

/// The normalisation that can compute a sum which it reads, and the operands of the sum.
fn normalised(part: &Part, node: &Node, fusion: &Fusion<'_>) -> Option<(usize, [TensorIndex; 2])> {
    if node.op != Op::Add {
        return None;
    }
    let (a, b, sum) = (node.input(0)?, node.input(1)?, node.output(0)?);
    let norm = *fusion.readers(sum).first()?;
    let alike = [a, b]
        .iter()
        .all(|&t| is_unrounded(part, t) && part.dims(t) == part.dims(sum));
    let adds = alike
        && is_unrounded(part, sum)
        && part.nodes[norm].input(0) == Some(sum)
        && normalise::adds(part, &part.nodes[norm]);
    adds.then_some((norm, [a, b]))
}

/// The sum that a product of codes takes part in, where it is computed in integers as one with it.
fn joined(part: &Part, node: &Node, fusion: &Fusion<'_>) -> Option<(usize, FusedEpilogue)> {
    let current = node.output(0)?;
    let next = fusion
        .only_reader(current)
        .filter(|&next| part.nodes[next].op == Op::Add)?;
    let sum = &part.nodes[next];
    let other = [sum.input(0)?, sum.input(1)?]
        .into_iter()
        .find(|&t| t != current)?;
    let output = int8::adds_residual(part, node, sum, other)?;
    let fused = FusedEpilogue {
        residual: Some(other),
        output: Some(output),
        ..FusedEpilogue::NONE
    };
    Some((next, fused))
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

/// What is behind an anchor so far.
#[derive(Clone)]
struct Chain {
    fused: FusedEpilogue,
    has_bias: bool,
}

/// What the kernel of an anchor can do.
struct Kernel<'a> {
    part: &'a Part,
    precision: &'a Precision,
    uses: &'a [usize],
    anchor: Anchor,
}

impl Epilogue for Kernel<'_> {
    type State = Chain;

    const MOST: usize = usize::MAX;

    fn join(&self, group: &Group<Chain>, node: usize, current: TensorIndex) -> Option<Chain> {
        let part = self.part;
        let node = &part.nodes[node];
        let output = node.output(0)?;
        let mut chain = group.state.clone();
        // an output with an encoding is rounded behind the chain, so it may only be its last tensor
        let f32_out = stands_for_f32(part, output);
        if !f32_out || chain.fused.after || self.uses[current] != 1 || !is_unrounded(part, current) {
            return None;
        }
        let bare = chain.fused.activation == IDENTITY;
        if let Some(activation) = activation(part, node) {
            if node.input(0) != Some(current) || !bare {
                return None;
            }
            chain.fused.activation = activation;
            return Some(chain);
        }
        match node.op {
            Op::Add => {
                let other = [node.input(0)?, node.input(1)?]
                    .into_iter()
                    .find(|&t| t != current)?;
                if self.anchor == Anchor::Computed {
                    return None;
                }
                if !chain.has_bias && bare && chain.fused.residual.is_none() && self.is_bias(other, output) {
                    chain.fused.bias = Some(other);
                    chain.has_bias = true;
                    return Some(chain);
                }
                let same = part.dims(other)? == part.dims(output)?;
                if !same || chain.fused.residual.is_some() || !stands_for_f32(part, other) {
                    return None;
                }
                // a product of bf16 adds bf16
                if self.anchor == Anchor::Product && self.precision.is_wide(output) {
                    return None;
                }
                chain.fused.residual = Some(other);
                chain.fused.after = !bare;
                Some(chain)
            }
            Op::Mul | Op::Div if self.anchor == Anchor::Computed && bare && !chain.has_bias => {
                let (other, is_left) = match (node.input(0)?, node.input(1)?) {
                    (a, b) if a == current && b != current => (b, true),
                    (a, b) if b == current && a != current => (a, false),
                    _ => return None,
                };
                if !is_unrounded(part, other) || (node.op == Op::Div && !is_left) {
                    return None;
                }
                let factor = part.scalar(other)?;
                let factor = if node.op == Op::Div { 1.0 / factor } else { factor };
                let alpha = (f64::from(chain.fused.alpha) * factor) as f32;
                if !alpha.is_finite() {
                    return None;
                }
                chain.fused.alpha = alpha;
                Some(chain)
            }
            _ => None,
        }
    }
}

impl Kernel<'_> {
    /// Whether a constant is a bias per channel of an image, or per column of a matrix.
    fn is_bias(&self, tensor: TensorIndex, output: TensorIndex) -> bool {
        let part = self.part;
        let (Some(dims), Some(shape)) = (part.dims(tensor), part.dims(output)) else {
            return false;
        };
        if part.tensors[tensor].constant.is_none() || !is_unrounded(part, tensor) || dims.len() > shape.len()
        {
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
