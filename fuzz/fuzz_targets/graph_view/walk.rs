//! Reads every field of a graph view.

use std::hint::black_box;

use polychip_ops::AttrKey;
use polychip_sdk::{AttributeView, GraphView, NodeView, TensorView};

pub fn graph(view: &GraphView<'_>) {
    black_box(format!("{view:?}"));
    black_box((view.structure_fingerprint(), view.content_fingerprint()));
    for tensor in view.tensors() {
        self::tensor(&tensor);
    }
    for node in view.nodes() {
        self::node(view, &node);
    }
    for input in view.inputs().iter().chain(view.outputs()) {
        black_box(view.tensor(*input).ty());
    }
    for group in view.groups() {
        for &node in group.nodes {
            black_box((group.kind, view.node(node as usize).name()));
        }
    }
    for (input, output) in view.states() {
        black_box((view.tensor(input).ty(), view.tensor(output).ty()));
    }
}

fn node(graph: &GraphView<'_>, view: &NodeView<'_>) {
    black_box((view.op(), view.domain(), view.op_name(), view.name()));
    for tensor in view.inputs().chain(view.outputs()).flatten() {
        black_box(graph.tensor(tensor).dims());
    }
    for attribute in view.attribute_views() {
        self::attribute(&attribute);
    }
    for (key, _) in view.attributes().iter() {
        if let AttrKey::Known(attr) = *key {
            black_box((
                view.int(attr),
                view.ints(attr),
                view.float(attr),
                view.body(attr).is_some(),
            ));
        }
    }
    for body in view.bodies() {
        for (outer, inner) in body.captures() {
            black_box((graph.tensor(outer).ty(), body.graph.tensor(inner).ty()));
        }
        self::graph(&body.graph);
    }
    if let Some(decomposition) = view.decomposition() {
        self::graph(&decomposition);
    }
}

fn attribute(view: &AttributeView<'_>) {
    black_box((view.name(), view.key(), view.value(), view.ints(), view.floats()));
    if let Some(tensor) = view.tensor() {
        self::tensor(&tensor);
    }
}

fn tensor(view: &TensorView<'_>) {
    black_box((
        view.name(),
        view.ty(),
        view.shape(),
        view.literal(),
        view.is_plain(),
        view.is_upper_bound(),
    ));
    if let Some(constant) = view.constant() {
        black_box(constant.bytes().iter().map(|&byte| u64::from(byte)).sum::<u64>());
    }
    if let Some(encoding) = view.encoding() {
        black_box(encoding.to_owned());
    }
}
