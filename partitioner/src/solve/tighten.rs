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
    let mut around: Vec<Vec<usize>> = vec![Vec::new(); count as usize];
    let mut ends = Vec::with_capacity(network.factors.len());
    let mut entries = 1u64;
    for (index, factor) in network.factors.iter().enumerate() {
        let places = factor.scope.iter().map(|&v| position[v as usize]);
        ends.push((places.clone().min(), places.max()));
        entries += (factor.table.len() * factor.scope.len()) as u64;
        for &v in &factor.scope {
            around[v as usize].push(index);
        }
    }
    let passes = passes.min((VISITS / entries) as usize);
    let mut idle = 0;
    let mut least = vec![0u64; 0];
    for pass in 0..passes {
        let before = network.constant;
        let forward = pass % 2 == 0;
        for step in 0..order.len() {
            let place = if forward { step } else { order.len() - 1 - step };
            let v = order[place];
            let values = network.count(v);
            // what each table is sure to cost for a value becomes that value's own cost
            for &index in &around[v as usize] {
                least.clear();
                least.resize(values, FORBIDDEN);
                network.each(index, v, |value, cost| least[value] = least[value].min(*cost));
                network.each(index, v, |value, cost| {
                    if *cost != FORBIDDEN {
                        *cost -= least[value];
                    }
                });
                for (own, least) in network.own_mut(v).iter_mut().zip(&least) {
                    *own = add(*own, *least);
                }
            }
            // what every value costs is constant
            let sure = network.own(v).iter().copied().min().unwrap_or(0);
            if sure == FORBIDDEN {
                network.constant = FORBIDDEN;
                return;
            }
            network.constant = add(network.constant, sure);
            for own in network.own_mut(v).iter_mut().filter(|own| **own != FORBIDDEN) {
                *own -= sure;
            }
            // the rest goes on to the tables that variables further on share
            let (mut onward, mut back) = (Vec::new(), 0);
            for &index in &around[v as usize] {
                let (first, last) = ends[index];
                let (ahead, behind) = (last > Some(place), first < Some(place));
                let (ahead, behind) = if forward { (ahead, behind) } else { (behind, ahead) };
                if ahead {
                    onward.push(index);
                }
                back += usize::from(behind);
            }
            let parts = onward.len().max(back) as u64;
            if parts == 0 {
                continue;
            }
            let shares: Vec<u64> = network
                .own(v)
                .iter()
                .map(|&own| if own == FORBIDDEN { 0 } else { own / parts })
                .collect();
            for &index in &onward {
                network.each(index, v, |value, cost| *cost = add(*cost, shares[value]));
            }
            for (own, share) in network.own_mut(v).iter_mut().zip(&shares) {
                if *own != FORBIDDEN {
                    *own -= share * onward.len() as u64;
                }
            }
        }
        idle = if network.constant > before { 0 } else { idle + 1 };
        if idle == 6 {
            return;
        }
    }
}
