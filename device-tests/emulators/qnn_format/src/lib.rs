//! What both emulated QNN libraries know: tensors, nodes, graphs, and the bytes of a context binary.
//!
//! Invariants:
//! 1. Bytes from outside are read with checks: a malformed binary is an error, never a panic.
//! 2. Weights stand last in a binary and are not guarded by a sum: a flipped byte in them still loads, as with
//!    the vendor's library.
//!
//! Not here: what a node computes, what a device accepts (`qnn`); the C structs (`polychip-sys`).
//! Start reading at [`Binary`].

#![forbid(unsafe_code)]

mod binary;
mod bytes;
mod dtype;
mod encoding;
mod node;
mod tensor;

pub use binary::{Binary, BinaryError, CORE_VERSION, HTP_VERSION, SYSTEM_VERSION, Target, sum};
pub use dtype::Dtype;
pub use encoding::{Encoding, Linear};
pub use node::{Graph, Node, Param, Scalar};
pub use tensor::{Kind, Tensor};
