//! The nodes that the device supports, and the kernel for each. `lower` derives support, estimates
//! and steps from it.
//!
//! Invariant: a node for which [`kernel`] returns a kernel compiles, loads and runs.

use polychip_lowering::{Node, Outcome, Part, Refusal};
use polychip_ops::{Op, OpClass};
use polychip_sdk::abi::POLYCHIP_MAX_RANK;
use serde::{Deserialize, Serialize};

use crate::part;

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
        part::check_tensor(part, tensor, POLYCHIP_MAX_RANK)?;
    }
    let out = node.output(0).and_then(|tensor| part.dims(tensor));
    if node.reads().any(|tensor| part.dims(tensor) != out) {
        return Err(Refusal::shape("broadcasting is not offered"));
    }
    Ok(kernel)
}
