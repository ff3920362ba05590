//! ONNX Runtime's interface for execution providers in separate libraries.
//!
//! Invariant: names, layouts and codes are those of release 1.23 on 64-bit machines, which later
//! releases keep and extend.
//!
//! Nothing is opened here: the runtime loads the provider and passes its tables in. Not here:
//! kernels, allocators, streams and data transfers of a provider, which ours does not implement.

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
