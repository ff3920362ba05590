//! A KV cache as its model sees it: a member of the account of the runtime's memory.
//!
//! Not here: what it holds, and when it may be released (`sequence/resting`).

use polychip::Releasable;

/// The KV cache of a sequence.
pub(crate) trait KvCache: Releasable {
    /// The bytes that count in the account.
    fn bytes(&self) -> u64;
}
