//! (polychip-cpu-kernels: to be written)
