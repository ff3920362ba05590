//! What a caller chooses of how a model is read.
//!
//! Invariant: no choice changes what a graph computes for the same values of its inputs.

use std::collections::{BTreeMap, BTreeSet};

/// How a model is read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Most nodes after functions are inlined.
    pub node_limit: usize,
    /// Whether sizes that the model declares of intermediate values and outputs are believed where
    /// inference knows none. Element types are always believed.
    pub declared: bool,
    /// Whether attention over a cache and tables of codes (`com.microsoft` GroupQueryAttention and GatherBlockQuantized) are
    /// left as they are, for a caller that keeps the cache and the table itself.
    pub keep_decoder_ops: bool,
    /// Inputs whose default (an initialiser of the same name) is not used: they stay inputs.
    pub given: BTreeSet<String>,
    /// Ranks of inputs whose shape the model does not declare.
    pub ranks: BTreeMap<String, usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node_limit: 1 << 18,
            declared: true,
            keep_decoder_ops: false,
            given: BTreeSet::new(),
            ranks: BTreeMap::new(),
        }
    }
}
