//! (polychip-device-tests: to be written)
