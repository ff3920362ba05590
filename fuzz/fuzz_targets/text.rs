//! Arbitrary text as the text form of a graph: refused, or a graph whose text is stable.
//!
//! Invariant: a parsed graph prints as text that parses and prints the same, short and in full; the verifier checks
//! any such graph without a panic. Not here: inference and passes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polychip_graph::{Graph, text, verify};

/// Graphs with more bytes of constants than this are not printed: it takes seconds and shows nothing new.
const LARGE: usize = 1 << 22;

fuzz_target!(|input: &str| {
    let Ok(graph) = text::parse(input) else {
        return;
    };
    let _refused_or_not = verify(&graph);
    let drawn = graph.tensors().filter_map(|(_, tensor)| tensor.data.as_ref());
    if drawn.map(|data| data.bytes.len()).sum::<usize>() > LARGE {
        return;
    }
    stable(&graph, text::print);
    stable(&graph, text::print_full);
});

fn stable(graph: &Graph, print: fn(&Graph) -> String) {
    let printed = print(graph);
    let again = text::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(print(&again), printed);
}
