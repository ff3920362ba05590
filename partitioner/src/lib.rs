//! (polychip-partitioner: to be written)
