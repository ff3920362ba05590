//! Reparametrisation: moves costs between the tables of a network into the constant, which is a
//! dual bound.
//!
//! Sequential message passing as in SRMP (V. Kolmogorov, A New Look at Reweighted Message Passing, PAMI 2015).
//!
//! Invariants: every assignment keeps its cost, because costs move only between a table and the
//! variable's own costs; no cost falls below zero, so the constant is a lower bound; all numbers
//! are integers, and passes are counted.
//! Deliberately not here: bounds that join tables (`bound` runs on the result).

use super::around::Around;
use super::network::Network;
use crate::problem::{FORBIDDEN, add};
use std::sync::Arc;

/// Maximum table entries visited in one call.
const VISITS: u64 = 100_000_000;

/// Reparametrises a network in place: this many forward and backward passes over some variables, in
/// the order of visits.
pub(super) fn reparametrise(network: &mut Network, around: &Around, variables: &[u32], passes: usize) {
    let size = |v: &u32| -> u64 {
        let tables = around.of(*v).iter();
        tables
            .map(|meeting| network.factors[meeting.factor as usize].table.len() as u64)
            .sum()
    };
    let entries = 1 + variables.iter().map(size).sum::<u64>();
    let passes = passes.min((VISITS / entries) as usize);
    // per table around a variable and value, the least cost
    let mut least: Vec<u64> = Vec::new();
    let (mut shares, mut gain): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    for pass in 0..passes {
        let forward = pass % 2 == 0;
        for step in 0..variables.len() {
            let v = variables[if forward { step } else { variables.len() - 1 - step }];
            let values = network.count(v);
            let meetings = around.of(v);
            least.clear();
            least.resize(values * meetings.len(), FORBIDDEN);
            for (meeting, least) in meetings.iter().zip(least.chunks_exact_mut(values)) {
                let inner = meeting.inner as usize;
                let table = &network.factors[meeting.factor as usize].table;
                if inner == 1 {
                    for row in table.chunks_exact(values) {
                        for (least, &cost) in least.iter_mut().zip(row) {
                            *least = cost.min(*least);
                        }
                    }
                    continue;
                }
                for block in table.chunks_exact(values * inner) {
                    for (least, row) in least.iter_mut().zip(block.chunks_exact(inner)) {
                        *least = row.iter().fold(*least, |least, &cost| least.min(cost));
                    }
                }
            }
            // it becomes the value's own cost, and the minimum over all values becomes constant
            let own = network.own_mut(v);
            for least in least.chunks_exact(values) {
                for (own, &least) in own.iter_mut().zip(least) {
                    *own = add(*own, least);
                }
            }
            let sure = own.iter().copied().min().unwrap_or(0);
            if sure == FORBIDDEN {
                network.constant = FORBIDDEN;
                return;
            }
            // the rest moves to the tables shared with later variables
            let further = |ahead: bool, behind: bool| if forward { ahead } else { behind };
            let onward = meetings.iter().filter(|m| further(m.ahead, m.behind)).count() as u64;
            let back = meetings.iter().filter(|m| further(m.behind, m.ahead)).count() as u64;
            let parts = onward.max(back).max(1);
            shares.clear();
            for own in own.iter_mut() {
                let share = if *own == FORBIDDEN {
                    0
                } else {
                    (*own - sure) / parts
                };
                if *own != FORBIDDEN {
                    *own -= sure + share * onward;
                }
                shares.push(share);
            }
            network.constant = add(network.constant, sure);
            for (meeting, least) in meetings.iter().zip(least.chunks_exact(values)) {
                let goes_on = further(meeting.ahead, meeting.behind);
                let inner = meeting.inner as usize;
                let table = Arc::make_mut(&mut network.factors[meeting.factor as usize].table);
                let gains = least.iter().zip(&shares);
                gain.clear();
                gain.extend(
                    gains.map(|(&least, &share)| (if goes_on { share } else { 0 }).wrapping_sub(least)),
                );
                let gained = |cost: u64, gain: u64| match cost {
                    FORBIDDEN => FORBIDDEN,
                    _ => cost.wrapping_add(gain),
                };
                if inner == 1 {
                    for row in table.chunks_exact_mut(values) {
                        for (cost, &gain) in row.iter_mut().zip(&gain) {
                            *cost = gained(*cost, gain);
                        }
                    }
                    continue;
                }
                for block in table.chunks_exact_mut(values * inner) {
                    for (&gain, row) in gain.iter().zip(block.chunks_exact_mut(inner)) {
                        row.iter_mut().for_each(|cost| *cost = gained(*cost, gain));
                    }
                }
            }
        }
    }
}
