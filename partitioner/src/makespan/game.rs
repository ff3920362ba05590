//! Lower bounds by a game: one player places nodes, the other weights the bottlenecks.
//!
//! For every placement, each block between two cuts takes at least the work of any one device, with
//! a launch each time that a path enters it (parts are convex, so each entry is another part), and
//! at least the length of any path; so also any mean of these. The best placement against a fixed
//! mean is a serial placement problem, solved exactly: its value is a lower bound. Fictitious play
//! (Brown, 1951) finds the mean: each round adds the bottleneck of the last placement, and later
//! rounds weigh more. For the time between runs the whole graph is one block, without paths, but
//! with the work of links.
//!
//! Invariants: means have integer weights with the same sum in every block; all sums are integers;
//! the number of rounds follows from the number of nodes.
//! Deliberately not here: schedules; each round's placement is a good start for one.

use super::machine::Machine;
use crate::problem::{FORBIDDEN, Moved, Problem, Source, add};
use crate::solve::{Budget, solve};
use std::collections::BTreeMap;

/// Maximum decided node placements, over all rounds.
const WORK: usize = 24_000;

/// Maximum rounds.
const ROUNDS: usize = 40;

/// The weights of the mean.
struct Mean {
    /// Per block and device, at the first device of those that share hardware.
    work: Vec<u64>,
    /// Per link.
    links: Vec<u64>,
    /// Per node, weights of paths through it, starting with it and ending with it.
    through: Vec<u64>,
    first: Vec<u64>,
    last: Vec<u64>,
    /// Per writer, reader and tensor: weights of paths over it, and per device of the launches that
    /// it causes.
    edges: BTreeMap<(usize, usize, usize), (u64, Vec<u64>)>,
    /// Per node and device: weights of launches of paths that start with it.
    starts: Vec<u64>,
    whole: u64,
}

/// A bound, and the placement against which each round played.
pub(super) struct Outcome {
    pub(super) bound: u64,
    pub(super) placements: Vec<Vec<usize>>,
}

/// Plays to raise a bound; `cuts` end blocks, and without them the bound is on the time between
/// runs.
pub(super) fn play(machine: &Machine, cuts: Option<&[usize]>, bound: u64, budget: &Budget) -> Outcome {
    let (nodes, devices) = (machine.nodes, machine.devices);
    let mut block_of = vec![0; nodes];
    let mut blocks = 1;
    for &cut in cuts.unwrap_or_default() {
        if cut + 1 < nodes {
            block_of[cut + 1..].iter_mut().for_each(|block| *block = blocks);
            blocks += 1;
        }
    }
    let mut mean = Mean::new(nodes, devices, blocks);
    let mut outcome = Outcome {
        bound,
        placements: Vec::new(),
    };
    let aside = vec![0; devices];
    let mut placement = cheapest(machine);
    for round in 1..=(WORK / nodes.max(1)).clamp(2, ROUNDS) as u64 {
        match cuts {
            Some(_) => mean.add_slowest(machine, &block_of, blocks, &aside, &placement, round),
            None => mean.add_busiest(machine, &placement, round),
        }
        let Some(problem) = mean.problem(machine, &block_of) else {
            break;
        };
        let Ok(solution) = solve(&problem, budget) else {
            break;
        };
        outcome.bound = outcome.bound.max(solution.bound / mean.whole);
        placement = solution.placement;
        outcome.placements.push(placement.clone());
    }
    outcome
}

/// Plays for a run that is one block, with an unused time per device. Returns the bound.
pub(super) fn duel(machine: &Machine, aside: &[u64], rounds: u64, budget: &Budget) -> u64 {
    let block_of = vec![0; machine.nodes];
    let mut mean = Mean::new(machine.nodes, machine.devices, 1);
    let mut placement = cheapest(machine);
    let mut bound = 0;
    for round in 1..=rounds {
        mean.add_slowest(machine, &block_of, 1, aside, &placement, round);
        let Some(problem) = mean.problem(machine, &block_of) else {
            break;
        };
        let Ok(solution) = solve(&problem, budget) else {
            break;
        };
        let idle = (mean.work.iter().zip(aside)).fold(0u128, |sum, (&weight, &aside)| {
            sum + u128::from(weight) * u128::from(aside)
        });
        let mean = (u128::from(solution.bound) + idle) / u128::from(mean.whole);
        bound = bound.max(u64::try_from(mean).unwrap_or(0));
        placement = solution.placement;
    }
    bound
}

