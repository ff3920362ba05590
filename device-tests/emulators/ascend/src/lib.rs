//! An emulator of `libascendcl.so` and of the compiler `atc`. It has the vendor's names,
//! signatures, codes and command line, and computes correct outputs in 16-bit floats.
//!
//! Invariants:
//! 1. Nothing here is shipped. The library has the symbol `polychip_emulates_ascend`, which no
//!    vendor's library has.
//! 2. The board's memory has addresses that the process has not mapped, so reading them as host
//!    memory crashes.
//! 3. Work on a stream is done only when a caller waits for the stream. A caller that does not wait
//!    sees old bytes.
//! 4. Every tensor that a node writes is rounded to 16-bit floats; apart from that, outputs are
//!    those of the scalar reference.
//!
//! The compiler's files have the vendor's magic number and our own format, which only this library
//! reads. `POLYCHIP_ASCEND_FAULTS` and `POLYCHIP_ATC_FAULTS` hold fault rules;
//! `POLYCHIP_ASCEND_BOARDS` sets the number of boards (default 1).
//!
//! Not here: single ops, graphs built in the process, dynamic shapes, host memory that the board maps.
//! Start reading at `ffi` for the library, at [`atc`] for the compiler.

#![deny(unsafe_code)]

pub mod atc;
mod board;
pub mod ffi;
mod stream;
mod world;
