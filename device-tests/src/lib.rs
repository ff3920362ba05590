//! Shared code of the tests of whole models and of suites on disk.
//!
//! Invariants:
//! 1. Expected values come from others: the ONNX package's data sets, ONNX Runtime's outputs.
//! 2. A known failure is listed with its reason; one that passes unexpectedly fails the suite.
//! 3. Tests that cannot run here (no Python, no generated data) are reported as skipped, with the reason.
//!
//! Not here: unit tests (beside the code), benchmarks against peers (`peers/`), the Python that makes
//! expected values (`witness/`).

#![forbid(unsafe_code)]

pub mod emulated;
pub mod gpu;
pub mod litert;
pub mod model;
pub mod npy;
pub mod openvino;
pub mod part;
pub mod passes;
pub mod paths;
pub mod process;
pub mod quantised;
pub mod suite;
pub mod tflite;
pub mod turns;

pub use polychip_parts::{compare, expectations};
pub use polychip_test_requirements::{Need, left_out, libraries, skipped};
