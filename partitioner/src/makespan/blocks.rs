//! A lower bound over blocks, each between two cut nodes as in a block-cut tree, by the devices of
//! the cuts and the set of devices in use.
//!
//! The time between the ends of two cuts on given devices is at least the longest path, and at
//! least the least time in which some set of devices can do the work. Fictitious play (`game`)
//! raises the bound of the set and the devices that determine it, until no bound on the shortest
//! run through all blocks can be raised, or the budget is used up. On a chain the bound is exact.
//!
//! Invariants: every raised bound is valid, so the sum is; the games follow from counts.
//! Deliberately not here: graphs without cuts (`game` covers the whole run).

use super::bound::{Between, Block, Case, cuts};
use super::game::duel;
use super::machine::{Machine, Read, Tensor};
use crate::problem::{FORBIDDEN, add};
use crate::solve::Budget;

/// Rounds of one game.
const ROUNDS: u64 = 12;

/// Maximum decided node placements, over all games.
const WORK: usize = 60_000;

/// Longer blocks are left to the game of the whole run.
const LONGEST: usize = 160;

/// A block, and its bounds by the devices of its cuts.
struct Leg<'m> {
    block: Block<'m>,
    /// By device of the source, then of the sink; one where there is no source, one without sink.
    between: Vec<Vec<Between>>,
}

/// A lower bound of every makespan.
pub(super) fn bound(machine: &Machine, tails: &[u64], budget: &Budget) -> u64 {
    if machine.nodes == 0 {
        return 0;
    }
    let mut legs = Vec::new();
    let mut source = None;
    let cuts = cuts(machine).into_iter().map(Some);
    for sink in cuts.chain([None]) {
        let from = source.map_or(0, |source: usize| source + 1);
        let to = sink.map_or(machine.nodes, |sink| sink + 1);
        let block = Block::new(machine, from, to, source, sink);
        let rows = if source.is_some() { machine.devices } else { 1 };
        let sinks = if sink.is_some() { machine.devices } else { 1 };
        let between = (0..rows).map(|row| {
            let reached = block.before(source.map(|_| row));
            let between = |on| block.between(&reached, sink.map(|_| on), tails);
            (0..sinks).map(between).collect()
        });
        let between = between.collect();
        legs.push(Leg { block, between });
        source = sink;
    }
    let mut work = WORK;
    loop {
        let (bound, way) = shortest(machine, &legs, tails);
        let mut raised = false;
        for (leg, (from, to)) in legs.iter_mut().zip(way) {
            let nodes = leg.block.nodes();
            let between = &mut leg.between[from][to];
            let (Some(case), value) = between.least() else {
                continue;
            };
            let case = &mut between.cases[case];
            // for two consecutive nodes the longest path is exact
            if case.played || !(3..=LONGEST).contains(&nodes) || value == FORBIDDEN {
                continue;
            }
            let cost = nodes * ROUNDS as usize;
            if work < cost {
                continue;
            }
            work -= cost;
            let from = leg.block.source.map(|_| from);
            let to = leg.block.sink.map(|_| to);
            case.value = case.value.max(play(&leg.block, from, to, case, budget));
            case.played = true;
            raised = true;
        }
        if !raised {
            return bound;
        }
    }
}

/// The shortest run through all blocks, and the devices of the cuts of each.
fn shortest(machine: &Machine, legs: &[Leg<'_>], tails: &[u64]) -> (u64, Vec<(usize, usize)>) {
    let mut ends = vec![0];
    let mut from = Vec::with_capacity(legs.len());
    for leg in legs {
        let sinks = leg.between[0].len();
        let mut next = vec![(FORBIDDEN, 0); sinks];
        for (row, (between, &start)) in leg.between.iter().zip(&ends).enumerate() {
            for (on, between) in between.iter().enumerate() {
                let mut time = between.least().1;
                if let (Some(source), None) = (leg.block.source, leg.block.sink) {
                    time = time.max(tails[source * machine.devices + row]);
                }
                next[on] = next[on].min((add(start, time), row));
            }
        }
        ends = next.iter().map(|&(end, _)| end).collect();
        from.push(next);
    }
    let mut on = 0;
    let mut way: Vec<(usize, usize)> = from
        .iter()
        .rev()
        .map(|next| {
            let at = (next[on].1, on);
            on = at.0;
            at
        })
        .collect();
    way.reverse();
    (ends[0], way)
}

/// Plays for one block with its cuts on given devices and a set of devices in use. Returns the
/// bound.
fn play(block: &Block<'_>, from: Option<usize>, to: Option<usize>, case: &Case, budget: &Budget) -> u64 {
    let whole = block.machine;
    let devices = whole.devices;
    let first = block.source.unwrap_or(block.from);
    let nodes = block.to - first;
    let mut cost = whole.cost[first * devices..block.to * devices].to_vec();
    for (at, cost) in cost.iter_mut().enumerate() {
        let (node, device) = (first + at / devices, at % devices);
        let only = |cut: Option<usize>, on: Option<usize>| cut == Some(node) && on != Some(device);
        if case.set >> device & 1 == 0 || only(block.source, from) || only(block.sink, to) {
            *cost = FORBIDDEN;
        } else if block.source == Some(node) {
            *cost = 0;
        }
    }
    let mut machine = Machine {
        nodes,
        devices,
        resource: (0..devices).collect(),
        cost,
        launch: whole.launch.clone(),
        tensors: Vec::new(),
        reads: vec![Vec::new(); nodes],
        fed: vec![Vec::new(); nodes],
        writes: vec![Vec::new(); nodes],
        groups: (0..nodes).map(|node| vec![node]).collect(),
    };
    let inside = |node: usize| (first..block.to).contains(&node);
    for tensor in &whole.tensors {
        let begins = match tensor.writer {
            Some(writer) => inside(writer),
            None => block.source.is_none(),
        };
        let home = tensor.home.filter(|_| block.sink.is_none());
        let readers: Vec<usize> = tensor
            .readers
            .iter()
            .filter(|&&reader| inside(reader))
            .map(|&reader| reader - first)
            .collect();
        if !begins || readers.is_empty() && home.is_none() {
            continue;
        }
        let index = machine.tensors.len();
        let writer = tensor.writer.map(|writer| writer - first);
        for &reader in &readers {
            match writer {
                Some(writer) => machine.reads[reader].push(Read {
                    writer,
                    tensor: index,
                }),
                None => machine.fed[reader].push(index),
            }
        }
        if let Some(writer) = writer {
            machine.writes[writer].push(index);
        }
        machine.tensors.push(Tensor {
            writer,
            readers,
            from: tensor.from,
            home,
            transfer: tensor.transfer.clone(),
        });
    }
    // the game counts a launch for the source, too
    let launch = from.map_or(0, |from| whole.launch[from]);
    let aside: Vec<u64> = case
        .aside
        .iter()
        .enumerate()
        .map(|(device, &aside)| match case.set >> device & 1 == 1 {
            true if from == Some(device) => aside,
            true => add(aside, launch),
            false => 0,
        })
        .collect();
    duel(&machine, &aside, ROUNDS, budget).saturating_sub(launch)
}
