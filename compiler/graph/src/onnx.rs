//! Reading ONNX models: bytes in, canonical opset 28 graph out.
//!
//! Invariants:
//! 1. Weights stay in the memory that the caller passed in.
//! 2. Every name of the model is resolved, or the error names it; nothing panics on bad bytes.
//! 3. The graph that comes out uses opset 28 of the default domain only, functions are inlined, and
//!    its nodes are in canonical order.
//!
//! Not here: opening files ([`ExternalData`] is the caller's), computing anything.
//!
//! Start with [`import`], or [`import_model`] where no file is read; `messages` is the wire format, `build` walks the nodes, `convert` brings
//! old ops up to date.

mod attribute;
mod build;
pub mod content;
mod contrib;
mod convert;
mod external;
mod header;
mod import;
#[expect(
    missing_docs,
    reason = "the ONNX standard says under the same names what they are"
)]
pub mod messages;
mod opsets;
mod options;
mod order;
mod target;
#[cfg(test)]
mod testing;
mod types;
mod weights;

pub use external::{ExternalData, NoExternalData};
pub use header::{Header, read_header};
pub use import::{import, import_model, import_model_over};
pub use options::Options;
pub use weights::{read_packed, read_tensor};
