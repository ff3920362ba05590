//! From an imported graph to the canonical one: [`canonicalise`] runs the passes to a fixed point.
//!
//! Invariants:
//! 1. A pass keeps what the graph computes: same inputs, same outputs (names, order, types), values
//!    equal within rounding of the element type, or of the encodings that a recomposed op had inside.
//!    Each pass has a test that executes both.
//! 2. Same graph, same result: nothing depends on addresses, hashes or time.
//! 3. After a pass the graph is well formed; debug builds check it.
//! 4. A second run changes nothing, but for what the first one had no more budget to fold.
//!
//! What devices may rely on afterwards:
//! - no Identity, inference Dropout or other op without effect, but where an output of the graph
//!   needs one to have its name; an Identity between two encodings rounds from the one to the other;
//! - a node with a `decomposition` is a recomposed op: compute the node, or the primitive graph inside
//!   it, whose inputs and outputs are the node's present ones in order;
//! - a tensor with an `encoding` holds integers that encode reals. A node that reads it computes on
//!   the reals; a result with an encoding is quantised: divided by the scale, rounded half to even,
//!   moved by the zero point, clamped. Inputs and outputs of one node may be mixed, with encodings and
//!   floats. Scales of constants may be negative or zero. QuantizeLinear and DequantizeLinear alone read and write the stored integers;
//! - an If's condition is not constant; a body captures no constant, and no loop carries what it does not change;
//! - a Cast reads a constant where `keep_halves` is asked for, or what it gives is beyond what folding may make;
//! - no SequenceAt at a constant position, SequenceLength or ConcatFromSequence reads a sequence whose elements the graph
//!   tells;
//! - an Einsum of known ranks has two operands, whose labels are all in the other one or in the result, and no ellipsis, unless it
//!   takes a diagonal or repeats an axis of length one;
//! - `auto_pad` is written out as `pads` where sizes are known, but for ConvTranspose and with `ceil_mode`;
//! - groups are hints: the last node gives a group's only result, tensors inside have one reader and no
//!   encoding.
//!
//! Not here: op conversion between opsets (`onnx`), binding of size names, device choices.

use polychip_ops::Op;

use crate::{Error, Evaluate, Graph, Node, verify};

mod batch_norm;
mod branch;
mod capture;
mod duplicate;
mod einsum;
mod fold;
mod group;
mod no_op;
mod padding;
mod pattern;
mod quantise;
mod recompose;
mod sequence;

/// Optional rewrites and limits of [`canonicalise`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Maximum size of one constant that folding produces, in bytes.
    pub fold_limit: usize,
    /// Maximum size of all constants that folding produces, in bytes. Eight bytes for each byte of the
    /// model's own constants are added.
    pub fold_bytes: u64,
    /// Maximum work of folding: bytes read and produced, plus multiply-adds. 32 for each byte of the
    /// model's own constants are added.
    pub fold_work: u64,
    /// Whether normalisations, activations and attention are recomposed from primitive ops.
    pub recompose: bool,
    /// Whether QuantizeLinear and DequantizeLinear become encodings of tensors. If not, dequantised
    /// constants become floats.
    pub quantised: bool,
    /// Whether fusion groups are made.
    pub groups: bool,
    /// Whether large f16 and bf16 weights that only matrix products (MatMul, Gemm) read, as f32, stay
    /// 16-bit behind their Cast. For devices that also store them in 16 bits. If not, the weights
    /// become f32 constants.
    pub keep_halves: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            fold_limit: 64 << 20,
            fold_bytes: 1 << 30,
            // a core does as much in some seconds
            fold_work: 1 << 33,
            recompose: true,
            quantised: true,
            groups: true,
            keep_halves: false,
        }
    }
}

/// How often each pass changed something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Name of the pass and number of its changes, in the order in which passes first ran.
    pub passes: Vec<(&'static str, usize)>,
}

impl Report {
    fn add(&mut self, pass: &'static str, changes: usize) {
        match self.passes.iter_mut().find(|(name, _)| *name == pass) {
            Some((_, count)) => *count += changes,
            None => self.passes.push((pass, changes)),
        }
    }

    /// The changes that a pass made.
    pub fn changes(&self, pass: &str) -> usize {
        let of_pass = self.passes.iter().find(|(name, _)| *name == pass);
        of_pass.map_or(0, |&(_, changes)| changes)
    }
}

/// Most rounds of the cleaning passes; each one but the last shrinks the graph or what is nested in it, so that this
/// bounds only a pass with a bug.
const ROUNDS: usize = 64;

