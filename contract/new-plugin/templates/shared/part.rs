//! What the lowering asks of a part, whatever the device.

use polychip_lowering::{Node, Outcome, Part, Refusal, TensorIndex};
use polychip_ops::{DType, axis};
use polychip_sdk::Reason;

/// Replaces each node without a kernel by the primitive ops that it was recomposed from, if all of
/// these have kernels.
pub(crate) fn resolved(part: Part, has_kernel: impl Fn(&Part, &Node) -> bool) -> Part {
    let apart: Vec<bool> = part
        .nodes
        .iter()
        .map(|node| {
            let inner = node
                .decomposition
                .as_deref()
                .filter(|_| !has_kernel(&part, node));
            inner.is_some_and(|inner| inner.nodes.iter().all(|node| has_kernel(inner, node)))
        })
        .collect();
    part.decomposed(|node| apart[node])
}

/// Refuses a tensor that is no plain f32 of known shape, or of a rank above `max_rank`.
pub(crate) fn check_tensor(part: &Part, tensor: TensorIndex, max_rank: usize) -> Outcome<()> {
    let tensor = &part.tensors[tensor];
    let name = &tensor.name;
    if !tensor.plain {
        return Err(Refusal::dtype(format!("tensor {name} is no plain tensor")));
    }
    if tensor.dtype != DType::F32 {
        let words = format!("tensor {name} is of {}, not of f32", tensor.dtype);
        return Err(Refusal::dtype(words));
    }
    if tensor.encoding.is_some() {
        return Err(Refusal::encoding(format!("tensor {name} is quantised")));
    }
    let Some(dims) = &tensor.dims else {
        let words = format!("the shape of tensor {name} is known only after the run");
        return Err(Refusal::new(Reason::DynamicShape, words));
    };
    if dims.len() > max_rank {
        let words = format!("rank {}; the limit is {max_rank}", dims.len());
        return Err(Refusal::new(Reason::Rank, words));
    }
    if elements(dims).is_none() {
        return Err(Refusal::shape(format!(
            "tensor {name} of shape {dims:?} is too large"
        )));
    }
    Ok(())
}

/// Number of f32 elements of a tensor; `None` if its bytes exceed the address space.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    let count = axis::product(shape)?;
    let bytes = DType::F32.byte_len(count)?;
    isize::try_from(bytes).is_ok().then_some(count)
}