/// Each node on its cheapest device.
fn cheapest(machine: &Machine) -> Vec<usize> {
    let devices = machine.devices;
    let best = |node: usize| (0..devices).min_by_key(|&device| (machine.cost(node, device), device));
    (0..machine.nodes).filter_map(best).collect()
}

impl Mean {
    fn new(nodes: usize, devices: usize, blocks: usize) -> Self {
        Self {
            work: vec![0; blocks * devices],
            links: vec![0; devices * devices],
            through: vec![0; nodes],
            first: vec![0; nodes],
            last: vec![0; nodes],
            edges: BTreeMap::new(),
            starts: vec![0; nodes * devices],
            whole: 0,
        }
    }

    /// Adds, in each block, the busiest device or the longest path, whichever takes longer.
    fn add_slowest(
        &mut self,
        machine: &Machine,
        block_of: &[usize],
        blocks: usize,
        aside: &[u64],
        placement: &[usize],
        weight: u64,
    ) {
        let devices = machine.devices;
        self.whole += weight;
        let mut work = vec![0u64; blocks * devices];
        // per node the end of the longest path in its block, and its predecessor
        let mut ends = vec![0u64; machine.nodes];
        let mut before: Vec<Option<(usize, usize)>> = vec![None; machine.nodes];
        let mut longest: Vec<Option<(u64, usize)>> = vec![None; blocks];
        for node in 0..machine.nodes {
            let (block, device) = (block_of[node], placement[node]);
            let cost = machine.cost(node, device);
            let shared = &mut work[block * devices + machine.resource[device]];
            *shared = add(*shared, cost);
            let mut start = match block {
                0 => add(machine.launch[device], machine.arrival(node, device)),
                _ => 0,
            };
            for read in &machine.reads[node] {
                let way = way(machine, read.tensor, placement[read.writer], device);
                let inside = block_of[read.writer] == block;
                // paths start at the last node of the previous block
                let border = block > 0
                    && read.writer + 1 < machine.nodes
                    && block_of[read.writer + 1] == block
                    && !inside;
                let ready = match inside {
                    true => add(ends[read.writer], way),
                    false if border => way,
                    false => continue,
                };
                if ready > start || before[node].is_none() && ready == start {
                    start = ready;
                    before[node] = Some((read.writer, read.tensor));
                }
            }
            ends[node] = add(start, cost);
            let rest = if block + 1 == blocks {
                home(machine, node, device)
            } else {
                0
            };
            let whole = add(ends[node], rest);
            let ends_block = block + 1 == blocks || block_of[node + 1] != block;
            if ends_block && longest[block].is_none_or(|(most, _)| whole > most) {
                longest[block] = Some((whole, node));
            }
        }
        let launches = Launches::of(machine, block_of, placement);
        for block in 0..blocks {
            let most = launches.most(block_of, block);
            let spent = (0..devices).map(|device| {
                let launching = most[device].map_or(0, |node| launches.count[node * devices + device]);
                let launching = launching.saturating_mul(machine.launch[device]);
                let shared = work[block * devices + machine.resource[device]];
                add(add(shared, launching), aside[device])
            });
            let (device, busiest) = busiest(&spent.collect::<Vec<_>>());
            let Some((_, mut node)) = longest[block].filter(|&(way, _)| way >= busiest) else {
                self.work[block * devices + machine.resource[device]] += weight;
                self.add_launches(&launches, block_of, most[device], device, weight);
                continue;
            };
            self.last[node] += weight;
            loop {
                self.through[node] += weight;
                match before[node] {
                    Some((writer, tensor)) => {
                        self.edge(writer, node, tensor, devices).0 += weight;
                        if block_of[writer] != block {
                            break;
                        }
                        node = writer;
                    }
                    None => {
                        self.first[node] += weight;
                        break;
                    }
                }
            }
        }
    }

