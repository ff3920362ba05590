//! (polychip-sdk: to be written)
