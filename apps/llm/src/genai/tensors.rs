//! Queries on tensors and attributes of an exported graph.

use polychip_graph::{Graph, TensorId};
use polychip_ops::{AttrValue, DType};

/// The domain of the ops that ONNX Runtime adds to ONNX's.
pub(super) const MICROSOFT: &str = "com.microsoft";

/// An attribute's value, for messages.
pub(super) fn shown(value: &AttrValue) -> String {
    match value {
        AttrValue::Int(value) => value.to_string(),
        AttrValue::Float(value) => value.to_string(),
        AttrValue::String(value) => format!("{:?}", &**value),
        other => format!("{other:?}"),
    }
}

/// The known dimensions of a tensor.
pub(super) fn dims(graph: &Graph, id: TensorId) -> Option<Vec<usize>> {
    let tensor = graph.tensor(id);
    tensor.typed.then(|| tensor.ty.sizes())?
}

/// Whether a type is a float, which is widened to f32 if it is narrower.
pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}