/// Brings a graph, and the bodies in it, into canonical form.
///
/// # Errors
/// If the graph is cyclic, or types do not fit an op.
pub fn canonicalise(graph: &mut Graph, evaluate: &dyn Evaluate, options: &Options) -> Result<Report, Error> {
    let mut report = Report::default();
    let budget = fold::Budget::of(graph, options.fold_work, options.fold_bytes);
    let pipeline = Pipeline {
        evaluate,
        options,
        budget: &budget,
        body: false,
    };
    pipeline.graph(graph, &mut report)?;
    Ok(report)
}

struct Pipeline<'a> {
    evaluate: &'a dyn Evaluate,
    options: &'a Options,
    budget: &'a fold::Budget,
    body: bool,
}

impl Pipeline<'_> {
    fn graph(&self, graph: &mut Graph, report: &mut Report) -> Result<(), Error> {
        graph.groups.clear();
        graph.sort()?;
        self.bodies(graph, report)?;
        self.pass(graph, report, "einsum", einsum::run)?;
        graph.sort()?;
        self.clean(graph, report, !self.options.quantised)?;
        if self.options.quantised {
            let mut changes = self.pass(graph, report, "linear", quantise::linear::run)?;
            if self.options.recompose {
                changes += self.pass(graph, report, "recompose rounded", recompose::rounded::run)?;
            }
            changes += self.pass(graph, report, "move rounding", quantise::travel::run)?;
            changes += self.pass(graph, report, "weights in blocks", quantise::blocks::run)?;
            if changes > 0 {
                self.clean(graph, report, false)?;
            }
            // what one round folds may let the next one take a Relu or a pair away
            for _ in 0..ROUNDS {
                if self.pass(graph, report, "quantise", quantise::run)? == 0 {
                    break;
                }
                self.clean(graph, report, false)?;
            }
        }
        // a dequantised constant that no encoding uses is folded like any other node; nothing else is left to clean
        if self.options.quantised && graph.nodes().any(|(_, node)| node.op == Op::DequantizeLinear) {
            self.clean(graph, report, true)?;
        }
        self.pass(graph, report, "padding", padding::run)?;
        if self.options.groups {
            self.pass(graph, report, "group", group::run)?;
        }
        Ok(())
    }

    /// The passes that make the graph smaller, until none finds anything.
    fn clean(&self, graph: &mut Graph, report: &mut Report, dequantise: bool) -> Result<(), Error> {
        let folding = fold::Folding {
            evaluate: self.evaluate,
            limit: self.options.fold_limit,
            budget: self.budget,
            dequantise,
            keep_halves: self.options.keep_halves,
            body: self.body,
        };
        for _ in 0..ROUNDS {
            // equal nodes first, so that folding makes each constant once
            let mut changes = self.pass(graph, report, "duplicate", duplicate::run)?;
            changes += self.pass(graph, report, "fold", |graph| fold::run(graph, &folding))?;
            changes += self.pass(graph, report, "sequence", sequence::run)?;
            changes += self.pass(graph, report, "branch", branch::run)?;
            let captures = self.pass(graph, report, "capture", capture::run)?;
            if captures > 0 {
                // what is constant now folds inside
                self.bodies(graph, report)?;
            }
            changes += captures;
            changes += self.pass(graph, report, "no_op", no_op::run)?;
            changes += self.pass(graph, report, "batch_norm", batch_norm::run)?;
            if self.options.recompose {
                changes += self.pass(graph, report, "recompose", recompose::run)?;
            }
            changes += self.pass(graph, report, "dead", |graph| Ok(graph.remove_dead()))?;
            if changes == 0 {
                break;
            }
        }
        Ok(())
    }

    fn pass(
        &self,
        graph: &mut Graph,
        report: &mut Report,
        name: &'static str,
        run: impl FnOnce(&mut Graph) -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        let changes = run(graph)?;
        report.add(name, changes);
        if changes > 0 {
            graph.sort()?;
            if cfg!(debug_assertions) {
                verify(graph).unwrap_or_else(|error| {
                    panic!("invariant: pass {name} keeps graphs well formed: {error}")
                });
            }
        }
        Ok(changes)
    }

    fn bodies(&self, graph: &mut Graph, report: &mut Report) -> Result<(), Error> {
        for id in graph.node_ids() {
            if !graph.node(id).bodies.is_empty() {
                graph.edit_node(id, |node| self.bodies_of(node, report))?;
            }
        }
        Ok(())
    }

    fn bodies_of(&self, node: &mut Node, report: &mut Report) -> Result<(), Error> {
        for body in &mut node.bodies {
            // sorting numbers inputs first and in their order, so that captures stay the last of them
            let inner = Pipeline { body: true, ..*self };
            inner.graph(&mut body.graph, report)?;
            let first = body.graph.inputs.len().saturating_sub(body.captures.len());
            let inputs = body.graph.inputs[first..].iter();
            for (capture, &inner) in body.captures.iter_mut().zip(inputs) {
                capture.inner = inner;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
