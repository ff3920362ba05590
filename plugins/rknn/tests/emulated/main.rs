//! The rknn plugin through the host, on the emulated runtime and compiler: what runs, what is refused and why, memory and
//! caches, faults of the runtime, and every way in which a compiler can fail.
//!
//! Invariant: the emulated library, its faults and its counts are global to the process, so tests run one at a time.

mod board;
mod compiler;
mod faults;
mod integers;
mod memory;
mod refusals;
mod runs;
