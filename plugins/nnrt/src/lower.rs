//! From nodes to operations of the runtime, as plain data.
//!
//! Invariants:
//! 1. What is not exactly an operation of the runtime is refused with a reason; nothing is approximated.
//! 2. A file imports files below its own only: `builder`, then the files of op classes, then `dispatch`.
//!
//! Not here: what the runtime thinks of an operation (`caps`), its calls (`api`).
//! Start reading at [`whole`], then `dispatch`.

mod builder;
mod dispatch;
mod elementwise;
mod image;
mod movement;
mod product;
mod wants;

use polychip_lowering::{Layout, Node, Outcome, Part, Refusal};
use polychip_sdk::GraphView;

use builder::Lower;

use crate::info::{self, Info};
use crate::program::Program;

/// The part that a view shows: nodes that the runtime has no operation for are computed as what they were made of.
pub(crate) fn read(graph: &GraphView<'_>) -> Part {
    let part = Part::of(graph, |_| false);
    let offered: Vec<bool> = part.nodes.iter().map(|node| dispatch::offers(node.op)).collect();
    part.decomposed(|index| !offered[index])
}

/// Lowers a part.
///
/// # Errors
/// The node of the call's graph that is refused, and why.
pub(crate) fn whole(part: &Part) -> Result<Program, Refusal> {
    let infos = info::infos(part);
    let layouts = wants::layouts(part, &infos);
    let mut lower = Lower::new(part, &infos);
    for &input in &part.inputs {
        lower.enter(input)?;
    }
    for (node, layout) in part.nodes.iter().zip(layouts) {
        dispatch::node(&mut lower, node, layout).map_err(|refusal| refusal.at(node.index))?;
    }
    for &output in &part.outputs {
        lower.leave(output)?;
    }
    let mut program = lower.program;
    program.fuse();
    Ok(program)
}

/// Lowers one node as a part of its own, once in each order that it may be planned in.
pub(crate) fn alone(part: &Part, infos: &[Outcome<Info>], node: &Node) -> Outcome<Vec<Program>> {
    let both = [Layout::RowMajor, Layout::ChannelsLast];
    let orders = if wants::is_planned(node, infos) {
        &both[..]
    } else {
        &both[..1]
    };
    let lowered = orders.iter().map(|&layout| {
        let mut lower = Lower::new(part, infos);
        for tensor in node.reads().filter(|&tensor| !part.is_constant(tensor)) {
            if !lower.is_there(tensor) {
                lower.enter(tensor)?;
            }
        }
        dispatch::node(&mut lower, node, layout)?;
        for output in node.writes() {
            lower.leave(output)?;
        }
        Ok(lower.program)
    });
    lowered.collect()
}

#[cfg(test)]
mod tests;
