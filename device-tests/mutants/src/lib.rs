//! Run mutated models: each must be refused with a reason or run, in bounded time and memory; none panics or ends the
//! process.
//!
//! Invariants:
//! 1. A mutant is a function of its model and seed, so failures are reproducible.
//! 2. Mutants are made of the wire format's fields, not only of bytes, so that most of them still parse and reach what
//!    is behind the parser.
//!
//! [`mutate()`] makes one. The feature `drive` is the program: `serve` tries those that it is told in a process of its own, `drive`
//! starts such processes, watches their time and memory, and counts.
//! Not here: right answers; models from a fuzzer's search (`fuzz/`).
#![forbid(unsafe_code)]

#[cfg(feature = "drive")]
mod drive;
mod mutate;
#[cfg(feature = "drive")]
mod report;
#[cfg(feature = "drive")]
mod serve;
mod wire;

#[cfg(feature = "drive")]
pub use drive::{Conditions, drive, models};
pub use mutate::mutate;
#[cfg(feature = "drive")]
pub use report::Report;
#[cfg(feature = "drive")]
pub use serve::{ServeArguments, serve};
