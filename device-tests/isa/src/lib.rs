//! Proof on every instruction set: the ONNX backend suite through the CPU plugin, forced to each in turn.
//!
//! Invariant: nothing but the CPU plugin is linked here, so that the tests are quick to build for another processor
//! (`cargo xtask arm`).
//!
//! Not here: the suite (`polychip_device_tests::suite`), the kernels' own tests (`cpu-kernels`).

#![forbid(unsafe_code)]
