//! The plugin contract of Polychip: C structs, codes and the function table. No behaviour.
//!
//! A plugin is a shared library with one pure export, [`QUERY_SYMBOL`], that returns a static
//! [`polychip_plugin_table`] or null. All data that crosses is flat: fixed-width integers, pointer
//! and length, opaque handles, function pointers.
//!
//! Invariants:
//! 1. The first field of every extensible struct is `struct_size`, set by the side that fills the
//!    struct. A reader uses only the common prefix and refuses a size that ends inside a field.
//! 2. Arrays of structs travel with a stride in bytes, so that elements may grow.
//! 3. Fields and codes are appended. They are never reordered, resized, renumbered or given a new
//!    meaning.
//! 4. The side that creates an object destroys it, through the same table; every destroy accepts
//!    null.
//! 5. Inputs are valid for the call only, unless a field states otherwise. Outputs live as long as
//!    the object they came from. Names of plugins and devices are static or live as long as their
//!    handle.
//! 6. Nothing unwinds across a call. Every call that can fail returns a status and fills a
//!    [`polychip_error`], which the caller owns and which may be null.
//!
//! Not here: loading (`contract/host`), safe wrappers for plugin authors (`contract/sdk`). Start
//! reading at [`table`].

#![forbid(unsafe_code)]
#![allow(
    non_camel_case_types,
    reason = "the names are those of the C header, so that one search finds both"
)]

pub mod attribute;
pub mod buffer;
pub mod compile;
pub mod cost;
pub mod device;
pub mod dtype;
pub mod encoding;
pub mod error;
pub mod execute;
pub mod fence;
mod fixed_str;
pub mod graph;
pub mod host;
pub mod layout;
pub mod op;
pub mod port;
pub mod sized;
pub mod span;
pub mod step;
pub mod support;
pub mod table;
pub mod telemetry;
pub mod tensor;

pub use buffer::*;
pub use compile::*;
pub use cost::*;
pub use device::*;
pub use encoding::*;
pub use error::*;
pub use execute::*;
pub use fence::*;
pub use graph::*;
pub use host::*;
pub use port::*;
pub use sized::Sized;
pub use span::*;
pub use step::*;
pub use support::*;
pub use table::*;
pub use telemetry::*;
pub use tensor::*;
