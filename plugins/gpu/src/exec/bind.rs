//! Launches over bound memory: made ready at the first run over it, and kept.
//!
//! Invariants:
//! 1. At most [`KEPT`] sets of memory are known, those used last; none outlives its buffers.
//! 2. Launches that are under way are the run's: a second run over the same memory gets others.

use super::port_binding::PortBinding;
use crate::driver::launches::Launches;

/// Sets kept per part and command queue.
const KEPT: usize = 32;
/// Runs over the same memory that are under way at once without another allocation.
const AT_ONCE: usize = 8;

/// Launches over one set of bound memory.
struct Set {
    /// Number and offset of each port's buffer.
    key: Vec<(u64, u64)>,
    free: Vec<Launches>,
    used: u64,
}

impl Set {
    fn is_of(&self, bound: &[PortBinding]) -> bool {
        self.key.len() == bound.len()
            && self
                .key
                .iter()
                .zip(bound)
                .all(|(key, bound)| *key == (bound.number(), bound.offset()))
    }
}

/// Sets of one part and command queue.
#[derive(Default)]
pub(super) struct Sets {
    sets: Vec<Set>,
    clock: u64,
}

impl Sets {
    /// Drops what names a buffer.
    pub(super) fn forget(&mut self, buffer: u64) {
        self.sets
            .retain(|set| set.key.iter().all(|(number, _)| *number != buffer));
    }

    /// The set of this memory, marked as used, or a new one in place of the one used longest ago.
    fn of(&mut self, bound: &[PortBinding]) -> &mut Set {
        self.clock += 1;
        let at = match self.sets.iter().position(|set| set.is_of(bound)) {
            Some(at) => at,
            None => {
                if self.sets.len() >= KEPT {
                    let oldest = (0..self.sets.len()).min_by_key(|&at| self.sets[at].used);
                    self.sets.swap_remove(oldest.unwrap_or(0));
                }
                self.sets.push(Set {
                    key: bound
                        .iter()
                        .map(|bound| (bound.number(), bound.offset()))
                        .collect(),
                    free: Vec::with_capacity(AT_ONCE),
                    used: 0,
                });
                self.sets.len() - 1
            }
        };
        self.sets[at].used = self.clock;
        &mut self.sets[at]
    }

    /// Launches over this memory that are not under way.
    pub(super) fn take(&mut self, bound: &[PortBinding]) -> Option<Launches> {
        self.of(bound).free.pop()
    }

    /// Takes back the launches of a run that has ended.
    pub(super) fn give_back(&mut self, bound: &[PortBinding], launches: Launches) {
        // a set that was forgotten meanwhile takes nothing back
        if let Some(set) = self.sets.iter_mut().find(|set| set.is_of(bound)) {
            set.free.push(launches);
        }
    }
}
