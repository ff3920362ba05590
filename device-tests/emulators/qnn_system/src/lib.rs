//! An emulator of Qualcomm's `libQnnSystem.so`: it describes the context binaries of the emulated HTP library.
//!
//! Invariants:
//! 1. Nothing here is shipped.
//! 2. A returned description lives until its system object is freed.
//!
//! Not here: DLC files; those calls answer "not supported". The format of the binaries is `qnn_format`'s.

#![deny(unsafe_code)]
// the name of the vendor's library
#![allow(non_snake_case)]

mod export;
mod metadata;

pub use export::QnnSystemInterface_getProviders;
