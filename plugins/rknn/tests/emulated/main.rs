//! The rknn plugin through the host, on the emulated runtime and compiler: what runs, what is refused and why, memory and
//! caches, faults of the runtime, and every way in which a compiler can fail.
//!
//! Invariant: the emulated library is the process's, with its faults and counts, so tests take turns.

mod board;
mod compiler;
mod faults;
mod integers;
mod memory;
mod refusals;
mod runs;
