//! Band's subgraphs and its shortest expected latency over them.
//!
//! Invariants: a placement changes device only where the set of supporting devices changes.
//! Deliberately not here: Band's queueing of several models.

use polychip_partitioner::problem::FORBIDDEN;

use crate::world::{Kind, World};

/// Band's `minimum_subgraph_size`.
const SHORTEST: usize = 7;

pub(super) fn shortest_chain(world: &World) -> Vec<usize> {
    let problem = &world.problem;
    let (nodes, devices) = (problem.nodes(), problem.devices());
    let mut support: Vec<Vec<bool>> = (0..devices)
        .map(|device| {
            (0..nodes)
                .map(|node| problem.cost(node, device) != FORBIDDEN)
                .collect()
        })
        .collect();
    for (device, row) in support.iter_mut().enumerate() {
        if world.kinds[device] != Kind::Cpu {
            row.chunk_by_mut(|a, b| a == b)
                .filter(|run| run.len() < SHORTEST)
                .for_each(|run| run.fill(false));
        }
    }
    let same = |a: usize, b: usize| support.iter().all(|row| row[a] == row[b]);
    let mut units: Vec<(usize, usize)> = Vec::new();
    for node in 0..nodes {
        match units.last_mut() {
            Some((first, end)) if same(*first, node) => *end = node + 1,
            _ => units.push((node, node + 1)),
        }
    }
    // best[unit][device]: least latency up to and with this unit on this device, and the device before
    let mut best: Vec<Vec<(u64, usize)>> = Vec::with_capacity(units.len());
    for &(first, end) in &units {
        let row = (0..devices).map(|device| {
            if !support[device][first] {
                return (FORBIDDEN, device);
            }
            let work = (first..end).fold(0u64, |sum, node| sum.saturating_add(problem.cost(node, device)));
            let Some(previous) = best.last() else {
                return (work.saturating_add(problem.launch(device)), device);
            };
            let from = |before: usize| {
                let launch = if before == device {
                    0
                } else {
                    problem.launch(device)
                };
                (previous[before].0.saturating_add(launch), before)
            };
            let (sum, before) = (0..devices).map(from).min().expect("there is a device");
            (sum.saturating_add(work), before)
        });
        let row = row.collect();
        best.push(row);
    }
    let mut placement = vec![0; nodes];
    let last = |row: &Vec<(u64, usize)>| {
        (0..devices)
            .min_by_key(|&device| row[device])
            .expect("there is a device")
    };
    let mut device = best.last().map_or(0, last);
    for (&(first, end), row) in units.iter().zip(&best).rev() {
        placement[first..end].fill(device);
        device = row[device].1;
    }
    placement
}
