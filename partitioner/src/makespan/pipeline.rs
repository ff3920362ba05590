//! Placements for pipelined runs that minimize the busy time of the busiest device or link.
//!
//! Initial placements are those of the game that gives the bound, the serial optimum, and, if the
//! graph has few ideals (sets of nodes with all their dependencies), the best split into one convex
//! part per device, by dynamic programming over pairs of ideals (Tarnawski et al., NeurIPS 2020).
//! Nodes then move while that helps.
//!
//! Invariants: loads are updated node by node and equal a full recomputation; changes are counted
//! and seeded; a launch is charged per maximal run of a device in canonical order, so merging parts
//! only lowers a load. Deliberately not here: the bound (`game`).

use super::machine::Machine;
use super::search::Effort;
use crate::problem::{FORBIDDEN, add};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;

/// Maximum ideals of a graph split by dynamic programming, which visits pairs of them.
const MOST_IDEALS: usize = 1024;

/// The search ends after this many consecutive changes without a gain.
const MOST_IDLE: u32 = 12_000;

/// Maximum devices of such a split, because sets of them are distinguished.
const MOST_DEVICES: usize = 4;

/// The best placement found from some initial ones, with its period; `None` if all use forbidden
/// devices or links.
pub(super) fn best(
    machine: &Machine,
    mut starts: Vec<Vec<usize>>,
    effort: Effort,
) -> Option<(Vec<usize>, u64)> {
    starts.extend(split(machine));
    let valued = starts.into_iter().filter_map(|placement| {
        let loads = Loads::new(machine, placement);
        (loads.period() != FORBIDDEN).then(|| (loads.key(), loads))
    });
    let mut loads = valued
        .min_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.placement.cmp(&y.placement)))?
        .1;
    let mut random = ChaCha8Rng::seed_from_u64(effort.seed);
    let mut below = |limit: usize| (random.next_u64() % limit.max(1) as u64) as usize;
    let mut key = loads.key();
    let mut undo = Vec::new();
    let mut idle = 0;
    for _ in 0..if machine.nodes > 0 { effort.moves } else { 0 } {
        idle += 1;
        if idle > MOST_IDLE || machine.devices == 1 {
            break;
        }
        let (from, device) = (below(machine.nodes), below(machine.devices));
        let to = (from + (1 << below(7))).min(machine.nodes);
        undo.clear();
        for node in from..to {
            if loads.placement[node] != device && machine.allows(node, device) {
                for &node in &machine.groups[node] {
                    undo.push((node, loads.placement[node]));
                    loads.bring(node, device);
                }
            }
        }
        let changed = loads.key();
        if changed <= key {
            if changed < key {
                idle = 0;
            }
            key = changed;
            continue;
        }
        for &(node, device) in undo.iter().rev() {
            loads.bring(node, device);
        }
    }
    let period = loads.period();
    Some((loads.placement, period))
}

/// The load of each device and each link under a placement.
struct Loads<'m> {
    machine: &'m Machine,
    placement: Vec<usize>,
    /// By resource.
    devices: Vec<u64>,
    links: Vec<u64>,
    /// Number of forbidden uses.
    forbidden: usize,
}

impl<'m> Loads<'m> {
    fn new(machine: &'m Machine, placement: Vec<usize>) -> Self {
        let devices = machine.devices;
        let mut loads = Self {
            machine,
            devices: vec![0; devices],
            links: vec![0; devices * devices],
            forbidden: 0,
            placement,
        };
        for node in 0..machine.nodes {
            let device = loads.placement[node];
            loads.spend(machine.cost(node, device), device, true);
            if loads.launches(node) {
                loads.spend(machine.launch[device], device, true);
            }
            let group = &machine.groups[node];
            loads.forbidden += usize::from(loads.placement[group[0]] != device);
        }
        for tensor in 0..machine.tensors.len() {
            loads.move_tensor(tensor, true);
        }
        loads
    }

    fn spend(&mut self, time: u64, device: usize, more: bool) {
        let resource = self.machine.resource[device];
        change(&mut self.devices[resource], &mut self.forbidden, time, more);
    }

