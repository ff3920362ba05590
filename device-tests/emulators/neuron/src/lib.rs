//! An emulated `libneuron_adapter.so`: the library's names, types, codes and order of calls, and right answers.
//!
//! What it computes comes from the scalar reference; how long a chip would take, from a table. Nothing here is MediaTek's.
//!
//! - `POLYCHIP_NEURON_FAULTS`: faults on demand (`polychip_emulator_chip::fault`), over `model`, `supported`, `finish`,
//!   `restore`, `memory` and `compute`. `supported:op=N=error:1` says no to operation N.
//! - `POLYCHIP_NEURON_TRACE`: a file that gets one line of JSON per call that builds, compiles or runs.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_neuron`, which no vendor's has.
//! 2. A handle is a number that is never given twice: a freed one is unknown, not dangling.
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
