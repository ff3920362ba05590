//! Polychip as a provider of ONNX Runtime (`PolychipExecutionProvider`): a library that ONNX Runtime loads, asks what it
//! runs, and hands nodes of a model to.
//!
//! Invariants:
//! 1. Nothing of ONNX Runtime is linked: it hands its functions in. Nothing unwinds into it.
//! 2. What is not run stands in a warning with its reasons; a session of which nothing is run is never silent.
//! 3. A node is claimed only where some device of ours runs it, bodies and all, as far as its sizes are known by then.
//! 4. Inputs are read and outputs written where ONNX Runtime has them; what is copied is counted.
//!
//! Not here: where nodes run (`scheduler`), ONNX Runtime's declarations (`sys`).
//! Start reading at [`factory`], then [`provider`].

#![deny(unsafe_code)]

mod api;
mod claim;
mod compiled;
mod compiling;
mod context;
mod entry;
mod factory;
mod failure;
mod fused;
mod identity;
mod log;
mod options;
mod ort;
mod provider;
#[cfg(feature = "python")]
mod python;
mod read;
mod reports;
mod saved;
mod sets;
mod value;

pub use factory::{CreateEpFactories, ReleaseEpFactory};
pub use reports::polychip_ort_reports;

/// What ONNX Runtime calls the provider.
const NAME: &std::ffi::CStr = c"PolychipExecutionProvider";
