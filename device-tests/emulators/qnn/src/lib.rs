//! An emulator of Qualcomm's `libQnnHtp.so`. It has the vendor's symbols, layouts, codes and
//! quirks, and computes correct outputs.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_qnn`, which no
//!    vendor's library has, so all of its results are labelled emulated.
//!
//! Not here: behaviour that was not observed in the vendor's library.

#![deny(unsafe_code)]
// the name of the vendor's library
#![allow(non_snake_case)]

mod code;
mod fast;
mod fault;
mod ffi;
mod lower;
#[cfg(test)]
mod operand;
mod plan;
mod profile;
mod real;
mod recipe;
mod soc;
mod support;
mod trace;
mod view;
mod world;

pub use ffi::{
    QnnInterface_getProviders, polychip_emulates_qnn, polychip_emulator_qnn_addressed,
    polychip_emulator_qnn_corner, polychip_emulator_qnn_faults, polychip_emulator_qnn_live,
};
