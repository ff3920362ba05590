//! A lower bound and an initial assignment for networks too wide for exact elimination
//! (mini-buckets).
//!
//! Invariants: a step whose table would be too large splits its factors into groups and minimises
//! each group by itself, which can only lower the value: the result never exceeds the true minimum.
//! Deliberately not here: improving the assignment (`search`).

use super::eliminate::Sum;
use super::network::{Factor, Network, Scope, Table};
use super::order::order;
use crate::problem::{Domain, FORBIDDEN, Problem, add};
use std::sync::Arc;

/// Maximum entries of all tables together; they are kept until the assignment is read off.
const TOTAL_ENTRIES: u64 = 1 << 24;

/// Without a network: the sum of each node's least cost and each node's cheapest device.
pub(super) fn cheapest(problem: &Problem, domains: &[Domain]) -> (u64, Vec<usize>) {
    let cheapest = |node: usize| {
        let devices = domains[node]
            .iter()
            .map(|&device| (problem.cost(node, device), device));
        devices.min().expect("invariant: every node has a device")
    };
    let best: Vec<(u64, usize)> = (0..domains.len()).map(cheapest).collect();
    let sum = best.iter().fold(0, |sum, &(cost, _)| add(sum, cost));
    (sum, best.into_iter().map(|(_, device)| device).collect())
}

/// A lower bound, and an assignment read off the tables.
pub(super) fn split(network: &Network, table_limit: u64) -> (u64, Vec<u32>) {
    let steps_limit = table_limit.min(1 << 18);
    let order = order(network, steps_limit);
    let entries = (TOTAL_ENTRIES / (order.sequence.len() as u64).max(1))
        .max(64)
        .min(steps_limit.max(1));
    let first = |scope: &[u32]| {
        scope
            .iter()
            .map(|&v| order.position[v as usize])
            .min()
            .expect("invariant: scopes are not empty") as usize
    };
    let mut buckets: Vec<Vec<Factor>> = vec![Vec::new(); order.sequence.len()];
    for factor in &network.factors {
        buckets[first(&factor.scope)].push(factor.clone());
    }
    let mut value = network.constant;
    for (step, &variable) in order.sequence.iter().enumerate() {
        // large scopes first, so that small ones find a group that already covers them
        buckets[step].sort_by(|a, b| {
            b.scope
                .len()
                .cmp(&a.scope.len())
                .then_with(|| a.scope.cmp(&b.scope))
        });
        let mut groups: Vec<(Scope, Vec<usize>)> = Vec::new();
        for (index, factor) in buckets[step].iter().enumerate() {
            let joined = groups.iter_mut().find_map(|(scope, members)| {
                let union = union(scope, &factor.scope, variable);
                let size = union.iter().fold(network.count(variable) as u64, |size, &v| {
                    size.saturating_mul(network.count(v) as u64)
                });
                (size <= entries || union.len() == scope.len()).then_some((scope, members, union))
            });
            match joined {
                Some((scope, members, union)) => {
                    *scope = union;
                    members.push(index);
                }
                None => groups.push((union(&[], &factor.scope, variable), vec![index])),
            }
        }
        if groups.is_empty() {
            groups.push((Scope::new(), Vec::new()));
        }
        let mut messages = Vec::with_capacity(groups.len());
        for (number, (scope, members)) in groups.into_iter().enumerate() {
            let inputs = members.iter().map(|&index| &buckets[step][index]);
            let inputs = inputs.map(|factor| (factor.scope.as_slice(), factor.table.as_slice()));
            let mut sum = Sum::new(network, variable, &scope, inputs);
            if number > 0 {
                sum.without_own();
            }
            let mut table = Table::with_capacity(sum.size);
            for _ in 0..sum.size {
                table.push(sum.least().1);
                sum.advance();
            }
            if scope.is_empty() {
                value = add(value, table[0]);
            } else {
                messages.push(Factor {
                    scope,
                    table: Arc::new(table),
                });
            }
        }
        for message in messages {
            buckets[first(&message.scope)].push(message);
        }
    }
    let mut values = vec![0u32; network.variables() as usize];
    for (step, &variable) in order.sequence.iter().enumerate().rev() {
        let (mut best, mut least) = (0u32, FORBIDDEN);
        for (at, &own) in network.own(variable).iter().enumerate() {
            values[variable as usize] = at as u32;
            let sum = buckets[step].iter().fold(own, |sum, factor| {
                let place = factor.scope.iter().fold(0usize, |place, &v| {
                    place * network.count(v) + values[v as usize] as usize
                });
                add(sum, factor.table[place])
            });
            if sum < least {
                (best, least) = (at as u32, sum);
            }
        }
        values[variable as usize] = best;
    }
    (value, values)
}

/// The union of two scopes, ascending, without the eliminated variable.
fn union(a: &[u32], b: &[u32], without: u32) -> Scope {
    let mut all: Scope = a.iter().chain(b).copied().filter(|&v| v != without).collect();
    all.sort_unstable();
    all.dedup();
    all
}
