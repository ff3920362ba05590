//! Paths of models and data.

use std::path::{Path, PathBuf};

/// Why a test of the ONNX backend suite cannot run.
pub const NO_SUITE: &str = "device-tests/generated is not there (`cargo xtask models` makes it)";

/// Why a test of the larger models cannot run.
pub const NO_MODELS: &str = "device-tests/generated/models is not there (`cargo xtask models` makes it)";

/// The repository's root folder.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("invariant: device-tests lies in the root")
}

/// Models and ONNX Runtime's outputs, made by `cargo xtask models`.
#[must_use]
pub fn models() -> PathBuf {
    root().join("device-tests/generated/models")
}

/// The ONNX backend suite, made by `cargo xtask models`.
#[must_use]
pub fn suite() -> PathBuf {
    root().join("device-tests/generated/onnx")
}