    /// Adds the launches of one path.
    fn add_launches(
        &mut self,
        launches: &Launches,
        block_of: &[usize],
        end: Option<usize>,
        device: usize,
        weight: u64,
    ) {
        let devices = launches.devices;
        let mut next = end;
        while let Some(node) = next {
            next = None;
            match launches.before[node * devices + device] {
                Some((writer, tensor)) => {
                    self.edge(writer, node, tensor, devices).1[device] += weight;
                    next = Some(writer).filter(|&writer| block_of[writer] == block_of[node]);
                }
                None if block_of[node] == 0 => self.starts[node * devices + device] += weight,
                None => {}
            }
        }
    }

    fn edge(&mut self, writer: usize, reader: usize, tensor: usize, devices: usize) -> &mut (u64, Vec<u64>) {
        self.edges
            .entry((writer, reader, tensor))
            .or_insert_with(|| (0, vec![0; devices]))
    }

    /// Adds the busiest device or link.
    fn add_busiest(&mut self, machine: &Machine, placement: &[usize], weight: u64) {
        let devices = machine.devices;
        self.whole += weight;
        let (mut work, mut links) = (vec![0u64; devices], vec![0u64; devices * devices]);
        for (node, &device) in placement.iter().enumerate() {
            let shared = &mut work[machine.resource[device]];
            *shared = add(*shared, machine.cost(node, device));
        }
        for tensor in &machine.tensors {
            let from = tensor.writer.map_or(tensor.from, |writer| placement[writer]);
            let mut to: Vec<usize> = tensor
                .readers
                .iter()
                .map(|&reader| placement[reader])
                .chain(tensor.home)
                .collect();
            to.sort_unstable();
            to.dedup();
            for to in to.into_iter().filter(|&to| to != from) {
                let link = from * devices + to;
                links[link] = add(links[link], tensor.transfer[link]);
            }
        }
        let ((device, most), (link, dearest)) = (busiest(&work), busiest(&links));
        if most >= dearest {
            self.work[device] += weight
        } else {
            self.links[link] += weight
        }
    }

    /// The problem of the best placement against the mean; `None` if sums could overflow.
    fn problem(&self, machine: &Machine, block_of: &[usize]) -> Option<Problem> {
        let devices = machine.devices;
        let weigh = |weight: u64, cost: u64| match (weight, cost) {
            (0, _) => Some(0),
            (_, FORBIDDEN) => Some(FORBIDDEN),
            (weight, cost) => weight.checked_mul(cost),
        };
        let mut costs = Vec::with_capacity(machine.nodes * devices);
        for node in 0..machine.nodes {
            for device in 0..devices {
                let own = machine.cost(node, device);
                if own == FORBIDDEN {
                    costs.push(FORBIDDEN);
                    continue;
                }
                let shared = block_of[node] * devices + machine.resource[device];
                let weight = self.work[shared] + self.through[node];
                let mut cost = weigh(weight, own)?;
                if block_of[node] == 0 {
                    let start = add(machine.launch[device], machine.arrival(node, device));
                    cost = add(cost, weigh(self.first[node], start)?);
                    cost = add(
                        cost,
                        weigh(self.starts[node * devices + device], machine.launch[device])?,
                    );
                }
                if block_of[node] == block_of[machine.nodes - 1] {
                    cost = add(cost, weigh(self.last[node], home(machine, node, device))?);
                }
                costs.push(cost);
            }
        }
        let mut problem = Problem::new(costs, vec![0; devices]).ok()?;
        let pairs = || (0..devices * devices).map(|at| (at / devices, at % devices));
        for (&(writer, reader, tensor), (weight, launches)) in &self.edges {
            let transfer = pairs().map(|(from, to)| {
                let launching = if from == to {
                    0
                } else {
                    weigh(launches[to], machine.launch[to])?
                };
                Some(add(launching, weigh(*weight, way(machine, tensor, from, to))?))
            });
            let transfer = transfer.collect::<Option<_>>()?;
            problem
                .push(Moved {
                    source: Source::Node(writer),
                    readers: vec![reader],
                    home: None,
                    transfer,
                })
                .ok()?;
        }
        if self.links.iter().any(|&weight| weight > 0) {
            for tensor in &machine.tensors {
                let transfer = tensor
                    .transfer
                    .iter()
                    .zip(&self.links)
                    .map(|(&time, &weight)| weigh(weight, time));
                let transfer = transfer.collect::<Option<_>>()?;
                let source = tensor.writer.map_or(Source::Device(tensor.from), Source::Node);
                let readers = tensor.readers.clone();
                problem
                    .push(Moved {
                        source,
                        readers,
                        home: tensor.home,
                        transfer,
                    })
                    .ok()?;
            }
        }
        Some(problem)
    }
}

