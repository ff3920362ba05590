//! The node evaluator: any ONNX node that the reference kernels can compute, one node at a time.
//!
//! Invariants:
//! 1. [`supported`] and [`evaluate`] read the same table: what the first accepts, the second computes
//!    or refuses for its values' sake, never for its types'.
//! 2. Same node and inputs, same bits out, on every run.
//! 3. Bad inputs are an [`EvaluateError`], never a panic.
//!
//! Not here: graphs of nodes, memory planning, speed. Start reading at [`evaluate`].

#![forbid(unsafe_code)]

mod activation;
mod call;
mod compare;
mod elementwise;
mod error;
mod evaluate;
mod literal;
mod table;

pub use error::{ErrorKind, EvaluateError, Reason};
pub use evaluate::{evaluate, supported};
pub use literal::{dtype, element, tensor_from_literal, tensor_to_literal};
pub use polychip_cpu_kernels::reference::Tensor;
