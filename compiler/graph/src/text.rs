//! The text form of a graph: for fixtures, snapshots and eyes.
//!
//! ```text
//! graph "g" {
//!   input t0 "x": f32[n, 4]
//!   const t1 "w": f32[4] = [1.0, 2.0, 3.0, 4.0]
//!   t2 "y": f32[n, 4] = Mul "scale"(t0, t1) {}
//!   output t2
//! }
//! ```
//!
//! Invariants:
//! 1. Text that was printed parses, and prints the same again, within the limit of 3.
//! 2. A sorted graph that is printed in full and parsed is the same graph, but for the places of its
//!    constants in files.
//! 3. [`print()`] shows constants of more than 32 elements as `seed 0x…`, made from their bytes; such a
//!    constant parses as values drawn from that seed, and prints as that seed again. One text draws at
//!    most 1 GiB.
//! 4. Nodes are numbered by their order; groups name them so.
//!
//! Not here: files of constants.

use crate::{Error, Graph};

mod lex;
mod parse;
mod print;
mod values;

/// The text of a graph, with large constants as seeds.
///
/// ```
/// let text = "graph \"g\" {\n  input t0 \"x\": i64[2]\n  t1 \"y\": i64[2] = Neg \"\"(t0)\n  output t1\n}\n";
/// let graph = polychip_graph::text::parse(text).unwrap();
/// assert_eq!(polychip_graph::text::print(&graph), text);
/// ```
pub fn print(graph: &Graph) -> String {
    print::print(graph, false)
}

/// The text of a graph with every element of every constant.
pub fn print_full(graph: &Graph) -> String {
    print::print(graph, true)
}

/// Reads the text of a graph. The result is not verified.
///
/// # Errors
/// If the text does not parse; the message gives the line.
pub fn parse(text: &str) -> Result<Graph, Error> {
    parse::parse(text)
}

#[cfg(test)]
mod tests;
