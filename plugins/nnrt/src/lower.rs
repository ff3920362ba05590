//! From nodes to operations of the runtime, as plain data: the operand-graph front end makes the steps.
//!
//! Invariants:
//! 1. A node that no runtime operation computes exactly is refused with a reason; nothing is approximated.
//! 2. A Relu or a Clip becomes the activation of the operation before it, if that has one.
//!
//! Not here: which steps a node becomes (`polychip_lowering::operands`), the verdict of the runtime on an operation (`caps`),
//! its calls (`api`). Start reading at [`whole`].

mod chip;
mod encode;

pub(crate) use chip::Chip;

use polychip_lowering::operands::{self, Info};
use polychip_lowering::{Node, Outcome, Part, Refusal};
use polychip_sdk::GraphView;

use crate::program::Program;

/// The part that a view shows: nodes that the runtime has no operation for are computed as what they were made of.
pub(crate) fn read(graph: &GraphView<'_>) -> Part {
    let part = Part::of(graph, |_| false);
    let offered = part.nodes.iter().map(|node| operands::offers(node.op, &Chip));
    let offered: Vec<bool> = offered.collect();
    part.decomposed(|index| !offered[index])
}

/// Lowers a part.
///
/// # Errors
/// The refused node of the call's graph, and the reason.
pub(crate) fn whole(part: &Part) -> Result<Program, Refusal> {
    let mut steps = operands::whole(part, &Chip)?;
    steps.fuse(encode::takes_activation, |range| {
        encode::activation(range).is_some()
    });
    encode::program(&steps)
}

/// Lowers one node as a part of its own, once in each order that it may be planned in.
pub(crate) fn alone(part: &Part, infos: &[Outcome<Info>], node: &Node) -> Outcome<Vec<Program>> {
    let programs = operands::alone(part, infos, &Chip, node, true)?;
    programs.iter().map(encode::program).collect()
}

#[cfg(test)]
mod tests;
