//! An emulator of Qualcomm's `libQnnHtp.so`: the vendor's symbols, layouts, codes and quirks, with right answers.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_qnn`, which no vendor's has: all that it computes
//!    is labelled emulated.
//!
//! Not here: anything that a client may depend on beyond what the vendor's library was seen to do.

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
