//! Shared code of emulated vendor libraries: programs, which the scalar reference (the *oracle*)
//! computes; conversion of ONNX models to programs; chip tables; injected faults; a file format.
//!
//! Invariants:
//! 1. Nothing here is shipped. Every emulator labels its results as emulated.
//! 2. The scalar reference computes all outputs; a chip table determines times and energies.
//!
//! Not here: any vendor's symbols, layouts or codes (the emulator of that vendor).

#![forbid(unsafe_code)]

pub mod fault;
pub mod file;
pub mod model;
pub mod program;
pub mod table;
