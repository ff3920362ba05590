//! Arbitrary bytes as the body of a request for a chat or a completion.
//!
//! Invariant: it is refused with a problem that is JSON, or read. Not here: HTTP itself (hyper), schemas and templates,
//! which are read in processes of their own.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| polychip_serve::read_request(input));
