//! Initial schedules: HEFT, PEFT, the serial optimum, and the placements of the game that gives the
//! bound.
//!
//! Both list schedulers follow the papers (Topcuoglu et al., IEEE TPDS 13(3), 2002; Arabnejad and
//! Barbosa, IEEE TPDS 25(3), 2014) in integers, with a launch added to every edge between two
//! devices. Each placement also gets an order with few device changes.
//!
//! Invariants: orders put writers before readers.

use super::machine::Machine;
use super::timeline::Draft;
use crate::problem::{FORBIDDEN, add};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// All initial schedules, some of which may use a missing link; `played` are the game's placements.
pub(super) fn seeds(machine: &Machine, serial: &[usize], tails: &[u64], played: &[Vec<usize>]) -> Vec<Draft> {
    let as_is = (0..machine.nodes as u32).collect();
    let mut seeds = vec![draft(as_is, serial)];
    // the longest path after each node on its best device: its urgency
    let urgency: Vec<u64> = tails
        .chunks(machine.devices)
        .map(|row| row.iter().copied().min().unwrap_or(0))
        .collect();
    seeds.push(draft(gathered(machine, serial, &urgency), serial));
    // the game ignores states, whose nodes share a device
    let whole = |placement: &&Vec<usize>| {
        let mut groups = machine.groups.iter().enumerate();
        groups.all(|(node, group)| placement[node] == placement[group[0]])
    };
    for placement in played.iter().filter(whole) {
        seeds.push(draft(gathered(machine, placement, &urgency), placement));
    }
    for (rank, rest) in [heft(machine), peft(machine)] {
        if let Some((order, placement)) = list(machine, &rank, &rest) {
            seeds.push(draft(gathered(machine, &placement, &rank), &placement));
            seeds.push(draft(order, &placement));
        }
    }
    seeds
}

fn draft(order: Vec<u32>, placement: &[usize]) -> Draft {
    Draft {
        head: vec![false; order.len()],
        device: placement.iter().map(|&device| device as u8).collect(),
        order,
    }
}

/// The nodes in an order that stays on a device while it has ready nodes, the most urgent first.
fn gathered(machine: &Machine, placement: &[usize], urgency: &[u64]) -> Vec<u32> {
    let mut waiting: Vec<usize> = machine.reads.iter().map(Vec::len).collect();
    let mut ready: Vec<BTreeSet<(Reverse<u64>, usize)>> = vec![BTreeSet::new(); machine.devices];
    for node in (0..machine.nodes).filter(|&node| waiting[node] == 0) {
        ready[placement[node]].insert((Reverse(urgency[node]), node));
    }
    let mut order = Vec::with_capacity(machine.nodes);
    let mut device = 0;
    while order.len() < machine.nodes {
        if ready[device].is_empty() {
            let first = (0..machine.devices).filter_map(|device| Some((*ready[device].first()?, device)));
            device = first
                .min()
                .expect("invariant: a graph without circles has a ready node")
                .1;
        }
        let (_, node) = ready[device].pop_first().expect("invariant: just seen");
        order.push(node as u32);
        for (reader, _) in machine.readers(node) {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready[placement[reader]].insert((Reverse(urgency[reader]), reader));
            }
        }
    }
    order
}

fn mean(values: impl Iterator<Item = u64>) -> u64 {
    let (sum, count) = values
        .filter(|&value| value != FORBIDDEN)
        .fold((0u128, 0u128), |(sum, count), value| {
            (sum + u128::from(value), count + 1)
        });
    (sum / count.max(1)) as u64
}

/// The mean transfer time of a tensor over all pairs of devices.
fn mean_way(machine: &Machine, tensor: usize) -> u64 {
    let pairs = (0..machine.devices).flat_map(|from| (0..machine.devices).map(move |to| (from, to)));
    mean(
        pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| add(machine.transfer(tensor, from, to), machine.launch[to])),
    )
}

/// HEFT's upward rank; nothing is added to the earliest finish.
fn heft(machine: &Machine) -> (Vec<u64>, Vec<u64>) {
    let mut rank = vec![0u64; machine.nodes];
    for node in (0..machine.nodes).rev() {
        let behind = machine
            .readers(node)
            .map(|(reader, tensor)| add(rank[reader], mean_way(machine, tensor)));
        let behind = behind.max().unwrap_or(0);
        rank[node] = add(
            behind,
            mean((0..machine.devices).map(|device| machine.cost(node, device))),
        );
    }
    (rank, vec![0; machine.nodes * machine.devices])
}