/// Whether a writer is the last node of the block before its reader's.
fn is_border(block_of: &[usize], writer: usize, reader: usize) -> bool {
    block_of[writer] + 1 == block_of[reader] && block_of[writer + 1] == block_of[reader]
}

/// The number of times that a path within a block enters each device.
struct Launches {
    devices: usize,
    /// Per node and device, on the best path that ends with the node.
    count: Vec<u64>,
    /// The predecessor on that path.
    before: Vec<Option<(usize, usize)>>,
}

impl Launches {
    fn of(machine: &Machine, block_of: &[usize], placement: &[usize]) -> Self {
        let devices = machine.devices;
        let mut launches = Self {
            devices,
            count: vec![0; machine.nodes * devices],
            before: vec![None; machine.nodes * devices],
        };
        for node in 0..machine.nodes {
            for device in 0..devices {
                let here = placement[node] == device;
                // the first launches of the run are in its first block
                let mut best = u64::from(here && block_of[node] == 0);
                let mut before = None;
                for read in &machine.reads[node] {
                    let own = block_of[read.writer] == block_of[node];
                    if !own && !is_border(block_of, read.writer, node) {
                        continue;
                    }
                    let so_far = if own {
                        launches.count[read.writer * devices + device]
                    } else {
                        0
                    };
                    let count = so_far + u64::from(here && placement[read.writer] != device);
                    if count > best || before.is_none() && count == best {
                        (best, before) = (count, Some((read.writer, read.tensor)));
                    }
                }
                launches.count[node * devices + device] = best;
                launches.before[node * devices + device] = before;
            }
        }
        launches
    }

    /// Per device, the last node of a path that enters it most often in a block.
    fn most(&self, block_of: &[usize], block: usize) -> Vec<Option<usize>> {
        let from = block_of.partition_point(|&other| other < block);
        let to = block_of.partition_point(|&other| other <= block);
        (0..self.devices)
            .map(|device| {
                (from..to)
                    .max_by_key(|&node| (self.count[node * self.devices + device], std::cmp::Reverse(node)))
            })
            .collect()
    }
}

/// The time from leaving a node on one device until another node's work may start on another.
pub(super) fn way(machine: &Machine, tensor: usize, from: usize, to: usize) -> u64 {
    if from == to {
        0
    } else {
        add(machine.transfer(tensor, from, to), machine.launch[to])
    }
}

/// The time until a node's outputs are at their home.
fn home(machine: &Machine, node: usize, device: usize) -> u64 {
    let times = machine.writes[node].iter().filter_map(|&tensor| {
        let home = machine.tensors[tensor].home?;
        Some(if home == device {
            0
        } else {
            machine.transfer(tensor, device, home)
        })
    });
    times.max().unwrap_or(0)
}

/// The first of the largest.
fn busiest(work: &[u64]) -> (usize, u64) {
    let most = work.iter().copied().max().unwrap_or(0);
    (work.iter().position(|&work| work == most).unwrap_or(0), most)
}
