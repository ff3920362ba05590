//! The one front end of plugins that lower a part themselves: the part, owned, and what every lowering asks of it.
//!
//! Invariants:
//! 1. A graph of a call is read once, in time linear in its size; constants stay where the host has them.
//! 2. Nothing here knows a device: what one can do is an argument.
//!
//! Not here: steps, launches or operations (each plugin's `lower`), kernels.
//! `vendor_compiler`, behind the feature `vendor-compiler`, is for plugins that lower nothing themselves: a vendor's compiler reads their parts as ONNX.
//! `operands`, a feature, is for plugins whose vendor takes a graph of operands.
//! Start reading at [`Part`], then [`Fusion`].

#![forbid(unsafe_code)]

mod check;
mod constant;
mod form;
mod fusion;
pub mod layout;
#[cfg(feature = "operands")]
pub mod operands;
mod part;
mod refusal;
mod scales;
#[cfg(feature = "vendor-compiler")]
pub mod vendor_compiler;

pub use check::check;
pub use constant::integers;
pub use form::{Forms, Storage};
pub use fusion::{Epilogue, Fusion, Group};
pub use layout::Layout;
pub use part::{Body, Extract, Node, Part, Tensor, TensorIndex};
pub use refusal::{Outcome, Refusal};
pub use scales::ScaleIndex;
