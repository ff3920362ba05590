//! The ascend plugin on the emulated library and compiler.

#![cfg(target_os = "linux")]

mod board;
mod compiler;
mod faults;
mod refusals;
mod runs;