    /// Whether a node starts a run of its device.
    fn launches(&self, node: usize) -> bool {
        node == 0 || self.placement[node - 1] != self.placement[node]
    }

    /// Adds or removes the transfers of a tensor.
    fn move_tensor(&mut self, index: usize, more: bool) {
        let tensor = &self.machine.tensors[index];
        let from = tensor.writer.map_or(tensor.from, |writer| self.placement[writer]);
        let home = tensor.home.map_or(0u32, |home| 1 << home);
        let readers = tensor
            .readers
            .iter()
            .fold(home, |set, &reader| set | 1 << self.placement[reader]);
        let mut rest = readers & !(1 << from);
        while rest != 0 {
            let link = from * self.machine.devices + rest.trailing_zeros() as usize;
            rest &= rest - 1;
            change(
                &mut self.links[link],
                &mut self.forbidden,
                tensor.transfer[link],
                more,
            );
        }
    }

    /// Adds or removes the load that depends on a node's device.
    fn around(&mut self, node: usize, more: bool) {
        let machine = self.machine;
        let device = self.placement[node];
        self.spend(machine.cost(node, device), device, more);
        for node in node..(node + 2).min(machine.nodes) {
            if self.launches(node) {
                let device = self.placement[node];
                self.spend(machine.launch[device], device, more);
            }
        }
        let read = machine.reads[node].iter().map(|read| read.tensor);
        let touched: BTreeSet<usize> = read
            .chain(machine.fed[node].iter().copied())
            .chain(machine.writes[node].iter().copied())
            .collect();
        for tensor in touched {
            self.move_tensor(tensor, more);
        }
        // a split group is forbidden; it is counted at all members but the first
        let group = &machine.groups[node];
        if group.len() > 1 {
            let first = self.placement[group[0]];
            let split = group
                .iter()
                .filter(|&&other| self.placement[other] != first)
                .count();
            self.forbidden = if more {
                self.forbidden + split
            } else {
                self.forbidden - split
            };
        }
    }

    fn bring(&mut self, node: usize, device: usize) {
        self.around(node, false);
        self.placement[node] = device;
        self.around(node, true);
    }

    /// The largest load.
    fn period(&self) -> u64 {
        match self.forbidden {
            0 => self.devices.iter().chain(&self.links).copied().max().unwrap_or(0),
            _ => FORBIDDEN,
        }
    }

    /// The objective: the largest load, and among equals the work of all devices.
    fn key(&self) -> (u64, u64) {
        (
            self.period(),
            self.devices.iter().fold(0, |sum, &load| add(sum, load)),
        )
    }
}

fn change(load: &mut u64, forbidden: &mut usize, time: u64, more: bool) {
    match (time, more) {
        (FORBIDDEN, true) => *forbidden += 1,
        (FORBIDDEN, false) => *forbidden -= 1,
        (time, true) => *load += time,
        (time, false) => *load -= time,
    }
}

/// The best split into at most one convex part per device, by work and launches alone; `None` with
/// too many ideals or without such a split.
fn split(machine: &Machine) -> Option<Vec<usize>> {
    let devices = machine.devices;
    if devices > MOST_DEVICES {
        return None;
    }
    let ideals = ideals(machine)?;
    // per ideal and device: work of all nodes, and how many of them cannot run there
    let sums: Vec<Vec<(u64, usize)>> = ideals
        .iter()
        .map(|ideal| {
            let mut sums = vec![(0u64, 0usize); devices];
            for node in (0..machine.nodes).filter(|&node| has(ideal, node)) {
                for (device, (work, refused)) in sums.iter_mut().enumerate() {
                    match machine.cost(node, device) {
                        FORBIDDEN => *refused += 1,
                        cost => *work += cost,
                    }
                }
            }
            sums
        })
        .collect();
    // per ideal and set of devices in use: least largest load, the ideal before and the last device
    let sets = 1 << devices;
    let mut best = vec![(FORBIDDEN, 0usize, 0usize); ideals.len() * sets];
    best[0].0 = 0;
    for to in 1..ideals.len() {
        for from in (0..to).filter(|&from| subset(&ideals[from], &ideals[to])) {
            for device in 0..devices {
                let ((most, refused), (least, before)) = (sums[to][device], sums[from][device]);
                if refused != before {
                    continue;
                }
                let load = machine.launch[device] + most - least;
                for set in (0..sets).filter(|set| set >> device & 1 == 0) {
                    let value = best[from * sets + set].0.max(load);
                    let slot = &mut best[to * sets + (set | 1 << device)];
                    if value < slot.0 {
                        *slot = (value, from, device);
                    }
                }
            }
        }
    }
    let last = ideals.len() - 1;
    let mut set = (0..sets).min_by_key(|&set| best[last * sets + set].0)?;
    let mut at = last;
    let mut placement = vec![0; machine.nodes];
    while at > 0 {
        let (value, from, device) = best[at * sets + set];
        if value == FORBIDDEN {
            return None;
        }
        for (node, place) in placement.iter_mut().enumerate() {
            if has(&ideals[at], node) && !has(&ideals[from], node) {
                *place = device;
            }
        }
        set &= !(1 << device);
        at = from;
    }
    Some(placement)
}

