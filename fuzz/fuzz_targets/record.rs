//! Arbitrary bytes as each record that the process of an isolated plugin may send.
//!
//! Invariant: a record is refused or read, never with a panic or an unbounded allocation. Not here: lies in valid
//! records, which the tests of `contract/isolation` tell.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| polychip_isolation::read_records(input));
