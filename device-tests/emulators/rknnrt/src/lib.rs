//! `librknnrt.so`, emulated: the runtime of a board, with memory that both sides know and a context per core.
//!
//! Not here: what the calls do (`emulators/rknn`).

#![allow(unsafe_code, reason = "exports of the vendor's C interface")]

// the vendor's answer where the kernel has no chip
polychip_emulator_rknn::export_core!(RKNN_FAIL);
polychip_emulator_rknn::export_shared!();
