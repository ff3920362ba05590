//! The oracle: computes each ONNX op in the slow, safe and obvious way, on one thread.
//!
//! Invariants:
//! 1. Floats of every width are computed in `f64` and rounded once, to nearest even, when stored.
//! 2. Integers are computed exactly (in `i128`) and wrap when stored.
//! 3. No unsafe code, no threads, no platform-dependent path: same operands, same bits (up to the
//!    platform's `libm`).
//! 4. Operands that do not fit together are an [`Error`], never a panic.
//!
//! Not here: speed, attributes and op names; `reference` maps ONNX nodes onto these kernels.
//! Start reading at [`Tensor`].

pub mod activation;
pub mod attention;
pub mod cast;
pub mod compare;
pub mod conv;
pub mod detect;
pub mod element;
pub mod elementwise;
mod error;
pub mod forest;
pub mod gather;
pub mod index;
pub mod label;
pub mod matmul;
pub mod minifloat;
pub mod norm;
pub mod pool;
pub mod quantise;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod resize;
pub mod shape;
pub mod signal;
pub mod softmax;
pub mod sort;
pub mod tensor;
pub mod text;
pub mod window;

pub use element::Element;
pub use error::{Error, Result};
pub use tensor::{List, Storage, Tensor, Wide};
