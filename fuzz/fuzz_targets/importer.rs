//! Arbitrary bytes as an ONNX model: refused, or a graph that is well formed and prints.
//!
//! Invariant: what import accepts passes `verify`, and its text parses and prints the same.
//! Not here: external data (there is none), what the graph computes.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use polychip_graph::onnx::{self, NoExternalData, Options};
use polychip_graph::{text, verify};

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    // it reads other fields than the import does, so each may refuse what the other takes
    let _header = onnx::read_header(bytes.clone());
    // functions that call functions twice each grow to the limit; the usual one takes seconds here
    let mut options = Options::default();
    options.node_limit = 1 << 12;
    let Ok(graph) = onnx::import(bytes, &NoExternalData, &options) else {
        return;
    };
    verify(&graph).expect("what import gives is well formed");
    let printed = text::print(&graph);
    let again = text::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(text::print(&again), printed);
});
