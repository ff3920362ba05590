//! AscendCL, Huawei's runtime for Ascend boards: its C library.
//!
//! Invariant: names, layouts and codes are those of API 1.x on 64-bit machines. Functions that
//! older libraries lack are optional.
//!
//! Not here: the compiler (`atc`, a separate program), single ops, graphs built in the process.
//! Start reading at [`Library`].

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

pub use library::{FILE, HOME, Library};
