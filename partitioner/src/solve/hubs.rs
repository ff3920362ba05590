//! Branching over the devices of hubs: tensors that many nodes read (masks, rotary tables).
//!
//! A hub's set of devices would be in every table from its first reader to its last. Without the
//! hubs' transfers the problem is narrow, and its optimum is a lower bound. From there, each pair
//! of a hub and a device branches: either no reader of the hub is on the device, or the transfer to
//! it is paid regardless of the readers. The first branch mostly exceeds a known placement once the
//! device is forbidden for a few readers, which only repeats the steps of elimination around those
//! readers.
//!
//! Invariants: a branch is cut only if its bound reaches the value of a known placement, so the
//! result is as exact as elimination; steps are counted, and past a limit the remaining gap is
//! stated.
//! Deliberately not here: elimination itself (`eliminate`, `revise`).

use super::budget::Budget;
use super::network::Network;
use super::order::{FEW, order};
use super::revise::Revised;
use super::solution::Solution;
use crate::problem::{Domain, FORBIDDEN, Moved, Problem, Source};
use std::sync::Arc;

/// Minimum number of readers of a hub.
const MANY: usize = 12;

/// Maximum repetitions of all elimination steps.
const TIMES: usize = 60;

/// Number of readers for which a device is forbidden first; times four whenever that is too few.
const READERS: usize = 2;

/// Steps repeated per forbidden reader before more are forbidden.
const STEPS: usize = 64;

/// Solves a problem that is wide because of hubs; `None` without hubs, or if the rest is wide too.
pub(super) fn solve(problem: &Problem, domains: &[Domain], budget: &Budget) -> Option<Solution> {
    let hubs = hubs(problem);
    if hubs.is_empty() {
        return None;
    }
    settled(problem, domains, &hubs, budget)
}

/// Solves a problem with these tensors as hubs.
fn settled(problem: &Problem, domains: &[Domain], hubs: &[usize], budget: &Budget) -> Option<Solution> {
    let mut network = Network::without(problem, domains, hubs, budget.table)?;
    let order = order(&network, budget.table);
    if order.entries(&network)? > FEW * problem.nodes() as u64 {
        return None;
    }
    let tensors = problem.tensors();
    let hubs = hubs
        .iter()
        .map(|&hub| Hub::new(&tensors[hub], tensors[hub].transfer.clone(), domains));
    let revised = Revised::new(&mut network, &order);
    Tree::new(hubs.collect(), revised, |placement| problem.objective(placement)).solve()
}

/// The tensors that are hubs, ascending.
pub(super) fn hubs(problem: &Problem) -> Vec<usize> {
    let tensors = problem.tensors();
    (0..tensors.len())
        .filter(|&tensor| is_hub(&tensors[tensor]))
        .collect()
}

/// Whether many nodes read a tensor that can be transferred to every device.
fn is_hub(tensor: &Moved) -> bool {
    tensor.readers.len() >= MANY
        && tensor.transfer.iter().any(|&cost| cost > 0)
        && !tensor.transfer.contains(&FORBIDDEN)
}

/// A tensor whose transfers a network leaves out.
#[derive(Clone)]
pub(super) struct Hub {
    /// The node that writes it.
    source: Option<usize>,
    /// Its device for each value of that node; without a node, its only device.
    places: Vec<usize>,
    /// Readers with a choice, ascending.
    readers: Vec<usize>,
    /// Devices that have it in every placement.
    fixed: u32,
    /// Devices whose transfer is already charged.
    paid: u32,
    /// Costs from each device to each.
    pub(super) transfer: Arc<[u64]>,
}

impl Hub {
    /// A tensor with its transfers' costs.
    pub(super) fn new(tensor: &Moved, transfer: Arc<[u64]>, domains: &[Domain]) -> Self {
        let (source, places) = match tensor.source {
            Source::Node(node) => (Some(node), domains[node].to_vec()),
            Source::Device(device) => (None, vec![device]),
        };
        let mut fixed = tensor.home.map_or(0, |home| 1 << home);
        let mut readers = Vec::with_capacity(tensor.readers.len());
        for &reader in tensor.readers.iter().filter(|&&reader| source != Some(reader)) {
            match domains[reader][..] {
                [only] => fixed |= 1 << only,
                _ => readers.push(reader),
            }
        }
        Self {
            source,
            places,
            readers,
            fixed,
            paid: 0,
            transfer,
        }
    }

