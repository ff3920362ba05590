//! `libascendcl.so`, emulated, and the compiler `atc`: the vendor's names, signatures, codes and command line, and right
//! answers in 16-bit floats.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_ascend`, which no vendor's has.
//! 2. The board's memory lies at addresses that the process has not mapped, so reading them as host memory crashes.
//! 3. Work on a stream happens only when the caller waits for the stream: a caller that does not wait sees
//!    old bytes.
//! 4. Tensors are rounded to 16-bit floats wherever a node writes one; answers are the oracle's else.
//!
//! The compiler writes files of our own form behind the vendor's mark, which only this library reads. Faults:
//! `POLYCHIP_ASCEND_FAULTS`, `POLYCHIP_ATC_FAULTS`; `POLYCHIP_ASCEND_BOARDS` sets the number of boards (1).
//!
//! Not here: single ops, graphs built in the process, dynamic shapes, host memory that the board maps.
//! Start reading at `ffi` for the library, at [`atc`] for the compiler.

#![deny(unsafe_code)]

pub mod atc;
mod board;
pub mod ffi;
mod stream;
mod world;
