//! Lowering for GPUs: a part of a graph becomes launches of generated kernels, whatever driver runs them.
//!
//! Invariants:
//! 1. [`supports`] decides support by lowering each node alone; [`lower`] compiles nothing else.
//! 2. Everything that depends on constants only happens here. A program gives the location of every value.
//! 3. A blob holds all that the part needs, except weights that kernels read as the model has them: a blob with such
//!    weights loads beside its part only.
//!
//! Not here: any call of a driver (`plugins/gpu`, `plugins/opencl`), shader text (`gpu-kernels`).
//! Start reading at [`lower`], then [`program`], then [`Target`].

#![forbid(unsafe_code)]

pub mod blob;
pub mod constants;
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
