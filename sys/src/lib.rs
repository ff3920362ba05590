//! Raw interfaces of vendors' libraries: declarations of their C functions, and loaders that open
//! them at run time.
//!
//! Invariants:
//! 1. One feature per SDK; nothing of an SDK is compiled without its feature.
//! 2. Bindings are generated from our own headers (`headers/*.h`, `cargo xtask bindgen`), never
//!    from a vendor's.
//! 3. A library is opened at run time, never linked, and never closed.
//!
//! Not here: any policy. The plugins decide which functions to call, and in which order.

#![deny(unsafe_code)]

#[cfg(feature = "ascend")]
pub mod ascend;
#[cfg(feature = "coreml")]
pub mod coreml;
mod elf;
mod error;
mod library;
#[cfg(feature = "neuron")]
pub mod neuron;
#[cfg(feature = "nnrt")]
pub mod nnrt;
#[cfg(feature = "onnxruntime")]
pub mod onnxruntime;
#[cfg(feature = "openvino")]
pub mod openvino;
#[cfg(feature = "qnn")]
pub mod qnn;
#[cfg(feature = "rknn")]
pub mod rknn;
#[cfg(any(
    feature = "ascend",
    feature = "neuron",
    feature = "nnrt",
    feature = "openvino",
    feature = "rknn"
))]
mod symbols;

pub use error::{Error, ErrorKind, Result};
pub use library::{Library, SearchPath};
