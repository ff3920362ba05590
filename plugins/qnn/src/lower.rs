//! From nodes to operations of QNN, as plain data.
//!
//! Invariants:
//! 1. What is not exactly an operation of QNN is refused with a reason; nothing is approximated.
//! 2. A file imports files below its own only: `builder`, then `wants` and the files of op classes, then `dispatch`.
//!
//! Not here: what the vendor's library thinks of an operation (`caps`), the library's own structs (`session`).
//! Start reading at [`whole`], then `dispatch`.

mod builder;
mod conv;
mod dispatch;
mod elementwise;
mod image;
mod matmul;
mod movement;
mod norm;
mod quantise;
mod reduce;
#[cfg(test)]
mod tests;
mod unify;
mod wants;

pub(crate) use builder::Target;
pub(crate) use wants::is_planned;

use polychip_lowering::{Layout, Node, Outcome, Part, Refusal, TensorIndex};
use polychip_sdk::GraphView;

use builder::Lower;

use crate::info::{self, Info};
use crate::program::Program;

/// The part that a view shows. What a node fills with one value is no constant: the NPU is given no such node.
pub(crate) fn read(graph: &GraphView<'_>) -> Part {
    Part::of(graph, |_| false)
}

/// Lowers a part.
///
/// # Errors
/// The first node that is refused, and why.
pub(crate) fn whole(part: &Part, target: Target) -> Result<Program, (usize, Refusal)> {
    let infos = info::infos(part);
    let layouts = wants::layouts(part, &infos);
    let mut lower = Lower::new(part, &infos, target, true);
    let border = |refusal| (part.nodes.len().saturating_sub(1), refusal);
    for &input in &part.inputs {
        lower.port_in(input).map_err(border)?;
    }
    for node in &part.nodes {
        let at = |refusal| (node.index as usize, refusal);
        dispatch::node(&mut lower, node, layouts[node.index as usize]).map_err(at)?;
    }
    for &output in &part.outputs {
        lower.port_out(output).map_err(border)?;
    }
    Ok(lower.program)
}

/// Lowers one node of a graph as a part of its own, in an order of axes. Without `data`, constants are empty.
pub(crate) fn alone(
    part: &Part,
    infos: &[Outcome<Info>],
    node: &Node,
    layout: Layout,
    target: Target,
    data: bool,
) -> Outcome<Program> {
    let mut lower = Lower::new(part, infos, target, data);
    let mut inputs: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
    inputs.sort_unstable();
    inputs.dedup();
    for input in inputs {
        if !part.is_constant(input) {
            lower.port_in(input)?;
        }
    }
    dispatch::node(&mut lower, node, layout)?;
    for output in node.writes() {
        lower.port_out(output)?;
    }
    Ok(lower.program)
}
