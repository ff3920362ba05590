//! Devices of a node that are in no optimal placement: another one is cheaper there whatever all other nodes do.
//!
//! (J. Desmet et al., The Dead-End Elimination Theorem and Its Use in Protein Side-Chain Positioning, Nature 356, 1992.) A
//! node that moves from one device to another pays at most one more launch of each, the transfers of what it reads to the
//! new one, and what its results are dearer to bring from there to their readers.
//!
//! Invariant: a device is removed only where the move gains in every placement, so that the optimal ones are all kept, and
//! each node keeps a device.
//! Deliberately not here: dead ends that a known placement shows (`wide`).

use crate::problem::{Domain, FORBIDDEN, Problem, Source, add};
use smallvec::SmallVec;

/// With fewer devices, tables are small.
const FEWEST: usize = 4;

/// Removes devices that are in no optimal placement.
pub(super) fn remove(problem: &Problem, domains: &mut [Domain]) {
    if problem.devices() < FEWEST {
        return;
    }
    let most_to = dearest_arrivals(problem, domains);
    let mut written: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); domains.len()];
    let mut read: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new(); domains.len()];
    for (index, tensor) in problem.tensors().iter().enumerate() {
        if let Source::Node(node) = tensor.source {
            written[node].push(index as u32);
        }
        for &reader in &tensor.readers {
            read[reader].push(index as u32);
        }
    }
    for node in 0..domains.len() {
        let arrive = |device: usize| {
            let read = read[node].iter();
            read.fold(problem.launch(device), |sum, &tensor| {
                add(sum, most_to[tensor as usize * problem.devices() + device])
            })
        };
        let candidates = domains[node].iter();
        let best = candidates
            .map(|&device| (add(problem.cost(node, device), arrive(device)), device))
            .min();
        let Some((least, best)) = best else { continue };
        if least == FORBIDDEN {
            continue;
        }
        let is_kept = |device: usize| {
            let leave = written[node].iter().fold(problem.launch(device), |sum, &tensor| {
                add(sum, dearer(problem, tensor as usize, device, best))
            });
            device == best || problem.cost(node, device) <= add(least, leave)
        };
        domains[node].retain(|device| is_kept(*device));
    }
}

/// By tensor and device, the most that it costs to get there from where it may be written.
fn dearest_arrivals(problem: &Problem, domains: &[Domain]) -> Vec<u64> {
    let devices = problem.devices();
    let mut most = Vec::with_capacity(problem.tensors().len() * devices);
    for tensor in problem.tensors() {
        let from_there = |from: usize, to: usize| tensor.transfer[from * devices + to];
        most.extend((0..devices).map(|to| match tensor.source {
            Source::Device(from) => from_there(from, to),
            Source::Node(node) => {
                let from = domains[node].iter();
                from.map(|&from| from_there(from, to)).max().unwrap_or(0)
            }
        }));
    }
    most
}

/// The most that a tensor's way to its readers may cost more from one device than from another.
fn dearer(problem: &Problem, tensor: usize, from: usize, other: usize) -> u64 {
    let devices = problem.devices();
    let tensor = &problem.tensors()[tensor];
    let mut more: SmallVec<[u64; 16]> = (0..devices)
        .filter(|&to| to != other)
        .map(|to| {
            let now = if to == from {
                0
            } else {
                tensor.transfer[from * devices + to]
            };
            let then = tensor.transfer[other * devices + to];
            match then {
                FORBIDDEN => FORBIDDEN,
                _ => then.saturating_sub(now),
            }
        })
        .collect();
    more.sort_unstable_by(|a, b| b.cmp(a));
    let places = tensor.readers.len() + usize::from(tensor.home.is_some());
    more.into_iter().take(places).fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Moved;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    /// Five nodes on four devices, some of which are much dearer at some nodes.
    fn problem(seed: u64) -> Problem {
        const DEVICES: usize = 4;
        const NODES: usize = 5;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = move |limit: u64| random.next_u64() % limit;
        let costs = (0..NODES * DEVICES).map(|_| match below(8) {
            0 => FORBIDDEN,
            1..=3 => below(400),
            _ => below(20),
        });
        let mut costs: Vec<u64> = costs.collect();
        (0..NODES).for_each(|node| costs[node * DEVICES] = 30);
        let launch = (0..DEVICES).map(|_| below(15)).collect();
        let mut problem = Problem::new(costs, launch).unwrap();
        for _ in 0..6 {
            let source = below(NODES as u64 - 1) as usize;
            let reader =
                |below: &mut dyn FnMut(u64) -> u64| source + 1 + below((NODES - source - 1) as u64) as usize;
            let readers = vec![reader(&mut below), reader(&mut below)];
            let cost = |below: &mut dyn FnMut(u64) -> u64| if below(9) == 0 { FORBIDDEN } else { below(40) };
            let transfer: Vec<u64> = (0..DEVICES * DEVICES).map(|_| cost(&mut below)).collect();
            let tensor = Moved {
                source: if below(4) == 0 {
                    Source::Device(0)
                } else {
                    Source::Node(source)
                },
                readers,
                home: (below(3) == 0).then_some(1),
                transfer: transfer.into(),
            };
            problem.push(tensor).unwrap();
        }
        problem
    }

    #[test]
    fn every_optimal_placement_is_kept() {
        let mut removed = 0;
        for seed in 0..300 {
            let problem = problem(seed);
            let mut domains = problem.domains();
            let before: usize = domains.iter().map(|domain| domain.len()).sum();
            remove(&problem, &mut domains);
            removed += before - domains.iter().map(|domain| domain.len()).sum::<usize>();
            let all = (0..4usize.pow(5))
                .map(|code| -> Vec<usize> { (0..5).map(|node| code / 4usize.pow(node) % 4).collect() });
            let valued: Vec<(u64, Vec<usize>)> = all
                .filter_map(|placement| Some((problem.objective(&placement)?, placement)))
                .collect();
            let Some(least) = valued.iter().map(|(value, _)| *value).min() else {
                continue;
            };
            for (_, placement) in valued.iter().filter(|(value, _)| *value == least) {
                let is_kept = placement
                    .iter()
                    .zip(&domains)
                    .all(|(device, domain)| domain.contains(device));
                assert!(is_kept, "seed {seed}: {placement:?} {domains:?}");
            }
        }
        assert!(removed > 300, "{removed}");
    }
}
