//! `polychip-runner`: measures on a board of a device farm.

#![forbid(unsafe_code)]

fn main() {}
