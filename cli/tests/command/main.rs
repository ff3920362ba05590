//! The real binary, run as a person or a script runs it: what it prints, its exit codes, its files.

mod bad_input;
mod devices;
mod help;
mod model;
mod plans;
mod shapes;
mod small;
mod tool;
