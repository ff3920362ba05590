//! A bound on every plan, by other means than the planner's: backwards from the end, over all
//! devices of a set at once, with free changes of device.
//!
//! Invariant: shares no code with the search except the costs, so that a mistake in one shows
//! against the other.

use super::workload::{PhaseLimits, Weighed, Workload};

/// Lower bound on every plan over one of these sets.
pub(super) fn bound(
    weighed: &[Weighed<'_>],
    sets: &[Vec<usize>],
    limits: &PhaseLimits,
    workload: Workload,
) -> f64 {
    sets.iter()
        .map(|set| to_go(weighed, set, limits, workload))
        .fold(f64::INFINITY, f64::min)
}

/// The least cost of reading and answering on the devices of a set.
fn to_go(weighed: &[Weighed<'_>], set: &[usize], limits: &PhaseLimits, workload: Workload) -> f64 {
    let Workload {
        past, prompt, answer, ..
    } = workload;
    let price = |device: usize, rows: usize, position: usize| {
        let weighed = &weighed[device];
        let ns = weighed.ns(rows, past + position);
        ns.map_or(f64::INFINITY, |ns| ns * weighed.price)
    };
    let least = |rows: usize, position: usize| {
        set.iter()
            .map(|&device| price(device, rows, position))
            .fold(f64::INFINITY, f64::min)
    };
    let mut rest: f64 = (0..answer).rev().map(|token| least(1, prompt + token)).sum();
    let mut sizes: Vec<usize> = set
        .iter()
        .flat_map(|&device| weighed[device].rows(limits))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    // of each position of the prompt, from its end: what is left to spend
    let mut left = vec![rest; prompt + 1];
    for position in (0..prompt).rev() {
        rest = f64::INFINITY;
        for &size in &sizes {
            let behind = left[(position + size).min(prompt)];
            rest = rest.min(least(size, position) + behind);
        }
        left[position] = rest;
    }
    left[0]
}
