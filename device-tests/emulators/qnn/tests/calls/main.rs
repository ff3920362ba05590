//! A client's calls of the emulated libraries, opened as a plugin opens them.
//!
//! Invariant: each test names the fact about the vendor's library that the emulator must reproduce.

mod client;
mod conv;
mod faults;
mod quirks;
mod threads;
