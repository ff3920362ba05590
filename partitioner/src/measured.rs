//! Placements under costs of measured segments, which are not the sum of their nodes.
//!
//! Invariants: the value of a placement is its objective, corrected by stated minus summed cost for
//! every run that is exactly a measured segment; the bound holds for that value too; the number of
//! solver calls is bounded by [`CALLS`]. Deliberately not here: measured parts that are not a run
//! in canonical order: only `merge` can use them.

use crate::cost::Cost;
use crate::error::Error;
use crate::instance::{Inputs, Weights};
use crate::problem::{FORBIDDEN, Problem};
use crate::solve::{Budget, Solution, solve};
use std::collections::BTreeMap;

/// Most solver calls for one plan.
const CALLS: usize = 24;

/// A run whose cost is known as a whole.
struct Segment {
    first: usize,
    last: usize,
    device: usize,
    stated: u64,
    summed: u64,
}

/// What a measured segment is worth in a problem.
pub(crate) trait Valued {
    /// The cost of these nodes together on a device.
    fn part(&self, nodes: &[usize], device: usize, cost: &Cost) -> u64;
}

impl Valued for Weights {
    fn part(&self, _: &[usize], _: usize, cost: &Cost) -> u64 {
        self.of_cost(cost)
    }
}

/// Solves a problem whose runs may have stated costs; returns the best placement seen with its value.
pub(crate) fn solve_with_parts(
    inputs: &Inputs<'_>,
    valued: &impl Valued,
    problem: &Problem,
    limits: &Budget,
) -> Result<Solution, Error> {
    let plain = solve(problem, limits)?;
    let runs = segments(inputs, valued, problem);
    if runs.is_empty() {
        return Ok(plain);
    }
    let mut best = (value(problem, &runs, &plain.placement), plain.placement.clone());
    let mut consider = |placement: &[usize]| {
        let candidate = value(problem, &runs, placement);
        if candidate < best.0 {
            best = (candidate, placement.to_vec());
        }
    };
    // every saving at once, each node at the best share that any part gives it: a bound, because runs
    // of one placement never overlap
    let cheapest = shared(problem, &runs, |run| run.stated < run.summed);
    let lower = solve(&cheapest, limits)?;
    consider(&lower.placement);
    let mut calls = 2;
    // then each saving part by itself, largest saving first
    let mut saving: Vec<&Segment> = runs.values().filter(|run| run.stated < run.summed).collect();
    saving.sort_by_key(|run| {
        (
            std::cmp::Reverse(run.summed - run.stated),
            run.first,
            run.last,
            run.device,
        )
    });
    for run in saving.into_iter().take(CALLS / 2) {
        let pinned = isolated(problem, run);
        if let Ok(solution) = solve(&pinned, limits) {
            consider(&solution.placement);
        }
        calls += 1;
    }
    // and what the best placement so far pays too much for: at its stated cost, or a node shorter
    let mut seen = Vec::new();
    while calls < CALLS && !seen.contains(&best.1) {
        seen.push(best.1.clone());
        let used: Vec<(usize, usize, usize)> = runs_of(&best.1).collect();
        let repriced = shared(problem, &runs, |run| {
            used.contains(&(run.first, run.last, run.device))
        });
        let mut tries = vec![repriced];
        for run in used
            .iter()
            .filter_map(|run| runs.get(run))
            .filter(|run| run.stated > run.summed)
        {
            tries.extend([run.first, run.last].map(|node| without(problem, node, run.device)));
        }
        for changed in tries.iter().take(CALLS - calls) {
            calls += 1;
            if let Ok(solution) = solve(changed, limits) {
                let candidate = value(problem, &runs, &solution.placement);
                if candidate < best.0 {
                    best = (candidate, solution.placement);
                }
            }
        }
    }
    let forced = (0..problem.nodes()).all(|node| problem.allowed(node).len() == 1);
    let bound = if forced { best.0 } else { lower.bound.min(best.0) };
    Ok(Solution {
        placement: best.1,
        objective: best.0,
        bound,
    })
}

