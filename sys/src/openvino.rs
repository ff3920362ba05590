//! Intel's OpenVINO: the C library, and its search paths.
//!
//! Invariant: names, types and codes are the library's own, of release 2025.0 and later.
//!
//! Not here: the C++ interface, models in files, preprocessing. Start reading at [`Library`].

#[allow(
    unsafe_code,
    missing_docs,
    unused,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]
pub mod bindings;
mod library;

pub use library::{Error, Library, OLDEST};
