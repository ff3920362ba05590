//! From nodes to operations of QNN, as plain data: the operand-graph front end makes the steps.
//!
//! Invariants:
//! 1. A node that no QNN operation computes exactly is refused with a reason; nothing is approximated.
//! 2. A file imports files below its own only: `unify`, then `chip`; `encode`.
//!
//! Not here: which steps a node becomes (`polychip_lowering::operands`), the verdict of the vendor's library on an operation
//! (`caps`), the library's own structs (`session`). Start reading at [`whole`].

mod chip;
mod encode;
#[cfg(test)]
mod tests;
mod unify;

pub(crate) use chip::Target;

use polychip_lowering::operands::{self, Info};
use polychip_lowering::{Node, Outcome, Part};
use polychip_sdk::GraphView;

use crate::program::Program;

/// The part that a view shows. What a node fills with one value is no constant: the NPU is given no such node.
pub(crate) fn read(graph: &GraphView<'_>) -> Part {
    Part::of(graph, |_| false)
}

/// Lowers a part.
///
/// # Errors
/// The refused node, and the reason.
pub(crate) fn whole(part: &Part, target: Target) -> Outcome<Program> {
    encode::program(operands::whole(part, &target)?)
}

/// Lowers one node of a graph as a part of its own, once in each order of axes that it may be planned in. Without `data`,
/// constants are empty.
pub(crate) fn alone(
    part: &Part,
    infos: &[Outcome<Info>],
    node: &Node,
    target: Target,
    data: bool,
) -> Outcome<Vec<Program>> {
    let programs = operands::alone(part, infos, &target, node, data)?;
    programs.into_iter().map(encode::program).collect()
}
