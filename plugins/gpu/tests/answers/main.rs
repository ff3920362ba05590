//! The GPU's answers beside the CPU's, family by family and in small networks, on the GPU that is there: a software
//! one in ordinary CI. Without one each test says that it was skipped.

mod elementwise;
mod image;
mod movement;
mod net;
mod product;
