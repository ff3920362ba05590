//! Small parts through the host: shared code of plugin tests.
//!
//! Invariant: a failure here fails the calling test at its line.
//!
//! Not here: what a plugin does beyond these (its own tests), the whole contract (`polychip-conform`).
//! Start reading at [`runs_more_than_once`].

#![forbid(unsafe_code)]

mod checks;
pub mod compare;
pub mod expectations;
mod graph;
mod memory;

pub use checks::{cached_bytes_load_and_changed_ones_are_refused, reason, runs_more_than_once, sum};
pub use graph::{binary, constant, floats, node, numbers, relu_of_sum, tensor};
pub use memory::{buffers, load, read, write};
