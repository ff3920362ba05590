//! How many runs hold a tensor's memory.
//!
//! Invariant: any number of readers, or one writer; tensors that share memory share this.

use std::sync::atomic::{AtomicU64, Ordering};

/// Runs that have memory and have not given their outputs or an error yet: in the low half how many that read it, or
/// one that writes it; in the high half how often the first of them came, so that one exchange changes both.
#[derive(Debug, Default)]
pub(crate) struct Holds(pub(super) AtomicU64);

impl Holds {
    /// Whether a run has the memory.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) & COUNT > 0
    }

    /// The time for which runs have had the memory without a gap, by its number: the app does not write it meanwhile.
    pub(crate) fn period(&self) -> u64 {
        self.0.load(Ordering::Acquire) >> PERIOD_SHIFT
    }
}

pub(super) const PERIOD_SHIFT: u32 = 32;

pub(super) const COUNT: u64 = (1 << PERIOD_SHIFT) - 1;

/// A run that writes has the memory.
pub(super) const WRITER: u64 = COUNT;

/// The holds once the first run has come, which counts as this many.
pub(super) fn begun(holds: u64, count: u64) -> u64 {
    (holds >> PERIOD_SHIFT).wrapping_add(1) << PERIOD_SHIFT | count
}
