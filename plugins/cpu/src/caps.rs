//! What the CPU runs: everything that lowers, to a fast kernel or to the reference evaluator.
//!
//! Invariant: a yes is exact, because the graph was lowered for it; what is refused beside is a port that cannot be bound,
//! never an op.

use polychip_cpu_kernels::Isa;
use polychip_lowering::{Node, Part, Refusal};
use polychip_ops::DType;
use polychip_sdk::{Reason, Support};

use crate::estimate::draft;
use crate::part::Programs;

/// The answer for each node of a graph.
pub(crate) fn support(part: &Part, programs: &Programs, isa: Isa) -> Vec<Support> {
    let draft = draft(part, programs, isa);
    let nodes = part.nodes.iter().zip(draft.refused);
    nodes
        .map(|(node, refused)| {
            let refused = refused.or_else(|| unbound(part, node));
            refused.map_or(Support::Yes, Refusal::support)
        })
        .collect()
}

/// Tensors without bounds have no size that a buffer could be bound with; strings are packed.
fn unbound(part: &Part, node: &Node) -> Option<Refusal> {
    let mut tensors = node.reads().chain(node.outputs.iter().copied().flatten());
    let tensor = tensors.find(|tensor| {
        let t = &part.tensors[*tensor];
        let at_port = part.inputs.contains(tensor) || part.outputs.contains(tensor);
        at_port && t.dtype != DType::String && t.dims.is_none() && t.bounds.is_none()
    })?;
    let words = format!("'{}' at a port has no known bound", part.tensors[tensor].name);
    Some(Refusal::new(Reason::DynamicShape, words))
}
