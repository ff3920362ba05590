//! `librknn_api.so`, emulated: the runtime of a connected board, which copies tensors and has nothing else.
//!
//! Not here: what the calls do (`emulators/rknn`).

#![allow(unsafe_code, reason = "exports of the vendor's C interface")]

// the vendor's answer where no board is connected
polychip_emulator_rknn::export_core!(RKNN_NO_DEVICE);
