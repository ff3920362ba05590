//! The data that both emulated QNN libraries share: tensors, nodes, graphs, and the bytes of a
//! context binary.
//!
//! Invariants:
//! 1. Every read of a binary is checked: a malformed binary is an error, never a panic.
//! 2. Weights are last in a binary and have no checksum, so a binary with a flipped byte in them
//!    still loads, as with the vendor's library.
//!
//! Not here: the computation and validation of nodes (`qnn`), the C structs (`polychip-sys`).
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
