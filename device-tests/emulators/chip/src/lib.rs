//! Shared code of emulated vendor libraries: programs computed by the oracle, ONNX models as programs, chip tables,
//! faults on demand, a file format.
//!
//! Invariants:
//! 1. Nothing here is shipped, and all that it computes is labelled emulated by who uses it.
//! 2. Right answers come from the scalar reference alone; a table decides how long they are said to take.
//!
//! Not here: any vendor's symbols, layouts or codes (the emulator of that vendor).

#![forbid(unsafe_code)]

pub mod fault;
pub mod file;
pub mod model;
pub mod program;
pub mod table;
