//! The sizes of a session that its device was asked about, from which plans for further sizes are derived.
//!
//! Invariants:
//! 1. At most [`MOST`] are kept, the latest.
//! 2. When the session's cache evicts specialisations, only the plans for cached sizes are kept, and at least one plan.
//! 3. A size is derived from one that is at most [`RANGE`] times as large or small, in each dimension.

use std::sync::{Arc, Mutex, PoisonError};

use crate::planned::Planned;
use crate::session::buckets::Sizes;

/// Sizes that are kept: graphs and costs of as many plans.
const MOST: usize = 8;
/// Beyond this, the fixed part of a node's time, or another choice of kernels, makes a scaled cost wrong.
const RANGE: usize = 4;

#[derive(Debug)]
pub(super) struct Answers {
    /// Whether plans may be derived at all.
    may_derive: bool,
    kept: Mutex<Vec<(Sizes, Arc<Planned>)>>,
}

impl Answers {
    pub(super) fn new(may_derive: bool) -> Answers {
        Answers {
            may_derive,
            kept: Mutex::default(),
        }
    }

    /// The nearest sizes that the device was asked about, and the plan for them.
    pub(super) fn nearest(&self, sizes: &Sizes) -> Option<(Sizes, Arc<Planned>)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let near = kept
            .iter()
            .filter_map(|one| Some((distance(&one.0, sizes)?, one)));
        let nearest = near.min_by(|(a, _), (b, _)| a.total_cmp(b));
        nearest.map(|(_, one)| one.clone())
    }

    /// Keeps a plan for these sizes, if others can be derived from it.
    pub(super) fn keep(&self, sizes: &Sizes, planned: &Arc<Planned>) {
        if !self.may_derive || !planned.is_asked() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| other != sizes);
        if kept.len() == MOST {
            kept.remove(0);
        }
        kept.push((sizes.clone(), Arc::clone(planned)));
    }

    /// Forgets plans for sizes that are not cached; where none is, all but the latest.
    pub(super) fn keep_cached(&self, is_cached: impl Fn(&Sizes) -> bool) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().any(|(sizes, _)| is_cached(sizes)) {
            kept.retain(|(sizes, _)| is_cached(sizes));
        } else if let Some(latest) = kept.pop() {
            *kept = vec![latest];
        }
    }
}

/// How far two sets of sizes are apart, as the sum of the logarithms of their ratios; none beyond the range.
fn distance(one: &Sizes, other: &Sizes) -> Option<f64> {
    let mut sum = 0.0;
    for (&a, &b) in one.iter().zip(other) {
        let (small, large) = (a.min(b), a.max(b));
        if large > small.saturating_mul(RANGE) {
            return None;
        }
        if small > 0 {
            sum += (large as f64 / small as f64).ln();
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_the_range_are_not_near() {
        let sizes = |all: &[usize]| Sizes::from_slice(all);
        let near = |a: &[usize], b: &[usize]| distance(&sizes(a), &sizes(b)).is_some();
        assert!(near(&[1, 320], &[4, 80]) && near(&[0, 7], &[0, 7]));
        assert!(!near(&[1, 320], &[1, 79]) && !near(&[0, 7], &[1, 7]));
    }
}