    /// The devices of its readers in a placement that are not charged yet.
    fn open(&self, placement: &[usize]) -> u32 {
        let from = self.source.map_or(self.places[0], |node| placement[node]);
        let readers = self.readers.iter();
        let used = readers.fold(0u32, |set, &reader| set | 1 << placement[reader]);
        used & !self.paid & !(1 << from)
    }
}

/// A hub and a device, by their numbers.
type Pair = (usize, usize);

/// Branch and bound over the pairs of a hub and a device.
pub(super) struct Tree<'a, V> {
    hubs: Vec<Hub>,
    revised: Revised<'a>,
    value: V,
    best: u64,
    placement: Vec<usize>,
    /// Steps left for repetition.
    most: usize,
}

impl<'a, V: Fn(&[usize]) -> Option<u64>> Tree<'a, V> {
    /// A network without hubs, the hubs, and the cost of a placement with them.
    pub(super) fn new(hubs: Vec<Hub>, revised: Revised<'a>, value: V) -> Self {
        Self {
            hubs,
            most: revised.steps() * TIMES,
            revised,
            value,
            best: FORBIDDEN,
            placement: Vec::new(),
        }
    }

    /// The best placement; `None` if no placement is allowed.
    pub(super) fn solve(mut self) -> Option<Solution> {
        for hub in 0..self.hubs.len() {
            self.pay(hub, self.hubs[hub].fixed);
        }
        self.revised.repeat(FORBIDDEN, usize::MAX);
        let bound = self.explore();
        (self.best != FORBIDDEN).then(|| Solution {
            bound: bound.min(self.best),
            placement: self.placement,
            objective: self.best,
        })
    }

    /// Searches for the best placement under the forbidden and paid pairs. Returns a lower bound of
    /// these placements, at least the best known value if nothing was skipped.
    fn explore(&mut self) -> u64 {
        loop {
            let placement = self.look();
            if self.revised.cost() >= self.best {
                return self.best;
            }
            if self.revised.repeated() > self.most {
                return self.revised.cost();
            }
            let open: Vec<Pair> = (0..self.hubs.len())
                .flat_map(|hub| bits(self.hubs[hub].open(&placement)).map(move |device| (hub, device)))
                .collect();
            let paid = self.hubs.iter().map(|hub| hub.paid).collect::<Vec<u32>>();
            let mark = self.revised.mark();
            // probably all of them are needed
            for &(hub, device) in &open {
                self.pay(hub, 1 << device);
            }
            self.revised.repeat(FORBIDDEN, usize::MAX);
            self.look();
            self.revised.undo(mark);
            self.restore(&paid);
            let mut needed: Vec<Pair> = Vec::with_capacity(open.len());
            for &pair in &open {
                if self.is_needed(pair, &placement) {
                    needed.push(pair);
                }
            }
            if needed.is_empty() {
                let Some(&(hub, device)) = open.first() else {
                    return self.revised.cost();
                };
                let cost = self.revised.cost();
                self.forbid(hub, device, 0, usize::MAX);
                if self.revised.repeat(self.best, usize::MAX) && self.revised.cost() < self.best {
                    let bound = self.explore();
                    if bound < self.best {
                        return cost;
                    }
                }
                self.revised.undo(mark);
                self.restore(&paid);
                needed.push((hub, device));
            }
            for (hub, device) in needed {
                self.pay(hub, 1 << device);
            }
            self.revised.repeat(FORBIDDEN, usize::MAX);
        }
    }

    /// Reads off the current placement and keeps it if it is the best.
    fn look(&mut self) -> Vec<usize> {
        let placement = self.revised.network().placement(&self.revised.values());
        if let Some(value) = (self.value)(&placement).filter(|&value| value < self.best) {
            self.best = value;
            self.placement.clone_from(&placement);
        }
        placement
    }

    /// Charges a hub's transfers to some devices, independent of its readers.
    fn pay(&mut self, hub: usize, devices: u32) {
        let Hub {
            source,
            places,
            paid,
            transfer,
            ..
        } = &mut self.hubs[hub];
        let new = devices & !*paid;
        *paid |= devices;
        let count = transfer.len().isqrt();
        for (value, &place) in places.iter().enumerate() {
            let by = bits(new).map(|device| transfer[place * count + device]).sum();
            match source {
                Some(node) => self.revised.raise(*node as u32, value, by),
                None => self.revised.raise_all(by),
            }
        }
    }

