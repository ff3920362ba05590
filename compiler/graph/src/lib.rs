//! What to compute: the graph IR, ONNX import, inference, text form, fingerprints and passes.
//!
//! Invariants:
//! 1. Nothing here knows that devices exist.
//! 2. Weights are never copied: a constant is a slice of memory that the caller owns.
//! 3. Whatever reaches a message, a fingerprint or another crate has a deterministic order.
//! 4. Bad input (a broken model, a wrong size) is an [`Error`] that names the thing, never a panic.
//!
//! Not here: files and memory maps (`contract/host` opens them), values (`reference` and the
//! devices compute; folding takes an injected evaluator), costs and placement (`partitioner`).
//!
//! Start with [`Graph`], then [`onnx::import`].

#![forbid(unsafe_code)]

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
mod bind;
mod constant;
mod encoding;
mod error;
mod evaluate;
mod extract;
pub mod fingerprint;
mod graph;
mod group;
mod ids;
mod independence;
mod infer;
pub mod onnx;
pub mod passes;
pub mod random;
mod tensor;
pub mod text;
mod verify;

pub use bind::{bind_dims, dim_names, sizes_of, unlink_dims};
pub use constant::{Constant, FileSlice};
pub use encoding::{Encoding, EncodingAxis};
pub use error::{Error, ErrorKind};
pub use evaluate::Evaluate;
pub use extract::extract;
pub use graph::order::Renumbering;
pub use graph::{Body, Capture, Node};
pub use graph::{Graph, State};
pub use group::{Group, GroupKind};
pub use ids::{NodeId, TensorId};
pub use independence::{TrueShapes, true_shapes};
pub use infer::{Values, infer};
pub use tensor::{Container, Tensor};
pub use verify::verify;
