//! CPU kernels: slices in, slices out, written once over instruction-set tokens.
//!
//! 1. A kernel never allocates. If it needs memory besides its operands, the caller passes scratch
//!    memory whose length the plan states.
//! 2. Code for an instruction set is reachable only through an [`Isa`] value, which can be created
//!    only if the CPU supports it.
//! 3. Images are channels-last (`[n, d, h, w, c]`); [`transpose`] changes layouts at the edge of a graph.
//! 4. Weights are packed once, by a plan's `pack`, into plain `f32`s (or words of as many bits) whose layout depends
//!    on the plan's parameters and on [`Isa::code`] alone, so that they can be stored and loaded again.
//!
//! Not here: graphs, ops, devices, shape inference, and any decision about which kernel a node wants.
//!
//! Start reading at [`isa`] (the tokens), then [`tile`](crate::gemm) through [`gemm`] and [`conv`], then
//! [`threads`].
//!
//! ```
//! use polychip_cpu_kernels::{Isa, ThreadPool, gemm::{GemmPlan, Matrix}, Epilogue};
//!
//! let plan = GemmPlan::new(Isa::detect(), 2, 3)?;
//! let b = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // [k = 2, n = 3]
//! let mut packed = vec![0.0; plan.packed_len()];
//! plan.pack(Matrix::rows(&b, 3), Some(&[10.0, 20.0, 30.0]), &mut packed);
//! let pool = ThreadPool::new(1);
//! let mut scratch = vec![0.0; plan.scratch_len(1, &pool)];
//! let mut c = [0.0; 3];
//! plan.run(&pool, 1, Matrix::rows(&[1.0, 1.0], 2), &packed, None, Epilogue::NONE, &mut c, 3, &mut scratch);
//! assert_eq!(c, [15.0, 27.0, 39.0]);
//! # Ok::<(), polychip_cpu_kernels::Error>(())
//! ```
#![deny(unsafe_code)]

pub mod argreduce;
pub mod attention;
pub mod conv;
pub mod convert;
pub mod copy;
pub mod data_dependent;
pub mod depthwise;
pub mod elementwise;
pub mod elementwise_int;
pub mod forest;
#[cfg(feature = "fourier")]
pub mod fourier;
pub mod gemm;
pub mod gemm_int;
pub mod isa;
pub mod memory;
pub mod norm;
pub mod peak;
pub mod pool;
pub mod quantised;
pub mod recurrent;
pub mod reduce;
pub mod reference;
pub mod sample;
pub mod scan;
pub mod scatter;
pub mod softmax;
pub mod subnormal;
pub mod threads;
pub mod top_k;
pub mod transpose;
pub mod window_max;

mod error;
mod math;
mod schedule;
mod slice;
mod tile;
mod winograd;

pub use elementwise::{Binary, Epilogue, Residual, Unary};
pub use error::{Error, ErrorKind};
pub use isa::Isa;
pub use memory::AlignedVec;
pub use slice::{Slice, SliceMut};
pub use threads::ThreadPool;
