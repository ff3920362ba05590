//! Incremental elimination: after some costs rose, only the affected steps run again.
//!
//! Invariants: the cost never exceeds the minimum under the current costs, and equals it once no
//! step is left to repeat; a rise common to all entries moves from a table to the cost, so that a
//! difference spreads only as far as it matters; `undo` restores tables, costs and choices exactly.
//! Deliberately not here: falling costs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::eliminate::{ByStep, Choices, Waiting, least, read_off};
use super::network::{Network, Table};
use super::order::Order;
use crate::problem::{FORBIDDEN, add};

/// A network that was eliminated, with every step's table.
pub(super) struct Revised<'a> {
    network: &'a mut Network,
    order: &'a Order,
    given: ByStep,
    senders: Waiting,
    /// The step that reads a step's table.
    parents: Vec<u32>,
    sent: Vec<Table>,
    best: Vec<Choices>,
    /// The amount moved from a step's table to the cost.
    moved: Vec<u64>,
    cost: u64,
    /// Steps to repeat, in order.
    stale: BinaryHeap<Reverse<u32>>,
    waiting: Vec<bool>,
    tables: Vec<(u32, u64, Table, Choices)>,
    owns: Vec<(u32, usize, u64)>,
    repeated: usize,
}

/// A saved state.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    tables: usize,
    owns: usize,
    cost: u64,
}

/// The parent of a step whose table is one number.
const NO_STEP: u32 = u32::MAX;

impl<'a> Revised<'a> {
    /// Eliminates a network in a narrow order.
    pub(super) fn new(network: &'a mut Network, order: &'a Order) -> Self {
        debug_assert!(order.narrow);
        let steps = order.sequence.len();
        let first = |scope: &[u32]| scope.iter().map(|&v| order.position[v as usize]).min();
        let of_factor = |index: usize| first(&network.factors[index].scope).map_or(0, |step| step as usize);
        let given = ByStep::new(steps, (0..network.factors.len()).map(of_factor));
        let mut senders = Waiting::new(steps);
        let parents: Vec<u32> = order
            .scopes
            .iter()
            .map(|scope| first(scope).unwrap_or(NO_STEP))
            .collect();
        for (step, &parent) in parents
            .iter()
            .enumerate()
            .filter(|&(_, &parent)| parent != NO_STEP)
        {
            senders.add(parent as usize, step);
        }
        let mut revised = Self {
            cost: network.constant,
            network,
            order,
            given,
            senders,
            parents,
            sent: Vec::with_capacity(steps),
            best: Vec::with_capacity(steps),
            moved: vec![0; steps],
            stale: BinaryHeap::new(),
            waiting: vec![false; steps],
            tables: Vec::new(),
            owns: Vec::new(),
            repeated: 0,
        };
        for step in 0..steps {
            let (table, choice) = revised.table(step);
            if revised.parents[step] == NO_STEP {
                revised.cost = add(revised.cost, table[0]);
            }
            revised.sent.push(table);
            revised.best.push(choice);
        }
        revised
    }

    /// A step's table from the tables before it.
    fn table(&self, step: usize) -> (Table, Choices) {
        let factors = self.given.of(step).map(|index| {
            let factor = &self.network.factors[index];
            (factor.scope.as_slice(), factor.table.as_slice())
        });
        let before = self
            .senders
            .of(step)
            .map(|sender| (self.order.scopes[sender].as_slice(), self.sent[sender].as_slice()));
        let tables: SmallVec<[(&[u32], &[u64]); 8]> = factors.chain(before).collect();
        least(
            self.network,
            self.order.sequence[step],
            &self.order.scopes[step],
            &tables,
        )
    }

    /// A lower bound; the minimum, if the last `repeat` was complete.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Steps of the whole elimination.
    pub(super) fn steps(&self) -> usize {
        self.sent.len()
    }

    /// Steps repeated so far.
    pub(super) fn repeated(&self) -> usize {
        self.repeated
    }

    pub(super) fn network(&self) -> &Network {
        self.network
    }

    /// The values that give the minimum.
    pub(super) fn values(&self) -> Vec<u32> {
        let mut values = vec![0; self.network.variables() as usize];
        read_off(self.network, self.order, &self.best, &mut values);
        values
    }

    /// Raises the cost of one value of a variable; [`FORBIDDEN`] forbids it.
    pub(super) fn raise(&mut self, variable: u32, value: usize, by: u64) {
        let own = &mut self.network.own_mut(variable)[value];
        if by == 0 || *own == FORBIDDEN {
            return;
        }
        self.owns.push((variable, value, *own));
        *own = add(*own, by);
        match self.order.position[variable as usize] {
            // a variable of one value is part of the constant
            NO_STEP => self.cost = add(self.cost, by),
            step => self.repeat_later(step),
        }
    }

    /// Raises the constant.
    pub(super) fn raise_all(&mut self, by: u64) {
        self.cost = add(self.cost, by);
    }

    fn repeat_later(&mut self, step: u32) {
        if !std::mem::replace(&mut self.waiting[step as usize], true) {
            self.stale.push(Reverse(step));
        }
    }

