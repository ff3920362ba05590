//! (polychip-graph: to be written)
