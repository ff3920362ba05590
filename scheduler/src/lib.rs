//! (polychip: to be written)
