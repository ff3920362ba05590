//! What emulated vendor libraries share: programs that the oracle computes, ONNX models as such, tables of chips, faults on
//! demand, a form of files.
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
