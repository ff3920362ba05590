//! The tables of each variable of a network, and the order in which variables are visited.
//!
//! Invariants: variables are visited from the first node to the last, each set variable after its
//! node; variables with one value are in no table and are not visited.
//! Deliberately not here: the work of a visit (`reparametrise`, `combilp`).

use super::network::Network;
use crate::problem::add;
use std::cmp::Reverse;

/// A table that a variable is in.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    /// The table's number.
    pub(super) factor: u32,
    /// Entries from one value of the variable to the next.
    pub(super) inner: u32,
    /// Whether another of the table's variables is visited later, or earlier.
    pub(super) ahead: bool,
    pub(super) behind: bool,
}

/// The tables around each variable.
pub(super) struct Around {
    order: Vec<u32>,
    /// Per variable, its position in the order.
    places: Vec<u32>,
    starts: Vec<u32>,
    meetings: Vec<Meeting>,
}

impl Around {
    pub(super) fn new(network: &Network) -> Self {
        let count = network.variables();
        let mut order: Vec<u32> = (0..count).filter(|&v| network.count(v) > 1).collect();
        order.sort_unstable_by_key(|&v| (network.anchor(v), Reverse(v)));
        let mut places = vec![0; count as usize];
        for (place, &v) in order.iter().enumerate() {
            places[v as usize] = place as u32;
        }
        let mut starts = vec![0u32; count as usize + 1];
        for factor in &network.factors {
            factor.scope.iter().for_each(|&v| starts[v as usize + 1] += 1);
        }
        for v in 0..count as usize {
            starts[v + 1] += starts[v];
        }
        let nothing = Meeting {
            factor: 0,
            inner: 0,
            ahead: false,
            behind: false,
        };
        let mut meetings = vec![nothing; starts[count as usize] as usize];
        let mut next = starts.clone();
        for (number, factor) in network.factors.iter().enumerate() {
            let visits = || factor.scope.iter().map(|&v| places[v as usize]);
            let (first, last) = (visits().min(), visits().max());
            let mut inner = 1;
            for &v in factor.scope.iter().rev() {
                let place = Some(places[v as usize]);
                meetings[next[v as usize] as usize] = Meeting {
                    factor: number as u32,
                    inner,
                    ahead: last > place,
                    behind: first < place,
                };
                next[v as usize] += 1;
                inner *= network.count(v) as u32;
            }
        }
        Self {
            order,
            places,
            starts,
            meetings,
        }
    }

    /// All variables in the order of visits.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Sorts variables by visit and removes duplicates.
    pub(super) fn sort(&self, variables: &mut Vec<u32>) {
        variables.sort_unstable_by_key(|&v| self.places[v as usize]);
        variables.dedup();
    }

    /// The tables that a variable is in.
    pub(super) fn of(&self, variable: u32) -> &[Meeting] {
        &self.meetings[self.starts[variable as usize] as usize..self.starts[variable as usize + 1] as usize]
    }
}

/// The cost of an assignment in one table.
pub(super) fn entry(network: &Network, factor: u32, chosen: &[u32]) -> u64 {
    let factor = &network.factors[factor as usize];
    let place = factor.scope.iter().fold(0, |place, &v| {
        place * network.count(v) + chosen[v as usize] as usize
    });
    factor.table[place]
}

/// The cost of an assignment.
pub(super) fn cost_of(network: &Network, chosen: &[u32]) -> u64 {
    let own = |v: u32| match network.count(v) {
        1 => 0,
        _ => network.own(v)[chosen[v as usize] as usize],
    };
    let sum = (0..network.variables()).fold(network.constant, |sum, v| add(sum, own(v)));
    let factors = 0..network.factors.len() as u32;
    factors.fold(sum, |sum, factor| add(sum, entry(network, factor, chosen)))
}
