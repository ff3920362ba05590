//! What the device supports: each refusal with its reason, which `polychip explain` shows.
//!
//! Invariant: what is supported here compiles, loads and runs.

use polychip_abi::POLYCHIP_MAX_RANK;
use polychip_ops::{DType, Op};
use polychip_sdk::{GraphView, NodeView, Reason, Support};

/// Whether the device runs a node.
pub(crate) fn support(graph: &GraphView<'_>, node: &NodeView<'_>) -> Support {
    if !matches!(node.op(), Op::Identity | Op::Relu | Op::Add) {
        return Support::no(Reason::Op, node.op_name().to_owned());
    }
    for tensor in node.inputs().chain(node.outputs()).flatten() {
        let tensor = graph.tensor(tensor);
        if !tensor.is_plain() {
            return Support::no(
                Reason::DType,
                format!("tensor {} is no plain tensor", tensor.name()),
            );
        }
        if tensor.dtype() != DType::F32 {
            let what = format!("tensor {} is of {}, not of f32", tensor.name(), tensor.dtype());
            return Support::no(Reason::DType, what);
        }
        if tensor.encoding().is_some() {
            return Support::no(Reason::Encoding, format!("tensor {} is quantised", tensor.name()));
        }
        let rank = tensor.dims().map_or(0, <[i64]>::len);
        if rank > POLYCHIP_MAX_RANK {
            return Support::no(
                Reason::Rank,
                format!("rank {rank}; the limit is {POLYCHIP_MAX_RANK}"),
            );
        }
        let Some(shape) = tensor.shape().filter(|_| !tensor.is_upper_bound()) else {
            let what = format!(
                "the shape of tensor {} is known only after the run",
                tensor.name()
            );
            return Support::no(Reason::DynamicShape, what);
        };
        if elements(&shape).is_none() {
            let what = format!("tensor {} of shape {shape:?} is too large", tensor.name());
            return Support::no(Reason::Shape, what);
        }
    }
    let shape = |place: Option<u32>| place.and_then(|tensor| graph.tensor(tensor).shape());
    let out = shape(node.output(0));
    if node.inputs().any(|tensor| shape(tensor) != out) {
        return Support::no(Reason::Shape, "broadcasting is not offered");
    }
    Support::Yes
}

/// Elements of a tensor whose bytes fit the address space.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    let count = shape
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
    count
        .checked_mul(size_of::<f32>())
        .filter(|&bytes| bytes <= isize::MAX as usize)?;
    Some(count)
}
