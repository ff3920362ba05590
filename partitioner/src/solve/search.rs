//! Large neighbourhood search for wide problems: frees a few nodes, solves them exactly with the
//! rest fixed, and keeps improvements.
//!
//! Invariants: the number of moves is given and the moves follow from the seed, so the result is the
//! same on every host; the objective never rises; at the end no single node gains by moving alone.
//! Deliberately not here: bounds (`bound`).

use super::budget::Budget;
use super::eliminate::{Outcome, eliminate};
use super::network::Network;
use crate::problem::{Domain, FORBIDDEN, Problem, Source};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::sync::Arc;

/// Improves an initial assignment until it reaches a bound; `None` if no placement was found that
/// links allow.
pub(super) fn search(
    problem: &Problem,
    guess: Vec<usize>,
    bound: u64,
    budget: &Budget,
) -> Option<(Vec<usize>, u64)> {
    let start = starts(problem, guess)
        .into_iter()
        .filter_map(|placement| problem.objective(&placement).map(|value| (value, placement)))
        .min();
    let mut placement = match start {
        Some((_, placement)) => placement,
        None => repair(problem, budget)?,
    };
    improve(problem, &mut placement, bound, budget);
    let objective = problem.objective(&placement)?;
    Some((placement, objective))
}

/// Starting points: the initial assignment, the cheapest device of each node, and for each device
/// as many nodes as it can run.
fn starts(problem: &Problem, guess: Vec<usize>) -> Vec<Vec<usize>> {
    let cheapest = |node: usize| {
        let costs = (0..problem.devices()).map(|device| (problem.cost(node, device), device));
        costs.min().expect("invariant: a problem has a device").1
    };
    let cheapest: Vec<usize> = (0..problem.nodes()).map(cheapest).collect();
    let mut all = vec![guess, cheapest.clone()];
    for device in 0..problem.devices() {
        let prefer = |node: usize| {
            if problem.cost(node, device) == FORBIDDEN {
                cheapest[node]
            } else {
                device
            }
        };
        all.push((0..problem.nodes()).map(prefer).collect());
    }
    all
}

/// A placement that links allow, found in a problem where a missing link is expensive instead of
/// forbidden.
fn repair(problem: &Problem, budget: &Budget) -> Option<Vec<usize>> {
    let costs = (0..problem.nodes()).flat_map(|node| (0..problem.devices()).map(move |d| (node, d)));
    let costs = costs.map(|(node, device)| problem.cost(node, device)).collect();
    let launch = (0..problem.devices())
        .map(|device| problem.launch(device))
        .collect();
    let penalty = u64::MAX / 4 / (problem.tensors().len() as u64 * problem.devices() as u64 + 1);
    let mut soft = Problem::new(costs, launch).ok()?;
    for tensor in problem.tensors() {
        let mut tensor = tensor.clone();
        for cost in Arc::make_mut(&mut tensor.transfer) {
            *cost = (*cost).min(penalty);
        }
        soft.push(tensor).ok()?;
    }
    let mut placement = starts(&soft, Vec::new()).pop()?;
    improve(&soft, &mut placement, 0, budget);
    problem.objective(&placement).is_some().then_some(placement)
}

/// Runs the seeded moves until the placement reaches the bound, then moves single nodes until none
/// gains.
fn improve(problem: &Problem, placement: &mut [usize], bound: u64, budget: &Budget) {
    let nodes = problem.nodes();
    if nodes == 0 {
        return;
    }
    settle(problem, placement);
    let mut value = problem.objective(placement);
    // tables of a move are kept small: many cheap moves beat a few large ones
    let table_limit = budget.table.min(1 << 16);
    let allowed = problem.domains();
    let around = neighbours(problem);
    let mut random = ChaCha8Rng::seed_from_u64(budget.seed);
    let mut below = |limit: usize| (random.next_u64() % limit.max(1) as u64) as usize;
    // how many nodes a window, a ball and an expansion free; halved when too wide, grown when not
    let mut sizes = [nodes.min(64), nodes.min(32), nodes];
    for step in 0..budget.moves as usize {
        if value.is_some_and(|value| value <= bound) {
            return;
        }
        let kind = step % 3;
        let size = sizes[kind];
        let alone = |&device: &usize| Domain::from_elem(device, 1);
        let mut domains: Vec<Domain> = placement.iter().map(alone).collect();
        match kind {
            0 => {
                let from = below(nodes - size + 1);
                domains[from..from + size].clone_from_slice(&allowed[from..from + size]);
            }
            1 => {
                for node in ball(&around, below(nodes), size) {
                    domains[node].clone_from(&allowed[node]);
                }
            }
            _ => {
                let (from, device) = (below(nodes - size + 1), below(problem.devices()));
                for node in from..from + size {
                    if placement[node] != device && problem.cost(node, device) != FORBIDDEN {
                        let two = [device.min(placement[node]), device.max(placement[node])];
                        domains[node] = Domain::from_slice(&two);
                    }
                }
            }
        }
        let solved = Network::new(problem, &domains, table_limit)
            .map(|network| (eliminate(&network, table_limit), network));
        match solved {
            Some((Outcome::Exact { values, cost }, network)) => {
                if value.is_none_or(|value| cost < value) {
                    placement.copy_from_slice(&network.placement(&values));
                    value = Some(cost);
                }
                sizes[kind] = (size + size / 8 + 1).min(nodes);
            }
            Some((Outcome::TooWide, _)) | None => sizes[kind] = (size / 2).max(1),
            Some((Outcome::Infeasible, _)) => {}
        }
    }
    settle(problem, placement);
}

/// Moves single nodes, first to last, while one gains.
pub(super) fn settle(problem: &Problem, placement: &mut [usize]) {
    loop {
        let mut gained = false;
        for node in 0..placement.len() {
            for device in 0..problem.devices() {
                if device != placement[node]
                    && problem
                        .difference(placement, node, device)
                        .is_some_and(|change| change < 0)
                {
                    placement[node] = device;
                    gained = true;
                }
            }
        }
        if !gained {
            return;
        }
    }
}

/// Which nodes share a tensor or stand next to each other.
fn neighbours(problem: &Problem) -> Vec<Vec<usize>> {
    let nodes = problem.nodes();
    let mut around: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for node in 1..nodes {
        around[node].push(node - 1);
        around[node - 1].push(node);
    }
    for tensor in problem.tensors() {
        if let Source::Node(source) = tensor.source {
            for &reader in &tensor.readers {
                around[source].push(reader);
                around[reader].push(source);
            }
        }
    }
    for list in &mut around {
        list.sort_unstable();
        list.dedup();
    }
    around
}

/// The `size` nodes nearest to a node, nearest first.
fn ball(around: &[Vec<usize>], center: usize, size: usize) -> Vec<usize> {
    let mut seen = vec![false; around.len()];
    let mut found = vec![center];
    seen[center] = true;
    let mut next = 0;
    while next < found.len() && found.len() < size {
        for &node in &around[found[next]] {
            if !seen[node] && found.len() < size {
                seen[node] = true;
                found.push(node);
            }
        }
        next += 1;
    }
    found
}
