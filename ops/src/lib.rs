//! (polychip-ops: to be written)
