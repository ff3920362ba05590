//! Arbitrary bytes as an ONNX model: refused, or a well-formed graph that prints.
//!
//! Every other input is a field-level mutant of its model, most of which still parse; the others come from the
//! fuzzer.
//!
//! Invariant: an accepted import passes `verify`, and its text parses and prints the same. Not here: external data
//! (there is none), the graph's computation.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use polychip_graph::onnx::{self, NoExternalData, Options};
use polychip_graph::{text, verify};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(2) {
        let (_, mutant) = polychip_mutants::mutate(&data[..size], u64::from(seed));
        if mutant.len() <= max_size.min(data.len()) {
            data[..mutant.len()].copy_from_slice(&mutant);
            return mutant.len();
        }
    }
    fuzzer_mutate(data, size, max_size)
});

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
