//! (polychip-cpu: to be written)
