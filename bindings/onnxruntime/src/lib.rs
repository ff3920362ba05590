//! Polychip as an ONNX Runtime execution provider (`PolychipExecutionProvider`): a library that
//! ONNX Runtime loads, queries for supported nodes, and passes nodes of a model to.
//!
//! Invariants:
//! 1. Nothing of ONNX Runtime is linked: it passes its functions in. Nothing unwinds into it.
//! 2. A warning lists the nodes that are not run, with reasons. A session of which nothing is run
//!    is never silent.
//! 3. A node is claimed only if some device runs it, bodies included, as far as its sizes are known
//!    by then.
//! 4. Inputs are read and outputs written in ONNX Runtime's memory; copies are counted.
//!
//! Not here: the placement of nodes (`scheduler`), ONNX Runtime's declarations (`sys`). Start
//! reading at [`factory`], then [`provider`].

#![deny(unsafe_code)]

mod api;
mod changes;
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
mod source;
mod surroundings;
mod value;

pub use factory::{CreateEpFactories, ReleaseEpFactory};
pub use reports::polychip_ort_reports;

/// Name of the provider in ONNX Runtime.
const NAME: &std::ffi::CStr = c"PolychipExecutionProvider";