/// The value of a placement, segments included; forbidden where the placement is.
pub(crate) fn value_of(inputs: &Inputs<'_>, problem: &Problem, placement: &[usize]) -> u64 {
    let runs = segments(inputs, &Weights::of(inputs.objective), problem);
    value(problem, &runs, placement)
}

/// Measured segments: runs of nodes that were measured as one, on a device that may run them all.
fn segments(
    inputs: &Inputs<'_>,
    valued: &impl Valued,
    problem: &Problem,
) -> BTreeMap<(usize, usize, usize), Segment> {
    let mut runs = BTreeMap::new();
    for (device, nodes, cost) in inputs.costs.parts() {
        let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
        let summed = nodes.iter().map(|&node| problem.cost(node, device));
        let summed = summed.fold(0u64, u64::saturating_add);
        let Some(cost) = inputs.priced(*cost, device) else {
            continue;
        };
        let stated = valued.part(nodes, device, &cost);
        if last - first + 1 == nodes.len() && summed != FORBIDDEN && stated < u64::MAX / 4 {
            runs.insert(
                (first, last, device),
                Segment {
                    first,
                    last,
                    device,
                    stated,
                    summed,
                },
            );
        }
    }
    runs
}

/// The maximal runs of a placement: first node, last node, device.
fn runs_of(placement: &[usize]) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    let mut first = 0;
    placement.chunk_by(|a, b| a == b).map(move |run| {
        let start = first;
        first += run.len();
        (start, first - 1, run[0])
    })
}

/// The value of a placement; forbidden where the placement is.
fn value(problem: &Problem, runs: &BTreeMap<(usize, usize, usize), Segment>, placement: &[usize]) -> u64 {
    let Some(objective) = problem.objective(placement) else {
        return FORBIDDEN;
    };
    let stated = runs_of(placement).filter_map(|run| runs.get(&run));
    stated.fold(objective, |sum, run| sum - run.summed + run.stated)
}

/// The problem with nodes of chosen segments at their share of the segment's cost; where several
/// parts give a node a share, the least.
fn shared(
    problem: &Problem,
    runs: &BTreeMap<(usize, usize, usize), Segment>,
    chosen: impl Fn(&Segment) -> bool,
) -> Problem {
    let mut least: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for run in runs.values().filter(|run| chosen(run)) {
        let mut left = run.stated;
        let mut rest = run.summed;
        for node in run.first..=run.last {
            // shares in proportion, whole numbers, adding up to the stated cost
            let own = problem.cost(node, run.device);
            let share = match rest {
                0 => left / (run.last - node + 1) as u64,
                _ => (u128::from(left) * u128::from(own) / u128::from(rest)) as u64,
            };
            left -= share;
            rest -= own;
            least
                .entry((node, run.device))
                .and_modify(|cost| *cost = share.min(*cost))
                .or_insert(share);
        }
    }
    let mut shared = problem.clone();
    for ((node, device), cost) in least {
        shared.set_cost(node, device, cost);
    }
    shared
}

/// The problem in which a node may not use a device, unless it has no other.
fn without(problem: &Problem, node: usize, device: usize) -> Problem {
    let mut changed = problem.clone();
    if problem.allowed(node).len() > 1 {
        changed.set_cost(node, device, FORBIDDEN);
    }
    changed
}

/// The problem in which a segment is one run: its nodes on its device, those beside it elsewhere
/// where they can be.
fn isolated(problem: &Problem, run: &Segment) -> Problem {
    let mut isolated = problem.clone();
    for node in run.first..=run.last {
        for device in (0..problem.devices()).filter(|&device| device != run.device) {
            isolated.set_cost(node, device, FORBIDDEN);
        }
    }
    let beside = [
        run.first.checked_sub(1),
        Some(run.last + 1).filter(|&node| node < problem.nodes()),
    ];
    for node in beside.into_iter().flatten() {
        if problem.allowed(node).iter().any(|&device| device != run.device) {
            isolated.set_cost(node, run.device, FORBIDDEN);
        }
    }
    isolated
}