    fn restore(&mut self, paid: &[u32]) {
        for (hub, &paid) in self.hubs.iter_mut().zip(paid) {
            hub.paid = paid;
        }
    }

    /// Forbids a device to this many of a hub's readers.
    fn forbid(&mut self, hub: usize, device: usize, from: usize, count: usize) {
        let mask = device as u32;
        for &reader in self.hubs[hub].readers.iter().skip(from).take(count) {
            let values = self.revised.network().list(reader as u32);
            if let Some(value) = values.iter().position(|&value| value == mask) {
                self.revised.raise(reader as u32, value, FORBIDDEN);
            }
        }
    }

    /// Whether no placement without a hub's readers on a device beats the best known one.
    fn is_needed(&mut self, (hub, device): Pair, placement: &[usize]) -> bool {
        let mark = self.revised.mark();
        let readers = &self.hubs[hub].readers;
        let all = readers.len();
        let on = readers.iter().position(|&reader| placement[reader] == device);
        let mut count = READERS;
        loop {
            let from = on.unwrap_or(0).min(all.saturating_sub(count));
            self.forbid(hub, device, from, count);
            let steps = if count < all { count * STEPS } else { usize::MAX };
            self.revised.repeat(self.best, steps);
            let needed = self.revised.cost() >= self.best;
            self.revised.undo(mark);
            if needed || count >= all {
                return needed;
            }
            count *= 4;
        }
    }
}

/// The members of a set, ascending.
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (first < u32::BITS).then_some(first as usize)
    })
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::super::eliminate::{Outcome, eliminate};
    use super::*;

    const BUDGET: Budget = Budget {
        table: 10_000_000,
        moves: 100,
        seed: 0,
    };

    /// A chain of 40 nodes with two tensors that a third of the nodes read.
    fn problem(seed: u64) -> Problem {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |limit: u64| random.next_u64() % limit;
        let (nodes, devices) = (40, 3);
        let cost = (0..nodes * devices).map(|_| if below(8) == 0 { FORBIDDEN } else { below(200) });
        let mut cost: Vec<u64> = cost.collect();
        for row in cost
            .chunks_mut(devices)
            .filter(|row| row.iter().all(|&cost| cost == FORBIDDEN))
        {
            row[0] = 50;
        }
        let mut problem = Problem::new(cost, (0..devices).map(|_| below(60)).collect()).unwrap();
        for node in 0..nodes {
            let readers: Vec<usize> = match node {
                0 | 1 => (2..nodes).filter(|_| below(2) == 0).collect(),
                _ => (node + 1..nodes).take(1 + below(2) as usize).collect(),
            };
            let dear = 1 + below(if node < 2 { 300 } else { 100 });
            problem
                .push(Moved {
                    source: Source::Node(node),
                    readers,
                    home: (below(9) == 0).then_some(1),
                    transfer: (0..devices * devices).map(|_| below(dear)).collect(),
                })
                .unwrap();
        }
        problem
    }

    #[test]
    fn branching_over_hubs_keeps_the_optimum() {
        let mut open = 0;
        for seed in 0..100 {
            let problem = problem(seed);
            let domains = problem.domains();
            let network = Network::new(&problem, &domains, BUDGET.table).unwrap();
            let Outcome::Exact { cost: optimum, .. } = eliminate(&network, BUDGET.table) else {
                panic!("seed {seed}: not solved")
            };
            let solution = settled(&problem, &domains, &[0, 1], &BUDGET).unwrap();
            assert_eq!(
                (solution.objective, solution.bound),
                (optimum, optimum),
                "seed {seed}"
            );
            assert_eq!(problem.objective(&solution.placement), Some(optimum));
            let bare = Network::without(&problem, &domains, &[0, 1], BUDGET.table).unwrap();
            let Outcome::Exact { values, .. } = eliminate(&bare, BUDGET.table) else {
                panic!("seed {seed}: not solved")
            };
            open += u32::from(problem.objective(&bare.placement(&values)) != Some(optimum));
        }
        // where hubs change the placement, there was something to settle
        assert!(open > 30, "hubs changed {open} placements");
    }
}
