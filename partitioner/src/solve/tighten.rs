//! Moves costs between the tables of a network, so that more of them becomes constant: a dual bound.
//!
//! Invariants: the cost of every assignment stays what it was, because whatever leaves a table goes
//! to the variable's own costs or back; no cost falls below zero, so the constant is a lower bound;
//! all numbers are whole and the number of passes is fixed.
//! Deliberately not here: bounds that join tables (`bound` runs on the result).

use super::network::Network;
use crate::problem::{FORBIDDEN, add};
use std::cmp::Reverse;

/// Table entries visited at most, over all passes.
const VISITS: u64 = 100_000_000;

/// Tightens a network in place: sequential message passing, forwards and backwards in the order of
/// the nodes, over all variables so many times.
pub(super) fn tighten(network: &mut Network, passes: usize) {
    let count = network.variables();
    let mut order: Vec<u32> = (0..count).filter(|&v| network.count(v) > 1).collect();
    order.sort_by_key(|&v| (network.anchor(v), Reverse(v)));
    let mut position = vec![0usize; count as usize];
    for (place, &v) in order.iter().enumerate() {
        position[v as usize] = place;
    }
    let mut around: Vec<Vec<Meeting>> = vec![Vec::new(); count as usize];
    let mut entries = 1u64;
    for (index, factor) in network.factors.iter().enumerate() {
        let places = || factor.scope.iter().map(|&v| position[v as usize]);
        entries += (factor.table.len() * factor.scope.len()) as u64;
        let mut inner = 1;
        for &v in factor.scope.iter().rev() {
            around[v as usize].push(Meeting {
                factor: index,
                inner,
                ahead: places().any(|place| place > position[v as usize]),
                behind: places().any(|place| place < position[v as usize]),
            });
            inner *= network.count(v);
        }
    }
    let passes = passes.min((VISITS / entries) as usize);
    let mut idle = 0;
    // per table around a variable and value, what it is sure to cost
    let mut least: Vec<u64> = Vec::new();
    let mut shares: Vec<u64> = Vec::new();
    for pass in 0..passes {
        let before = network.constant;
        let forward = pass % 2 == 0;
        for step in 0..order.len() {
            let v = order[if forward { step } else { order.len() - 1 - step }];
            let values = network.count(v);
            let meetings = &around[v as usize];
            least.clear();
            least.resize(values * meetings.len(), FORBIDDEN);
            for (meeting, least) in meetings.iter().zip(least.chunks_exact_mut(values)) {
                let table = &network.factors[meeting.factor].table;
                for block in table.chunks_exact(values * meeting.inner) {
                    for (least, row) in least.iter_mut().zip(block.chunks_exact(meeting.inner)) {
                        *least = row.iter().fold(*least, |least, &cost| least.min(cost));
                    }
                }
            }
            // it becomes the value's own cost, and what every value costs is constant
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
            // the rest goes on to the tables that variables further on share
            let further = |meeting: &&Meeting| if forward { meeting.ahead } else { meeting.behind };
            let onward = meetings.iter().filter(further).count() as u64;
            let back = meetings
                .iter()
                .filter(|meeting| if forward { meeting.behind } else { meeting.ahead });
            let parts = onward.max(back.count() as u64).max(1);
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
                let goes_on = further(&meeting);
                let table = &mut network.factors[meeting.factor].table;
                for block in table.chunks_exact_mut(values * meeting.inner) {
                    let rows = block.chunks_exact_mut(meeting.inner);
                    for ((&least, &share), row) in least.iter().zip(&shares).zip(rows) {
                        let share = if goes_on { share } else { 0 };
                        for cost in row.iter_mut().filter(|cost| **cost != FORBIDDEN) {
                            *cost = *cost - least + share;
                        }
                    }
                }
            }
        }
        idle = if network.constant > before { 0 } else { idle + 1 };
        if idle == 6 {
            return;
        }
    }
}

/// A table that a variable is in.
#[derive(Clone)]
struct Meeting {
    factor: usize,
    /// Entries from one value of the variable to the next.
    inner: usize,
    /// Another of the table's variables comes later, or earlier.
    ahead: bool,
    behind: bool,
}
