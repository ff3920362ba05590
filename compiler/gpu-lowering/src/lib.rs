//! Lowering for GPUs: a part of a graph becomes launches of generated kernels, whatever driver runs them.
//!
//! Invariants:
//! 1. [`supports`] says what is supported by lowering each node alone; [`lower`] compiles nothing else.
//! 2. Everything that depends on constants only happens here. A program says where every value lies.
//! 3. A blob holds all that the part needs, so that a cached one loads without the model.
//!
//! Not here: any call of a driver (`plugins/gpu`, `plugins/opencl`), shader text (`gpu-kernels`).
//! Start reading at [`lower`], then [`program`], then [`Target`].

#![forbid(unsafe_code)]

pub mod blob;
pub mod program;

mod autotune;
mod estimate;
mod guard;
mod lower;
mod target;
mod tune;

pub use autotune::{AutotuneDevice, TimedKernel};
pub use blob::Lowered;
pub use estimate::estimate;
pub use guard::{Guard, Keep};
pub use lower::{lower, supports};
pub use target::{Rates, Target};
pub use tune::Tuner;
