//! (polychip-reference: to be written)
