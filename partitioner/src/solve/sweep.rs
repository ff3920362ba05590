//! One problem with two cost models, solved for many weighted sums of both.
//!
//! Invariants: both networks have the same variables and scopes, so one elimination order serves
//! every weight; every solution is optimal.
//! Deliberately not here: the choice of weights (`front`).

use super::budget::Budget;
use super::eliminate::{Outcome, eliminate_in};
use super::hubs::{Hub, Tree, hubs};
use super::network::Network;
use super::order::{Order, light_for_many};
use super::revise::Revised;
use super::solution::Solution;
use super::wide::{self, Found};
use crate::problem::{Domain, FORBIDDEN, Problem};
use std::sync::Arc;

/// Both cost models of one problem, and its elimination order.
pub(crate) struct Sweep {
    problems: [Problem; 2],
    /// Tensors that the networks leave out, with their costs in both models.
    hubs: Vec<[Hub; 2]>,
    first: Network,
    second: Network,
    mixed: Network,
    /// The order of all variables, or of the easy ones.
    order: Order,
    table: u64,
    dearest: [u128; 2],
}

impl Sweep {
    /// `None` if the networks would be too large, or a node has no device.
    /// Both problems must have the same tensors and forbid the same links.
    pub(crate) fn new(first: &Problem, second: &Problem, budget: &Budget) -> Option<Self> {
        let domains = first.domains();
        if domains.iter().any(Domain::is_empty) {
            return None;
        }
        let mut left_out: Vec<usize> = [first, second].into_iter().flat_map(hubs).collect();
        left_out.sort_unstable();
        left_out.dedup();
        let beside = Self::without(first, second, &domains, &left_out, budget);
        beside
            .filter(|sweep| sweep.hubs.is_empty() || sweep.order.narrow)
            .or_else(|| Self::without(first, second, &domains, &[], budget))
    }

    /// As [`Self::new`], with some tensors left out of the networks.
    fn without(
        first: &Problem,
        second: &Problem,
        domains: &[Domain],
        left_out: &[usize],
        budget: &Budget,
    ) -> Option<Self> {
        let network = |problem: &Problem| Network::with_zeros(problem, domains, left_out, budget.table);
        let (mut a, mut b) = (network(first)?, network(second)?);
        // tables without cost in both models constrain nothing
        let free =
            |network: &Network, index: usize| network.factors[index].table.iter().all(|&cost| cost == 0);
        let kept: Vec<bool> = (0..a.factors.len())
            .map(|index| !free(&a, index) || !free(&b, index))
            .collect();
        for network in [&mut a, &mut b] {
            let mut kept = kept.iter();
            network.factors.retain(|_| kept.next() == Some(&true));
        }
        debug_assert!(
            a.factors
                .iter()
                .map(|f| &f.scope)
                .eq(b.factors.iter().map(|f| &f.scope))
        );
        let order = light_for_many(&a, budget.table);
        let hub = |problem: &Problem, hub: usize| {
            let tensor = &problem.tensors()[hub];
            Hub::new(tensor, tensor.transfer.clone(), domains)
        };
        Some(Self {
            hubs: left_out
                .iter()
                .map(|&index| [first, second].map(|problem| hub(problem, index)))
                .collect(),
            order,
            mixed: a.clone(),
            first: a,
            second: b,
            table: budget.table,
            dearest: [first.dearest(), second.dearest()],
            problems: [first.clone(), second.clone()],
        })
    }

    /// The optimum under a weighted sum; `None` if no placement is allowed or the sums could
    /// overflow.
    pub(crate) fn solve(&mut self, weights: [u32; 2]) -> Option<Solution> {
        let [a, b] = weights.map(u64::from);
        let dearest = self.dearest[0]
            .checked_mul(u128::from(a))?
            .checked_add(self.dearest[1].checked_mul(u128::from(b))?)?;
        if dearest > u128::from(u64::MAX / 2) {
            return None;
        }
        let mix = |x: u64, y: u64| {
            if x == FORBIDDEN || y == FORBIDDEN {
                FORBIDDEN
            } else {
                a * x + b * y
            }
        };
        let mixed = &mut self.mixed;
        mixed.constant = mix(self.first.constant, self.second.constant);
        for (slot, (&x, &y)) in mixed
            .own
            .iter_mut()
            .zip(self.first.own.iter().zip(&self.second.own))
        {
            *slot = mix(x, y);
        }
        let pairs = self.first.factors.iter().zip(&self.second.factors);
        for (factor, (x, y)) in mixed.factors.iter_mut().zip(pairs) {
            for (slot, (&x, &y)) in Arc::make_mut(&mut factor.table)
                .iter_mut()
                .zip(x.table.iter().zip(&y.table[..]))
            {
                *slot = mix(x, y);
            }
        }
        if !self.hubs.is_empty() {
            let mixed_hub = |[first, second]: &[Hub; 2]| {
                let mut hub = first.clone();
                for (cost, (&x, &y)) in Arc::make_mut(&mut hub.transfer)
                    .iter_mut()
                    .zip(first.transfer.iter().zip(&second.transfer[..]))
                {
                    *cost = mix(x, y);
                }
                hub
            };
            let hubs = self.hubs.iter().map(mixed_hub).collect();
            let [first, second] = &self.problems;
            let value = |placement: &[usize]| {
                Some(a * first.objective(placement)? + b * second.objective(placement)?)
            };
            let solution = Tree::new(hubs, Revised::new(mixed, &self.order), value).solve()?;
            return (solution.bound == solution.objective).then_some(solution);
        }
        if !self.order.narrow {
            return match wide::solve(mixed, &self.order, self.table) {
                Found::Exact { values, cost } => Some(Solution {
                    placement: mixed.placement(&values),
                    objective: cost,
                    bound: cost,
                }),
                Found::Open { .. } | Found::Infeasible => None,
            };
        }
        match eliminate_in(mixed, &self.order) {
            Outcome::Exact { values, cost } => Some(Solution {
                placement: mixed.placement(&values),
                objective: cost,
                bound: cost,
            }),
            Outcome::Infeasible | Outcome::TooWide => None,
        }
    }
}
