//! Supported nodes of a scripted device, with a reason for each refusal.

use std::borrow::Cow;

use polychip_ops::Op;
use polychip_reference::node_supported;
use polychip_sdk::{EncodingKind, GraphView, NodeView, Reason, Support};

use crate::pattern;
use crate::script::DeviceScript;

/// Whether a device runs a node.
pub(crate) fn support(script: &DeviceScript, graph: &GraphView<'_>, node: &NodeView<'_>) -> Support {
    match refusal(script, graph, node) {
        None => Support::Yes,
        Some((reason, detail)) => Support::No { reason, detail },
    }
}

type Refused = (Reason, Cow<'static, str>);

fn refusal(script: &DeviceScript, graph: &GraphView<'_>, node: &NodeView<'_>) -> Option<Refused> {
    let name = node.op_name();
    if let Some(refuse) = script
        .refuse
        .iter()
        .find(|refuse| pattern::matches(&refuse.node, node.name()))
    {
        let reason = refuse.reason().unwrap_or(Reason::Vendor);
        return Some((reason, refuse.detail.clone().into()));
    }
    let offered = (node.op() != Op::Custom || !script.answers)
        && script
            .ops
            .as_ref()
            .is_none_or(|ops| ops.iter().any(|op| op == name))
        && !script.without_ops.iter().any(|op| op == name);
    if !offered {
        return Some((Reason::Op, name.to_owned().into()));
    }
    if node.bodies().len() > 0 && !script.bodies {
        return Some((Reason::Body, name.to_owned().into()));
    }
    for tensor in node.inputs().chain(node.outputs()).flatten() {
        let tensor = graph.tensor(tensor);
        if !tensor.is_plain() {
            return Some((
                Reason::DType,
                format!("tensor {} is no plain tensor", tensor.name()).into(),
            ));
        }
        let dtype = tensor.dtype().name();
        if let Some(dtypes) = &script.dtypes
            && !dtypes.iter().any(|offered| offered == dtype)
        {
            return Some((Reason::DType, dtype.into()));
        }
        let rank = tensor.dims().map_or(0, <[i64]>::len);
        if script.max_rank.is_some_and(|max| rank > max) {
            return Some((Reason::Rank, format!("rank {rank}").into()));
        }
        if tensor.shape().is_none() {
            let what = format!("the shape of tensor {} is not known", tensor.name());
            return Some((Reason::DynamicShape, what.into()));
        }
        if tensor.is_upper_bound() && !script.dynamic_shapes {
            let what = format!("the shape of tensor {} depends on data", tensor.name());
            return Some((Reason::DynamicShape, what.into()));
        }
        if let Some(encoding) = tensor.encoding() {
            let kind = match encoding.kind() {
                EncodingKind::PerTensor => "tensor",
                EncodingKind::PerAxis { .. } => "axis",
                EncodingKind::PerBlock { .. } => "block",
                EncodingKind::Blocks(_) => "blocks",
            };
            if !script.encodings.iter().any(|offered| offered == kind) {
                return Some((Reason::Encoding, format!("per {kind}").into()));
            }
        }
    }
    let bytes = crate::work::bytes(graph, node);
    if script.memory_bytes > 0 && bytes > script.memory_bytes as f64 {
        let what = format!("{bytes} bytes; the device has {}", script.memory_bytes);
        return Some((Reason::Memory, what.into()));
    }
    match node_supported(graph, node) {
        Ok(()) => None,
        Err(_) if !script.answers => None,
        Err(why) => Some((Reason::Op, why.to_string().into())),
    }
}
