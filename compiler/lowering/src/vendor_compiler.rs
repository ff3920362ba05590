//! Parts that are handed to a vendor's compiler as ONNX models: what such a compiler may be given, what names a part, what
//! its work is, and the compiler's process.
//!
//! Quantised tensors are written as fake quantisation (`onnx::Quantised::Fake`), which is what such compilers read of models that
//! were quantised before.
//!
//! Invariant: nothing here knows a vendor: which ops, in which release of ONNX, by which program, are arguments.
//!
//! Not here: writing the model (`polychip_sdk::onnx`), the compiler's command line and answers (each plugin).

mod child;
mod rules;
mod work;

pub use child::{Child, Folder, read};
pub use rules::{Outcome, Quantised, Rules, decompose, refuse, rounds};
pub use work::{Work, work};

use polychip_sdk::onnx::{self, Options, Release, Weights};
use polychip_sdk::{GraphView, Result};

/// What names a part or a node by what it is.
pub type Hash = [u8; 32];

/// What a part is: its model in this release without large constants, and the fingerprint of all that it is made of.
///
/// # Errors
/// Where ONNX cannot say the part.
pub fn hash(graph: &GraphView<'_>, release: Release) -> Result<Hash> {
    let options = Options {
        weights: Weights::Placeholder(1024),
        quantised: onnx::Quantised::Fake,
        decompose: &decompose,
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&onnx::write_as(graph, &options, release)?);
    hasher.update(&graph.content_fingerprint());
    Ok(*hasher.finalize().as_bytes())
}

/// A part as a model of its own, constants in it.
///
/// # Errors
/// Where ONNX cannot say the part.
pub fn model(graph: &GraphView<'_>, release: Release) -> Result<Vec<u8>> {
    let options = Options {
        weights: Weights::Inline,
        quantised: onnx::Quantised::Fake,
        decompose: &decompose,
    };
    onnx::write_as(graph, &options, release)
}
