//! An emulator of `libneuron_adapter.so`. It has the library's names, types, codes and call order,
//! and computes correct outputs.
//!
//! The scalar reference computes the outputs; a table determines the times. Nothing here is
//! MediaTek's.
//!
//! - `POLYCHIP_NEURON_FAULTS`: injected faults (`polychip_emulator_chip::fault`) at `model`,
//!   `supported`, `finish`, `restore`, `memory` and `compute`. `supported:op=N=error:1` refuses
//!   operation N.
//! - `POLYCHIP_NEURON_TRACE`: a file that gets one line of JSON per call that builds, compiles or
//!   runs.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_neuron`, which no
//!    vendor's library has.
//! 2. A handle is a number that is never reused, so a freed handle is unknown and not dangling.
//! 3. Nothing unwinds into C; every refusal is one of the library's codes.
//!
//! Start reading at `model`, then `lower`, then `ffi`.

#![deny(unsafe_code)]

mod code;
mod ffi;
mod lower;
mod model;
mod trace;
mod world;
