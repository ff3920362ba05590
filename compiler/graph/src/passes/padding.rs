//! Writes `auto_pad` out as `pads` where sizes are known, so that no device needs to know the word.
//!
//! Gone afterwards: `SAME_UPPER`, `SAME_LOWER` and `VALID` of Conv, MaxPool, AveragePool and LpPool whose kernel and
//! image have known sizes.
//!
//! Invariant: with `ceil_mode` the attribute stays: there pads of the same sizes may give one window more.
//!
//! Not here: ConvTranspose, whose `auto_pad` follows from the size of its output.

use polychip_ops::geometry::Window;
use polychip_ops::{Attr, Attributes, Op};

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
    let attributes = &node.attributes;
    let word = attributes.str(Attr::AutoPad)?;
    let ceil = attributes.int(Attr::CeilMode).unwrap_or(0) != 0;
    if ceil || !matches!(word, "SAME_UPPER" | "SAME_LOWER" | "VALID") {
        return None;
    }
    let shape = |input: usize| graph.tensor(node.input(input)?).ty.sizes();
    let spatial = shape(0)?.get(2..)?.to_vec();
    let kernel: Vec<usize> = match node.op {
        Op::Conv => shape(1)?.get(2..)?.to_vec(),
        Op::MaxPool | Op::AveragePool | Op::LpPool => {
            let sizes = attributes.ints(Attr::KernelShape)?.iter();
            sizes
                .map(|&size| usize::try_from(size).ok())
                .collect::<Option<_>>()?
        }
        _ => return None,
    };
    let placement = Window::new(node.op, attributes, &kernel)
        .ok()?
        .resolve(&spatial)
        .ok()?;
    let pads = placement.begin.iter().chain(&placement.end);
    let pads: Vec<i64> = pads.map(|&pad| i64::try_from(pad).ok()).collect::<Option<_>>()?;
    let mut written = attributes.clone();
    written.remove(&Attr::AutoPad.into());
    Some(written.with_ints(Attr::Pads, &pads))
}
