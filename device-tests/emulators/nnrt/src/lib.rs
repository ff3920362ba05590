//! An emulator of `libneural_network_runtime.so`. It has the runtime's names, types, codes and call
//! order, and computes correct outputs.
//!
//! The scalar reference computes the outputs; a table determines the times. Nothing here is
//! OpenHarmony's or Huawei's.
//!
//! - `POLYCHIP_NNRT_FAULTS`: injected faults (`polychip_emulator_chip::fault`) at `model`,
//!   `available`, `build`, `export`, `import`, `tensor` and `run`. `available:op=N=error:1` refuses
//!   operation N; `available:*=wrong` gives a count of 0 and no answers.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_nnrt`, which no
//!    vendor's library has.
//! 2. A handle is a number that is never reused, so a destroyed handle is unknown and not dangling.
//! 3. Nothing unwinds into C; every refusal is one of the runtime's codes, or null from a call that
//!    returns an object.
//! 4. A parameter must belong to its operation and have the type that the runtime's own checks
//!    require.
//!
//! Start reading at `model`, then `lower`, then `ffi`.

#![deny(unsafe_code)]

mod code;
mod ffi;
mod lower;
mod model;
mod world;
