//! Kernels of codes.

mod blocks;
mod conv;
mod int4;
