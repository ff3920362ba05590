//! (polychip-plugin-cpu: to be written)
