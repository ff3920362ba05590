//! (polychip-abi: to be written)
