//! Programs in C.
fn main() {}
