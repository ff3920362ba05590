//! The nodes that the device supports, and the kernel for each. `lower` derives support, estimates
//! and steps from it.
//!
//! Invariant: a node for which [`kernel`] returns a kernel compiles, loads and runs.

use polychip_lowering::{Node, Outcome, Part, Refusal, TensorIndex};
use polychip_ops::{DType, Op, OpClass, axis};
use polychip_sdk::Reason;
use polychip_sdk::abi::POLYCHIP_MAX_RANK;
use serde::{Deserialize, Serialize};

/// The computation of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kernel {
    Copy,
    Relu,
    Add,
}

impl Kernel {
    /// The name that `polychip bench --per-op` shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kernel::Copy => "copy",
            Kernel::Relu => "relu",
            Kernel::Add => "add",
        }
    }

    /// Number of tensors that it reads.
    pub(crate) fn operands(self) -> usize {
        match self {
            Kernel::Copy | Kernel::Relu => 1,
            Kernel::Add => 2,
        }
    }
}

/// Returns the kernel for a node, or a refusal, whose reason and text `polychip explain` shows.
pub(crate) fn kernel(part: &Part, node: &Node) -> Outcome<Kernel> {
    let kernel = match (node.op.class(), node.op) {
        (OpClass::Movement, Op::Identity) => Kernel::Copy,
        (OpClass::ElementWise, Op::Relu) => Kernel::Relu,
        (OpClass::ElementWise, Op::Add) => Kernel::Add,
        _ => return Err(Refusal::op(node.op_name.clone())),
    };
    if node.reads().count() != kernel.operands() || node.writes().count() != 1 {
        return Err(Refusal::op(format!("{} of other operands", node.op_name)));
    }
    for tensor in node.reads().chain(node.writes()) {
        holds(part, tensor)?;
    }
    let out = node.output(0).and_then(|tensor| part.dims(tensor));
    if node.reads().any(|tensor| part.dims(tensor) != out) {
        return Err(Refusal::shape("broadcasting is not offered"));
    }
    Ok(kernel)
}

/// Refuses a tensor that the device cannot hold.
pub(crate) fn holds(part: &Part, tensor: TensorIndex) -> Outcome<()> {
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
    if dims.len() > POLYCHIP_MAX_RANK {
        let words = format!("rank {}; the limit is {POLYCHIP_MAX_RANK}", dims.len());
        return Err(Refusal::new(Reason::Rank, words));
    }
    if elements(dims).is_none() {
        return Err(Refusal::shape(format!(
            "tensor {name} of shape {dims:?} is too large"
        )));
    }
    Ok(())
}

/// Number of elements of a tensor; `None` if its bytes exceed the address space.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    let count = axis::product(shape)?;
    let bytes = DType::F32.byte_len(count)?;
    isize::try_from(bytes).is_ok().then_some(count)
}
