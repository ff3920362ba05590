//! What is known of a tensor of an exported graph.

use polychip_graph::{Graph, TensorId};
use polychip_ops::DType;

/// The known dimensions of a tensor.
pub(super) fn dims(graph: &Graph, id: TensorId) -> Option<Vec<usize>> {
    let tensor = graph.tensor(id);
    tensor.typed.then(|| tensor.ty.sizes())?
}

/// Whether a tensor is of floats that are widened to f32 where they are not.
pub(super) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}
