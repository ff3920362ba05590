//! An emulator of Qualcomm's `libQnnSystem.so`: it tells what stands in a context binary of the emulated HTP library.
//!
//! Invariants:
//! 1. Nothing here is shipped.
//! 2. What was handed out lives until its system object is freed.
//!
//! Not here: DLC files; those calls answer "not supported". The format of the binaries is `qnn_format`'s.

#![deny(unsafe_code)]
// the name of the vendor's library
#![allow(non_snake_case)]

mod export;
mod metadata;

pub use export::QnnSystemInterface_getProviders;
