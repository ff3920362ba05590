//! An emulated `libneural_network_runtime.so`: the runtime's names, types, codes and order of calls, and right answers.
//!
//! What it computes comes from the scalar reference; how long a chip would take, from a table. Nothing here is
//! OpenHarmony's or Huawei's.
//!
//! - `POLYCHIP_NNRT_FAULTS`: faults on demand (`polychip_emulator_chip::fault`), over `model`, `available`, `build`,
//!   `export`, `import`, `tensor` and `run`. `available:op=N=error:1` says no to operation N.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_nnrt`, which no vendor's has.
//! 2. A handle is a number that is never given twice: a destroyed one is unknown, not dangling.
//! 3. Nothing unwinds into C; every refusal is one of the runtime's codes, or null where a call gives an object.
//! 4. A parameter must have the type that the runtime's own checks ask for, and be one of its operation.
//!
//! Start reading at `model`, then `lower`, then `ffi`.

#![deny(unsafe_code)]

mod code;
mod ffi;
mod lower;
mod model;
mod world;
