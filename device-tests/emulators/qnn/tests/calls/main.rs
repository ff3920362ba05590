//! A client's calls of the emulated libraries, opened as a plugin opens them.
//!
//! Invariant: each test says which fact about the vendor's library it holds the emulator to.

mod client;
mod conv;
mod faults;
mod quirks;
mod threads;
