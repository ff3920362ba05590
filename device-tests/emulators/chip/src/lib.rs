//! Shared code of emulated vendor libraries: programs computed by the oracle, ONNX models as programs, chip tables,
//! faults on demand, a file format.
//!
//! Invariants:
//! 1. Nothing here is shipped, and its users label all that it computes as emulated.
//! 2. Right answers come from the scalar reference alone; a table states how long they take.
//!
//! Not here: any vendor's symbols, layouts or codes (the emulator of that vendor).

#![forbid(unsafe_code)]

pub mod fault;
pub mod file;
pub mod model;
pub mod program;
pub mod table;
