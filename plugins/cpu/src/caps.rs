//! What the CPU runs: everything that lowers, to a fast kernel or to the reference evaluator.
//!
//! Invariant: a yes is exact, because the graph was lowered for it; what `compile` of a part then refuses is a port
//! inside the whole graph that cannot be bound, never an op.

use polychip_cpu_kernels::Isa;
use polychip_ops::{DType, Op};
use polychip_sdk::{Error, Reason, Support};

use crate::estimate::draft;
use crate::lower::range;
use crate::part::{Node, Part, Programs, TensorIndex};

/// The answer for each node of a graph.
pub(crate) fn support(part: &Part, programs: &Programs, isa: Isa) -> Vec<Support> {
    let draft = draft(part, programs, isa);
    let nodes = part.nodes.iter().zip(&draft.refused);
    nodes
        .map(|(node, refused)| one(part, programs, node, refused.as_ref()))
        .collect()
}

fn one(part: &Part, programs: &Programs, node: &Node, refused: Option<&Error>) -> Support {
    let tensors = || node.reads().chain(node.outputs.iter().copied().flatten());
    for tensor in tensors() {
        if let Some(refusal) = encoding(part, tensor).or_else(|| port(part, tensor)) {
            return refusal;
        }
    }
    if !node.bodies.is_empty() {
        if !matches!(node.op, Op::If | Op::Loop | Op::Scan | Op::SequenceMap) {
            return Support::no(
                Reason::Body,
                format!("{} with body graphs is not computed", node.op_name),
            );
        }
        return match programs.bodies(node).iter().find_map(|body| body.as_ref().err()) {
            Some(why) => Support::no(Reason::Body, format!("in the body: {why}")),
            None => Support::Yes,
        };
    }
    let Some(error) = refused else {
        return Support::Yes;
    };
    let dtypes: Vec<_> = node.inputs.iter().map(|t| t.map(|t| part.real(t))).collect();
    let Err(why) = polychip_reference::supported(node.op, &node.attributes, &dtypes) else {
        return Support::no(Reason::Op, error.to_string());
    };
    let words = why.to_string();
    let reason = if words.starts_with("input ") {
        Reason::DType
    } else {
        Reason::Op
    };
    Support::no(reason, words)
}

fn encoding(part: &Part, tensor: TensorIndex) -> Option<Support> {
    let t = &part.tensors[tensor];
    let encoding = t.encoding.as_ref()?;
    if encoding.real_dtype != DType::F32 {
        let detail = format!(
            "'{}' is quantised from {}, not f32",
            t.name,
            encoding.real_dtype.name()
        );
        return Some(Support::no(Reason::Encoding, detail));
    }
    if range(t.dtype).is_none() {
        return Some(Support::no(
            Reason::Encoding,
            format!("'{}' is quantised to {}", t.name, t.dtype.name()),
        ));
    }
    if t.dims.is_none() {
        return Some(Support::no(
            Reason::Encoding,
            format!("'{}' is quantised and of unknown shape", t.name),
        ));
    }
    None
}

/// Tensors without bounds have no size that a buffer could be bound with; strings are packed.
fn port(part: &Part, tensor: TensorIndex) -> Option<Support> {
    let t = &part.tensors[tensor];
    let at_port = part.inputs.contains(&tensor) || part.outputs.contains(&tensor);
    if at_port && t.dtype != DType::String && t.dims.is_none() && t.bounds.is_none() {
        let detail = format!("'{}' at a port has no known bound", t.name);
        return Some(Support::no(Reason::DynamicShape, detail));
    }
    None
}
