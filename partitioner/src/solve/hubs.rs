//! Tensors that many nodes read (masks, rotary tables): which devices need them is settled before elimination.
//!
//! A hub's set of devices would stand in every table from its first reader to its last. Without the hubs' transfers
//! the problem is narrow, and its optimum a lower bound. Where that optimum rises above a known placement's value as
//! soon as no reader of a hub may be on a device, every optimal placement has a reader there: the transfer is certain
//! and needs no variable. What is not certain stays in the network.
//!
//! Invariants: only what every optimal placement pays is fixed, so the result is as exact as elimination; bounds of
//! two halves of the nodes add up to a bound of the whole once the larger launch between them is taken off.
//! Deliberately not here: elimination itself.

use super::eliminate::{Outcome, eliminate};
use super::network::Network;
use super::order::entries;
use super::{Limits, Solution, search};
use crate::problem::{FORBIDDEN, Moved, Problem, Source};

/// A tensor with so many readers is a hub.
const MANY: usize = 12;

/// Below so many entries per node, plain elimination is fast enough.
const FEW: u64 = 256;

/// Nodes of the part in which devices are tried; the rest is bounded once.
const PART: usize = 2000;

/// Solves a problem whose hubs make it wide; none where there are no hubs, where plain elimination does, or where the
/// rest is wide too.
pub(super) fn solve(
    problem: &Problem,
    domains: &[Vec<usize>],
    network: Option<&Network>,
    limits: &Limits,
) -> Option<Solution> {
    let all = problem.tensors();
    let hubs: Vec<usize> = (0..all.len()).filter(|&tensor| is_hub(&all[tensor])).collect();
    if hubs.is_empty() {
        return None;
    }
    let plain = network.and_then(|network| entries(network, limits.table));
    if plain.is_some_and(|entries| entries <= FEW * problem.nodes() as u64) {
        return None;
    }
    settled(problem, domains, &hubs, PART, limits)
}

/// The same whatever plain elimination would cost, with devices tried in so many nodes.
fn settled(
    problem: &Problem,
    domains: &[Vec<usize>],
    hubs: &[usize],
    part: usize,
    limits: &Limits,
) -> Option<Solution> {
    let without = slice(problem, 0, problem.nodes(), hubs);
    let (mut placement, bound) = exact(&without, limits)?;
    search::settle(problem, &mut placement);
    let known = problem.objective(&placement)?;
    let certain = certain(problem, &without, hubs, domains, known, part, limits);
    let reduced = Network::new(problem, domains, &certain, limits.table);
    if let Some(Outcome::Exact { values, cost }) =
        reduced.as_ref().map(|network| eliminate(network, limits.table))
    {
        let placement = reduced?.placement(&values);
        debug_assert_eq!(problem.objective(&placement), Some(cost));
        return Some(Solution {
            placement,
            objective: cost,
            bound: cost,
        });
    }
    Some(Solution {
        placement,
        objective: known,
        bound: bound.min(known),
    })
}

/// Whether a problem has hubs at all.
pub(super) fn has_hubs(problem: &Problem) -> bool {
    problem.tensors().iter().any(is_hub)
}

/// Whether many nodes read a tensor that can go anywhere at a price.
fn is_hub(tensor: &Moved) -> bool {
    tensor.readers.len() >= MANY
        && tensor.transfer.iter().any(|&cost| cost > 0)
        && !tensor.transfer.contains(&FORBIDDEN)
}

/// Per tensor, the devices that every optimal placement brings it to or writes it on.
fn certain(
    problem: &Problem,
    without: &Problem,
    hubs: &[usize],
    domains: &[Vec<usize>],
    known: u64,
    part: usize,
    limits: &Limits,
) -> Vec<u32> {
    let mut certain = vec![0u32; problem.tensors().len()];
    let nodes = problem.nodes();
    // the rest's own bound; without a rest, nothing
    let (part, rest) = if nodes <= 2 * part {
        (without.clone(), 0)
    } else {
        let rest = exact(&slice(without, part, nodes, &[]), limits).map_or(0, |(_, cost)| cost);
        let launch = (0..problem.devices()).map(|device| problem.launch(device)).max();
        (
            slice(without, 0, part, &[]),
            rest.saturating_sub(launch.unwrap_or(0)),
        )
    };
    for &hub in hubs {
        let readers = &problem.tensors()[hub].readers;
        for device in 0..problem.devices() {
            let only = |&reader: &usize| domains[reader] == [device];
            let inside = || readers.iter().copied().filter(|&reader| reader < part.nodes());
            let mut tried = part.clone();
            for reader in inside() {
                tried.set_cost(reader, device, FORBIDDEN);
            }
            let needed = readers.iter().any(only)
                || (inside().any(|reader| domains[reader].contains(&device))
                    && exact(&tried, limits).is_some_and(|(_, cost)| cost.saturating_add(rest) > known));
            if needed {
                certain[hub] |= 1 << device;
            }
        }
    }
    certain
}

