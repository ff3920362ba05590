//! Dead-end elimination of devices. A device is removed for one node if another device is cheaper
//! wherever all other nodes are, and for all nodes if another one is at most as expensive for every
//! node and link.
//!
//! (J. Desmet et al., The Dead-End Elimination Theorem and Its Use in Protein Side-Chain
//! Positioning, Nature 356, 1992.) A node that moves to another device pays at most one more launch
//! of each device, the transfers of its inputs, and the higher cost of transferring its results to
//! their readers.
//!
//! Invariants: a device of one node is removed only if the move gains in every placement, so all
//! optimal placements are kept; a device is removed everywhere only if all of its nodes can move to
//! another one without a loss, so an optimal placement is kept; each node keeps a device.
//! Deliberately not here: dead ends shown by a known placement (`wide`).

use crate::problem::{Domain, FORBIDDEN, Problem, Source, add};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::sync::Arc;

/// Minimum number of devices; with fewer, tables are small.
const FEWEST: usize = 4;

/// Removes devices that are in no optimal placement.
pub(super) fn remove(problem: &Problem, domains: &mut [Domain]) {
    if problem.devices() < FEWEST {
        return;
    }
    remove_replaceable_devices(problem, domains);
    remove_at_nodes(problem, domains);
}

/// Removes each node's devices that are more expensive whatever all other nodes do.
fn remove_at_nodes(problem: &Problem, domains: &mut [Domain]) {
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

/// Removes each device that another one can replace everywhere: all but the first of equal devices,
/// and slower ones of a kind.
fn remove_replaceable_devices(problem: &Problem, domains: &mut [Domain]) {
    let devices = problem.devices();
    let mut is_place = vec![false; devices];
    let mut tables: Vec<&Arc<[u64]>> = Vec::new();
    let mut seen = HashSet::new();
    for tensor in problem.tensors() {
        if let Source::Device(device) = tensor.source {
            is_place[device] = true;
        }
        if let Some(home) = tensor.home {
            is_place[home] = true;
        }
        if seen.insert(tensor.transfer.as_ptr()) {
            tables.push(&tensor.transfer);
        }
    }
    let stands_for = |other: usize, device: usize| {
        let beyond = || (0..devices).filter(|&to| to != device && to != other);
        let is_near = |table: &&Arc<[u64]>| {
            beyond().all(|to| {
                table[to * devices + other] <= table[to * devices + device]
                    && table[other * devices + to] <= table[device * devices + to]
            })
        };
        problem.launch(other) <= problem.launch(device)
            && (0..problem.nodes()).all(|node| problem.cost(node, other) <= problem.cost(node, device))
            && tables.iter().all(is_near)
    };
    let mut removed = vec![false; devices];
    for device in 0..devices {
        let stands = |other: usize| {
            other != device
                && !removed[other]
                && stands_for(other, device)
                && (other < device || !stands_for(device, other))
        };
        removed[device] = !is_place[device] && (0..devices).any(stands);
    }
    for domain in domains {
        domain.retain(|device| !removed[*device]);
    }
}

/// By tensor and device, the maximum cost of the transfer from any device that may write it.
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

/// The maximum by which transferring a tensor to its readers costs more from one device than from
/// another.
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
    fn dominated_device_is_removed_unless_required() {
        // the second is as the first, the third slower than both, the fourth fast at one node
        let costs = [[5, 5, 6, 9], [5, 5, 5, 1]].concat();
        let mut problem = Problem::new(costs, vec![2, 2, 2, 2]).unwrap();
        let transfer: Arc<[u64]> = [0, 3, 3, 3, 3, 0, 3, 3, 3, 3, 0, 3, 3, 3, 3, 0].into();
        let tensor = |home| Moved {
            source: Source::Node(0),
            readers: vec![1],
            home,
            transfer: Arc::clone(&transfer),
        };
        problem.push(tensor(None)).unwrap();
        let mut domains = problem.domains();
        remove_replaceable_devices(&problem, &mut domains);
        assert!(domains.iter().all(|domain| domain[..] == [0, 3]), "{domains:?}");
        problem.push(tensor(Some(2))).unwrap();
        let mut domains = problem.domains();
        remove_replaceable_devices(&problem, &mut domains);
        assert!(
            domains.iter().all(|domain| domain[..] == [0, 2, 3]),
            "{domains:?}"
        );
    }

    #[test]
    fn removing_dominated_devices_keeps_the_optimum() {
        let mut removed = 0;
        for seed in 0..400 {
            let problem = with_dominated_device(seed);
            let mut domains = problem.domains();
            remove_replaceable_devices(&problem, &mut domains);
            removed += usize::from(domains != problem.domains());
            let least = |domains: &[Domain]| {
                let all = (0..4usize.pow(5))
                    .map(|code| -> Vec<usize> { (0..5).map(|node| code / 4usize.pow(node) % 4).collect() });
                let is_within = |placement: &Vec<usize>| {
                    placement
                        .iter()
                        .zip(domains)
                        .all(|(device, domain)| domain.contains(device))
                };
                all.filter(is_within)
                    .filter_map(|placement| problem.objective(&placement))
                    .min()
            };
            assert_eq!(least(&domains), least(&problem.domains()), "seed {seed}");
        }
        assert!(removed > 100, "{removed}");
    }

    /// The fourth device costs the same as the third, or a few units more.
    fn with_dominated_device(seed: u64) -> Problem {
        let from = problem(seed);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut worse = move |cost: u64| match random.next_u64() % 3 {
            0 => add(cost, 1),
            _ => cost,
        };
        let costs = (0..20).map(|at| match at % 4 {
            3 => worse(from.cost(at / 4, 2)),
            device => from.cost(at / 4, device),
        });
        let costs = costs.collect();
        let launch = (0..4).map(|device| from.launch(if device == 3 { 2 } else { device }));
        let mut dominated = Problem::new(costs, launch.collect()).unwrap();
        for tensor in from.tensors() {
            let mut tensor = tensor.clone();
            let transfer = Arc::make_mut(&mut tensor.transfer);
            for to in 0..2 {
                transfer[12 + to] = worse(transfer[8 + to]);
                transfer[4 * to + 3] = worse(transfer[4 * to + 2]);
            }
            dominated.push(tensor).unwrap();
        }
        dominated
    }

    #[test]
    fn every_optimal_placement_is_kept() {
        let mut removed = 0;
        for seed in 0..300 {
            let problem = problem(seed);
            let mut domains = problem.domains();
            let before: usize = domains.iter().map(|domain| domain.len()).sum();
            remove_at_nodes(&problem, &mut domains);
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