fn has(ideal: &[u64], node: usize) -> bool {
    ideal[node / 64] >> (node % 64) & 1 == 1
}

fn subset(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a & !b == 0)
}

/// All ideals, smaller ones first, including the empty one and the whole; `None` if there are too
/// many.
fn ideals(machine: &Machine) -> Option<Vec<Vec<u64>>> {
    let mut all = vec![vec![0u64; machine.nodes.div_ceil(64)]];
    let mut layer: BTreeSet<Vec<u64>> = all.iter().cloned().collect();
    for _ in 0..machine.nodes {
        let mut next = BTreeSet::new();
        for ideal in &layer {
            let ready = |&node: &usize| {
                !has(ideal, node) && machine.reads[node].iter().all(|read| has(ideal, read.writer))
            };
            for node in (0..machine.nodes).filter(ready) {
                let mut larger = ideal.clone();
                larger[node / 64] |= 1 << (node % 64);
                next.insert(larger);
            }
            if all.len() + next.len() > MOST_IDEALS {
                return None;
            }
        }
        all.extend(next.iter().cloned());
        layer = next;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Moved, Problem, Source};

    /// Two chains of two nodes that meet in a fifth one.
    fn machine(costs: Vec<u64>, launch: Vec<u64>) -> Machine {
        let devices = launch.len();
        let mut problem = Problem::new(costs, launch).unwrap();
        for (writer, reader) in [(0, 1), (2, 3), (1, 4), (3, 4)] {
            let transfer = (0..devices * devices).map(|_| 2).collect();
            problem
                .push(Moved {
                    source: Source::Node(writer),
                    readers: vec![reader],
                    home: None,
                    transfer,
                })
                .unwrap();
        }
        Machine::new(&problem, 0)
    }

    #[test]
    fn ideals_are_counted_and_split_optimally() {
        let machine = machine(vec![4, 9, 4, 9, 4, 9, 4, 9, 4, 9], vec![1, 1]);
        // (1 + 2 + …): 3 × 3 pairs of prefixes of the chains, and the whole
        assert_eq!(ideals(&machine).unwrap().len(), 10);
        // all on the first device: 1 + 5 × 4; with one node on the second, 1 + 4 × 4 and 1 + 9
        let placement = split(&machine).unwrap();
        assert_eq!(placement.iter().filter(|&&device| device == 1).count(), 1);
        assert_eq!(Loads::new(&machine, placement).period(), 17);
    }

    #[test]
    fn loads_follow_every_move() {
        let machine = machine((1..=10).collect(), vec![3, 5]);
        let mut loads = Loads::new(&machine, vec![0; 5]);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..200 {
            let (node, device) = ((random.next_u64() % 5) as usize, (random.next_u64() % 2) as usize);
            loads.bring(node, device);
            let anew = Loads::new(&machine, loads.placement.clone());
            assert_eq!((&loads.devices, &loads.links), (&anew.devices, &anew.links));
            assert_eq!(loads.forbidden, anew.forbidden);
        }
    }
}