/// PEFT's rank and its optimistic cost table, which is added to the earliest finish.
fn peft(machine: &Machine) -> (Vec<u64>, Vec<u64>) {
    let devices = machine.devices;
    let mut table = vec![0u64; machine.nodes * devices];
    for node in (0..machine.nodes).rev() {
        for (reader, tensor) in machine.readers(node) {
            let moved = mean_way(machine, tensor);
            for from in 0..devices {
                let ways = (0..devices).map(|to| {
                    let rest = add(table[reader * devices + to], machine.cost(reader, to));
                    add(rest, if from == to { 0 } else { moved })
                });
                let least = ways.min().unwrap_or(0);
                let slot = &mut table[node * devices + from];
                *slot = (*slot).max(least);
            }
        }
    }
    let rank = table
        .chunks(devices)
        .map(|row| mean(row.iter().copied()))
        .collect();
    (rank, table)
}

/// Takes ready nodes by rank and places each for the least finish time plus rest, also into gaps.
/// Returns nodes in order of their start, and their devices.
fn list(machine: &Machine, rank: &[u64], rest: &[u64]) -> Option<(Vec<u32>, Vec<usize>)> {
    let (nodes, devices) = (machine.nodes, machine.devices);
    let mut waiting: Vec<usize> = machine.reads.iter().map(Vec::len).collect();
    let mut ready: BTreeSet<(Reverse<u64>, usize)> = BTreeSet::new();
    ready.extend(
        (0..nodes)
            .filter(|&node| waiting[node] == 0)
            .map(|node| (Reverse(rank[node]), node)),
    );
    let mut busy: Vec<Vec<(u64, u64)>> = vec![Vec::new(); devices];
    let mut placed: Vec<Option<usize>> = vec![None; nodes];
    let (mut start, mut finish) = (vec![0u64; nodes], vec![0u64; nodes]);
    while let Some((_, node)) = ready.pop_first() {
        let settled = machine.groups[node].iter().find_map(|&other| placed[other]);
        let mut best: Option<(u64, usize, u64)> = None;
        for device in (0..devices).filter(|&device| settled.is_none_or(|settled| settled == device)) {
            if !machine.allows(node, device) {
                continue;
            }
            let arrivals = machine.reads[node].iter().map(|read| {
                let from = placed[read.writer].expect("invariant: writers are placed first");
                let way = if from == device {
                    0
                } else {
                    add(
                        machine.transfer(read.tensor, from, device),
                        machine.launch[device],
                    )
                };
                add(finish[read.writer], way)
            });
            let fed = if machine.reads[node].is_empty() {
                add(machine.launch[device], machine.arrival(node, device))
            } else {
                machine.arrival(node, device)
            };
            let cost = machine.cost(node, device);
            let begin = gap(
                &busy[machine.resource[device]],
                arrivals.max().unwrap_or(0).max(fed),
                cost,
            );
            let value = add(add(begin, cost), rest[node * devices + device]);
            if value != FORBIDDEN && best.is_none_or(|(least, ..)| value < least) {
                best = Some((value, device, begin));
            }
        }
        let (_, device, begin) = best?;
        (placed[node], start[node], finish[node]) = (Some(device), begin, begin + machine.cost(node, device));
        let busy = &mut busy[machine.resource[device]];
        let place = busy.partition_point(|&(other, _)| other < begin);
        busy.insert(place, (begin, finish[node]));
        for (reader, _) in machine.readers(node) {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.insert((Reverse(rank[reader]), reader));
            }
        }
    }
    let mut order: Vec<u32> = (0..nodes as u32).collect();
    order.sort_by_key(|&node| (start[node as usize], node));
    Some((order, placed.into_iter().flatten().collect()))
}

/// The earliest start, not before `ready`, of a gap of length `cost`.
fn gap(busy: &[(u64, u64)], ready: u64, cost: u64) -> u64 {
    let mut start = ready;
    let from = busy.partition_point(|&(_, end)| end <= ready);
    for &(begin, end) in &busy[from..] {
        if add(start, cost) <= begin {
            break;
        }
        start = start.max(end);
    }
    start
}
