//! CPU kernels: tensors in, tensors out; nothing here knows a graph, a device or another crate of ours.

pub mod reference;
