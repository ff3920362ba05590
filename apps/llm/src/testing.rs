//! GGUF files for tests: written field by field, tiny models of every block type, and mutants of
//! them.
//!
//! Invariants:
//! 1. The same arguments give the same bytes.
//! 2. The writer checks nothing: it must be able to write what the reader refuses.

mod model;
mod mutate;
mod template;

pub use crate::gguf::GgufWriter;
pub use model::{TinyModel, byte_level_tokens, random_blocks, tokenizer_json};
pub use mutate::{Mutant, mutant};
pub use template::template_mutant;
