//! Kernels against plain loops and exact results, each file beside the module of its name.

mod argreduce;
mod attention;
mod conv;
mod convert;
mod copy;
mod data_dependent;
mod elementwise;
mod elementwise_int;
mod forest;
mod gemm;
mod gemm_int;
mod memory;
mod norm;
mod pool;
mod quantised;
mod reduce;
mod sample;
mod scan;
mod scatter;
mod softmax;
mod subnormal;
mod transpose;
mod window_max;
mod winograd;
