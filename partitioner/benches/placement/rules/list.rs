//! List schedulers of the literature: HEFT and PEFT.
//!
//! Invariants: both choose by the schedule's time with parallel devices, as published; the serial objective
//! then prices the placement. A device that refuses a node counts in no mean.
//! Deliberately not here: launches, which neither paper has.

use polychip_partitioner::problem::{FORBIDDEN, Problem};

use super::reads::reads;
use crate::world::World;

pub(super) fn heft(world: &World) -> Vec<usize> {
    heft_schedule(world).1
}

pub(super) fn peft(world: &World) -> Vec<usize> {
    peft_schedule(world).1
}

/// Nodes in the order of their starts, and the device of each node.
pub(crate) fn heft_schedule(world: &World) -> (Vec<usize>, Vec<usize>) {
    let problem = &world.problem;
    let reads = reads(problem);
    let mut rank = vec![0f64; problem.nodes()];
    for node in (0..problem.nodes()).rev() {
        rank[node] += mean(
            problem
                .allowed(node)
                .into_iter()
                .map(|d| problem.cost(node, d) as f64),
        );
        for &(writer, tensor) in &reads[node] {
            rank[writer] = rank[writer].max(rank[node] + mean_transfer(problem, tensor));
        }
        // a node's own mean is added when its turn comes: until then the entry holds the longest way behind it
    }
    schedule(problem, &reads, &rank, |_, _| 0.0)
}

/// The same by PEFT.
pub(crate) fn peft_schedule(world: &World) -> (Vec<usize>, Vec<usize>) {
    let problem = &world.problem;
    let (reads, devices) = (reads(problem), problem.devices());
    // optimistic cost: per node and device, the least time of the longest way behind the node
    let mut optimistic = vec![0f64; problem.nodes() * devices];
    for node in (0..problem.nodes()).rev() {
        for &(writer, tensor) in &reads[node] {
            for from in 0..devices {
                let ways = problem.allowed(node).into_iter().map(|to| {
                    let moved = if from == to {
                        0.0
                    } else {
                        mean_transfer(problem, tensor)
                    };
                    optimistic[node * devices + to] + problem.cost(node, to) as f64 + moved
                });
                let least = ways.fold(f64::INFINITY, f64::min);
                let slot = &mut optimistic[writer * devices + from];
                *slot = slot.max(least);
            }
        }
    }
    let rank: Vec<f64> = optimistic
        .chunks(devices)
        .map(|row| mean(row.iter().copied()))
        .collect();
    schedule(problem, &reads, &rank, |node, device| {
        optimistic[node * devices + device]
    })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

fn mean_transfer(problem: &Problem, tensor: usize) -> f64 {
    let row = &problem.tensors()[tensor].transfer;
    let devices = problem.devices();
    let other = |&(index, _): &(usize, &u64)| index / devices != index % devices;
    mean(row.iter().enumerate().filter(other).map(|(_, &cost)| cost as f64))
}

/// Takes ready nodes, highest rank first, and puts each where its finish plus `rest` is least, also into gaps.
fn schedule(
    problem: &Problem,
    reads: &[Vec<(usize, usize)>],
    rank: &[f64],
    rest: impl Fn(usize, usize) -> f64,
) -> (Vec<usize>, Vec<usize>) {
    let devices = problem.devices();
    let mut waiting: Vec<usize> = reads.iter().map(Vec::len).collect();
    let mut readers = vec![Vec::new(); problem.nodes()];
    for (node, inputs) in reads.iter().enumerate() {
        for &(writer, _) in inputs {
            readers[writer].push(node);
        }
    }
    let mut ready: Vec<usize> = (0..problem.nodes()).filter(|&node| waiting[node] == 0).collect();
    let mut busy: Vec<Vec<(u64, u64)>> = vec![Vec::new(); devices];
    let mut placement = vec![0; problem.nodes()];
    let mut finish = vec![0u64; problem.nodes()];
    while !ready.is_empty() {
        let first = |&a: &usize, &b: &usize| {
            rank[ready[a]]
                .total_cmp(&rank[ready[b]])
                .then(ready[b].cmp(&ready[a]))
        };
        let next = (0..ready.len()).max_by(first).expect("something is ready");
        let node = ready.swap_remove(next);
        let mut best: Option<(f64, usize, u64)> = None;
        for (device, taken) in busy.iter().enumerate() {
            let cost = problem.cost(node, device);
            if cost == FORBIDDEN {
                continue;
            }
            let arrival = reads[node].iter().map(|&(writer, tensor)| {
                let moved = problem.tensors()[tensor].transfer[placement[writer] * devices + device];
                finish[writer].saturating_add(moved)
            });
            let start = gap(taken, arrival.max().unwrap_or(0), cost);
            let value = (start + cost) as f64 + rest(node, device);
            if best.is_none_or(|(least, ..)| value < least) {
                best = Some((value, device, start));
            }
        }
        let (_, device, start) = best.expect("some device runs every node");
        placement[node] = device;
        finish[node] = start + problem.cost(node, device);
        let place = busy[device].partition_point(|&(other, _)| other < start);
        busy[device].insert(place, (start, finish[node]));
        for &reader in &readers[node] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(reader);
            }
        }
    }
    let mut order: Vec<usize> = (0..problem.nodes()).collect();
    order.sort_by_key(|&node| (finish[node] - problem.cost(node, placement[node]), node));
    (order, placement)
}

/// The earliest start, not before `ready`, of a gap that holds `cost`.
fn gap(busy: &[(u64, u64)], ready: u64, cost: u64) -> u64 {
    let mut start = ready;
    let from = busy.partition_point(|&(_, end)| end <= ready);
    for &(begin, end) in &busy[from..] {
        if start + cost <= begin {
            break;
        }
        start = start.max(end);
    }
    start
}
