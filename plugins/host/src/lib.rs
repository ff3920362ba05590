//! (polychip-host: to be written)
