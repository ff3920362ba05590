//! Writes `auto_pad` out as `pads` where sizes are known, so that no device needs to know the word.
//!
//! Gone afterwards: `SAME_UPPER`, `SAME_LOWER` and `VALID` of Conv, MaxPool, AveragePool and LpPool whose kernel and
//! image have known sizes.
//!
//! Invariant: with `ceil_mode` the attribute stays: there pads of the same sizes may give one window more.
//!
//! Not here: ConvTranspose, whose `auto_pad` follows from the size of its output.

use polychip_ops::operator::AutoPad;
use polychip_ops::{Attr, Attributes, Op, Operator};

use crate::{Error, Graph, Node};

/// Runs the pass; returns the number of nodes that it changed.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut changes = 0;
    for id in graph.node_ids() {
        if let Some(attributes) = written_out(graph, graph.node(id)) {
            *graph.attributes_mut(id) = attributes;
            changes += 1;
        }
    }
    Ok(changes)
}

/// The node's attributes with pads in the place of the word.
fn written_out(graph: &Graph, node: &Node) -> Option<Attributes> {
    let window = match node.operator().ok()? {
        Operator::Conv(conv) => conv.window,
        Operator::MaxPool(pool) => pool.window,
        Operator::AveragePool(pool) => pool.window,
        Operator::LpPool(pool) => pool.window,
        _ => return None,
    };
    if window.ceil || window.auto_pad == AutoPad::NotSet {
        return None;
    }
    let shape = |input: usize| graph.tensor(node.input(input)?).ty.sizes();
    let spatial = shape(0)?.get(2..)?.to_vec();
    let window = match node.op {
        Op::Conv => window.over(shape(1)?.get(2..)?),
        _ => window.stated(),
    };
    let placement = window.ok()?.resolve(&spatial).ok()?;
    let pads = placement.begin.iter().chain(&placement.end);
    let pads: Vec<i64> = pads.map(|&pad| i64::try_from(pad).ok()).collect::<Option<_>>()?;
    let mut written = node.attributes.clone();
    written.remove(&Attr::AutoPad.into());
    Some(written.with_ints(Attr::Pads, &pads))
}