/// The optimum of a narrow problem.
fn exact(problem: &Problem, limits: &Limits) -> Option<(Vec<usize>, u64)> {
    let domains: Vec<Vec<usize>> = (0..problem.nodes()).map(|node| problem.allowed(node)).collect();
    if domains.iter().any(Vec::is_empty) {
        return None;
    }
    let network = Network::new(problem, &domains, &[], limits.table)?;
    match eliminate(&network, limits.table) {
        Outcome::Exact { values, cost } => Some((network.placement(&values), cost)),
        Outcome::Infeasible | Outcome::TooWide => None,
    }
}

/// The nodes from one to another by themselves, without some tensors: tensors from before are left out, readers
/// behind do not count.
fn slice(problem: &Problem, from: usize, to: usize, without: &[usize]) -> Problem {
    let pairs = (from..to).flat_map(|node| (0..problem.devices()).map(move |device| (node, device)));
    let cost = pairs.map(|(node, device)| problem.cost(node, device)).collect();
    let launch = (0..problem.devices())
        .map(|device| problem.launch(device))
        .collect();
    let mut slice = Problem::new(cost, launch).expect("invariant: the whole was made");
    for (index, tensor) in problem.tensors().iter().enumerate() {
        let source = match tensor.source {
            Source::Node(node) if (from..to).contains(&node) => Source::Node(node - from),
            Source::Node(_) => continue,
            // charged once per device: in the first slice
            Source::Device(_) if from > 0 => continue,
            Source::Device(device) => Source::Device(device),
        };
        if without.contains(&index) {
            continue;
        }
        let inside = tensor
            .readers
            .iter()
            .filter(|reader| (from..to).contains(*reader));
        let readers: Vec<usize> = inside.map(|&reader| reader - from).collect();
        let tensor = Moved {
            source,
            readers,
            // a home is charged where the tensor is written
            home: tensor.home.filter(|_| matches!(source, Source::Node(_))),
            transfer: tensor.transfer.clone(),
        };
        slice.push(tensor).expect("invariant: the whole was made");
    }
    slice
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    const LIMITS: Limits = Limits {
        table: 10_000_000,
        moves: 100,
        seed: 0,
    };

    /// A chain of 40 nodes with two tensors that a third of the nodes read.
    fn problem(seed: u64) -> Problem {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |limit: u64| random.next_u64() % limit;
        let (nodes, devices) = (40, 3);
        let cost = (0..nodes * devices).map(|_| if below(8) == 0 { FORBIDDEN } else { below(200) });
        let mut cost: Vec<u64> = cost.collect();
        for row in cost
            .chunks_mut(devices)
            .filter(|row| row.iter().all(|&cost| cost == FORBIDDEN))
        {
            row[0] = 50;
        }
        let mut problem = Problem::new(cost, (0..devices).map(|_| below(60)).collect()).unwrap();
        for node in 0..nodes {
            let readers: Vec<usize> = match node {
                0 | 1 => (2..nodes).filter(|_| below(2) == 0).collect(),
                _ => (node + 1..nodes).take(1 + below(2) as usize).collect(),
            };
            let dear = 1 + below(if node < 2 { 300 } else { 100 });
            problem
                .push(Moved {
                    source: Source::Node(node),
                    readers,
                    home: (below(9) == 0).then_some(1),
                    transfer: (0..devices * devices).map(|_| below(dear)).collect(),
                })
                .unwrap();
        }
        problem
    }

    #[test]
    fn hubs_settled_ahead_leave_the_optimum_as_it_is() {
        let mut fixed = 0;
        for seed in 0..60 {
            let problem = problem(seed);
            let domains: Vec<Vec<usize>> = (0..problem.nodes()).map(|node| problem.allowed(node)).collect();
            let (_, optimum) = exact(&problem, &LIMITS).unwrap();
            for part in [PART, 15] {
                let solution = settled(&problem, &domains, &[0, 1], part, &LIMITS).unwrap();
                assert_eq!(
                    (solution.objective, solution.bound),
                    (optimum, optimum),
                    "seed {seed}"
                );
                assert_eq!(problem.objective(&solution.placement), Some(optimum));
            }
            let without = slice(&problem, 0, problem.nodes(), &[0, 1]);
            let certain = certain(&problem, &without, &[0, 1], &domains, optimum, PART, &LIMITS);
            fixed += certain.iter().map(|devices| devices.count_ones()).sum::<u32>();
        }
        // of 360 pairs of a hub and a device
        assert!(fixed > 100, "{fixed} transfers were certain");
    }
}
