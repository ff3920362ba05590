//! ONNX Runtime's interface for providers that come in libraries of their own.
//!
//! Invariant: names, layouts and codes are those of release 1.23 on 64-bit machines, which later releases keep and add to.
//!
//! Nothing is opened here: the runtime loads the provider and hands its tables in. Not here: kernels, allocators, streams
//! and data transfers of a provider, which ours has none of.

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
