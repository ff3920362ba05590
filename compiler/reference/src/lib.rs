//! The node evaluator: any ONNX node that the reference kernels can compute, one node at a time.
//!
//! Invariants:
//! 1. [`supported`] and [`evaluate`] read the same table: what the first accepts, the second computes
//!    or refuses for its values' sake, never for its types'.
//! 2. Same node and inputs, same bits out, on every run.
//! 3. Bad inputs are an [`EvaluateError`], never a panic.
//!
//! Not here: memory planning, speed. Start reading at [`evaluate`]; [`Program`] runs a whole graph.

#![forbid(unsafe_code)]

mod activation;
mod attention;
mod call;
mod cast;
mod compare;
mod control;
mod conv;
mod detect;
mod elementwise;
mod error;
mod evaluate;
mod gather;
mod literal;
mod matmul;
mod ml;
mod norm;
mod pool;
mod program;
mod quantise;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod row;
mod sequence;
mod shape;
mod signal;
mod softmax;
mod sort;
mod table;
mod text;
mod window;

pub use control::{Body, evaluate_control};
pub use error::{ErrorKind, EvaluateError, Reason};
pub use evaluate::{evaluate, evaluate_packed, supported};
pub use literal::{dtype, element, tensor_from_literal, tensor_to_literal};
pub use ml::forest;
pub use polychip_cpu_kernels::reference::Tensor;
pub use program::{Program, node_supported};
pub use sequence::{edit_sequence, pack_tensor, unpack_tensor};
