//! How parts and nodes are passed to the library: which constants beside their model, and which
//! properties.

use std::ffi::{CStr, CString};

use polychip_sdk::onnx::Weights;
use polychip_sdk::{Error, GraphView, NodeView, Precision, Result};

use crate::api::{self, Core, Port};
use crate::probe;
use crate::shared::{Shared, Vendor};

/// Constants of this many bytes and more are handed over by address. Shapes and axes stay in the model.
pub(crate) const LARGE: usize = 1024;

/// Whether a node is handed over as the primitive ops that it was recomposed from.
pub(crate) fn decompose(_node: &NodeView<'_>) -> bool {
    false
}

/// How constants go to the library.
pub(crate) fn weights(vendor: &Vendor) -> Weights {
    match vendor.by_address {
        Some(least) => Weights::Address(least),
        None => Weights::Inline,
    }
}

/// Whether the library sees a tensor as the graph has it.
pub(crate) fn agrees(graph: &GraphView<'_>, tensor: u32, port: &Port) -> Result<()> {
    let view = graph.tensor(tensor);
    let refused =
        |what: String| Err(Error::unsupported(format!("tensor {}: {what}", view.name())).at_tensor(tensor));
    if api::element(view.dtype()) != Some(port.element) {
        return refused(format!(
            "OpenVINO makes element type {} of {}",
            port.element,
            view.dtype()
        ));
    }
    match (&port.dims, view.dims()) {
        (Some(theirs), Some(ours)) if theirs == ours => Ok(()),
        (Some(theirs), Some(ours)) => refused(format!("OpenVINO makes shape {theirs:?} of {ours:?}")),
        (None, _) => refused("OpenVINO cannot say its shape before the run".to_owned()),
        (_, None) => refused("its rank is not known".to_owned()),
    }
}

pub(crate) fn properties(
    shared: &Shared,
    precision: Precision,
    threads: u32,
) -> Vec<(&'static CStr, CString)> {
    let text = |value: &str| CString::new(value).expect("invariant: our own text holds no zero");
    // a latency-bound run at a time; by its own choice the library computes in bf16 where the chip can
    let mut properties = vec![
        (c"PERFORMANCE_HINT", text("LATENCY")),
        (c"NUM_STREAMS", text("1")),
    ];
    if precision == Precision::Exact {
        properties.push((c"INFERENCE_PRECISION_HINT", text("f32")));
        properties.push((c"EXECUTION_MODE_HINT", text("ACCURACY")));
    }
    if !shared.integers {
        properties.push((c"LP_TRANSFORMS_MODE", text("NO")));
    }
    if shared.is_cpu {
        // the cores are shared with the host's other threads, which pinned ones would stand in the way of
        properties.push((c"ENABLE_CPU_PINNING", text("NO")));
        if threads > 0 {
            properties.push((c"INFERENCE_NUM_THREADS", text(&threads.to_string())));
        }
    }
    properties
}

/// Whether the library reads constants by their address; asked with a model of one.
pub(crate) fn reads_by_address(core: &Core) -> bool {
    let value = [2.0f32; 4];
    let model = probe::sum_with(&value);
    core.read(&model).is_ok()
}
