//! An emulator of Qualcomm's `libQnnHtp.so`: the vendor's symbols, layouts, codes and quirks, with right answers.
//!
//! Invariants:
//! 1. Nothing here is shipped, and all that it computes is labelled emulated.
//!
//! Not here: anything that a client may depend on beyond what the vendor's library was seen to do.

#![deny(unsafe_code)]

mod lower;
mod real;
mod recipe;
mod soc;
mod view;