    /// Repeats the affected steps, at most this many, until the cost reaches a limit. Whether no
    /// step is left to repeat.
    pub(super) fn repeat(&mut self, limit: u64, steps: usize) -> bool {
        let mut left = steps;
        while self.cost < limit {
            let Some(&Reverse(step)) = self.stale.peek() else {
                return true;
            };
            if left == 0 {
                return false;
            }
            left -= 1;
            self.repeated += 1;
            self.stale.pop();
            let step = step as usize;
            self.waiting[step] = false;
            let (mut table, choice) = self.table(step);
            let moved = self.moved[step];
            let before = &self.sent[step];
            let allowed = || {
                table
                    .iter()
                    .zip(before)
                    .filter(|&(_, &before)| before != FORBIDDEN)
            };
            let difference = |(&after, &before): (&u64, &u64)| match after {
                FORBIDDEN => FORBIDDEN,
                _ => after - moved - before,
            };
            let rises = || allowed().map(difference);
            let rise = rises().min().unwrap_or(0);
            let goes_on = rises().any(|other| other != rise);
            self.cost = add(self.cost, rise);
            if rise != FORBIDDEN {
                self.moved[step] += rise;
                for cost in table.iter_mut().filter(|cost| **cost != FORBIDDEN) {
                    *cost -= moved + rise;
                }
            }
            let before = std::mem::replace(&mut self.sent[step], table);
            let chosen = std::mem::replace(&mut self.best[step], choice);
            self.tables.push((step as u32, moved, before, chosen));
            if goes_on {
                self.repeat_later(self.parents[step]);
            }
        }
        self.stale.is_empty()
    }

    /// Saves the state; no step may be left to repeat.
    pub(super) fn mark(&self) -> Mark {
        debug_assert!(self.stale.is_empty());
        Mark {
            tables: self.tables.len(),
            owns: self.owns.len(),
            cost: self.cost,
        }
    }

    /// Restores a saved state.
    pub(super) fn undo(&mut self, mark: Mark) {
        for Reverse(step) in self.stale.drain() {
            self.waiting[step as usize] = false;
        }
        for (step, moved, table, choice) in self.tables.drain(mark.tables..).rev() {
            self.moved[step as usize] = moved;
            self.sent[step as usize] = table;
            self.best[step as usize] = choice;
        }
        for (variable, value, cost) in self.owns.drain(mark.owns..).rev() {
            self.network.own_mut(variable)[value] = cost;
        }
        self.cost = mark.cost;
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::super::eliminate::{Outcome, eliminate_in};
    use super::super::order::order;
    use super::*;
    use crate::problem::{Moved, Problem, Source};

    /// The minimum from the beginning.
    fn afresh(network: &Network, order: &Order) -> u64 {
        match eliminate_in(network, order) {
            Outcome::Exact { cost, .. } => cost,
            Outcome::Infeasible | Outcome::TooWide => FORBIDDEN,
        }
    }

    #[test]
    fn partial_elimination_equals_full_elimination() {
        let mut random = ChaCha8Rng::seed_from_u64(6);
        let mut below = |limit: u64| random.next_u64() % limit;
        let (mut spared, mut forbidden) = (0, 0);
        for _ in 0..60 {
            let (nodes, devices) = (30, 3);
            let costs = (0..nodes * devices).map(|_| below(100)).collect();
            let mut problem = Problem::new(costs, (0..devices).map(|_| below(30)).collect()).unwrap();
            for node in 0..nodes - 1 {
                let tensor = Moved {
                    source: Source::Node(node),
                    readers: (node + 1..nodes).take(1 + below(3) as usize).collect(),
                    home: None,
                    transfer: (0..devices * devices).map(|_| below(60)).collect(),
                };
                problem.push(tensor).unwrap();
            }
            let domains = problem.domains();
            let mut network = Network::new(&problem, &domains, 1_000_000).unwrap();
            let order = order(&network, 1_000_000);
            let before = afresh(&network, &order);
            let mut revised = Revised::new(&mut network, &order);
            let start = revised.mark();
            for _ in 0..6 {
                let mark = revised.mark();
                for _ in 0..1 + below(3) {
                    let by = if below(4) == 0 { FORBIDDEN } else { below(80) };
                    revised.raise(below(nodes as u64) as u32, below(devices as u64) as usize, by);
                }
                if below(3) == 0 {
                    // given up half way: what was moved to the cost is a bound all the same
                    revised.repeat(FORBIDDEN, 3);
                    assert!(revised.cost() <= afresh(revised.network(), &order));
                    revised.undo(mark);
                }
                assert!(revised.repeat(FORBIDDEN, usize::MAX));
                assert_eq!(revised.cost(), afresh(revised.network(), &order));
                forbidden += u32::from(revised.cost() == FORBIDDEN);
                if revised.cost() == FORBIDDEN {
                    revised.undo(mark);
                    continue;
                }
                let values = revised.values();
                let own: u64 = (0..nodes)
                    .map(|v| revised.network().own(v as u32)[values[v] as usize])
                    .sum();
                let placement = revised.network().placement(&values);
                let moves = problem.objective(&placement).unwrap()
                    - placement
                        .iter()
                        .enumerate()
                        .map(|(node, &device)| problem.cost(node, device))
                        .sum::<u64>()
                    - problem.launch(placement[0]);
                assert_eq!(own + moves, revised.cost());
            }
            spared += usize::from(revised.repeated() < 6 * revised.steps());
            revised.undo(start);
            assert_eq!(
                (revised.cost(), afresh(revised.network(), &order)),
                (before, before)
            );
        }
        assert!(spared > 30 && forbidden < 60, "{spared} {forbidden}");
    }
}
