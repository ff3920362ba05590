//! Proof on every instruction set: the ONNX backend suite through the CPU plugin, forced to each in turn.
//!
//! Invariant: only the CPU plugin is linked here, so that the tests build quickly for another processor (`cargo xtask
//! arm`).
//!
//! Not here: the suite (`polychip_device_tests::suite`), the kernels' own tests (`cpu-kernels`).

#![forbid(unsafe_code)]
