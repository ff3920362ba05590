//! Conditioned min-marginals of a wide problem: the least value with one node forced onto one
//! device, one query at a time.
//!
//! The network of all devices is reparametrised and settled once. Forcing a node changes only its
//! surroundings: these form a subproblem, solved and grown like the others, and undone afterwards.
//!
//! Invariants: values equal those of `solve` on the same problem with the node forced; after each
//! query the network, its assignment and its subproblems are unchanged.
//! Deliberately not here: narrow problems (`min_marginals` answers all queries at once).

use super::around::{Around, cost_of, entry};
use super::combilp::{Labelling, Subproblems, Verdict};
use super::min_marginals::surroundings;
use super::network::Network;
use super::wide::settle_all;
use crate::problem::{FORBIDDEN, Problem, add};

/// Maximum rounds of reparametrisation.
const ROUNDS: usize = 12;

/// Maximum entries of one table of a subproblem around a forced node.
const TABLE: u64 = 1 << 18;

/// Entries per variable of such a subproblem, in multiples of [`FEW`](super::order::FEW).
const TIMES: u64 = 16;

/// Upper limit of the cost of all nodes on devices that refuse them, so that no sum overflows.
const MOST: u64 = 1 << 62;

/// Maximum table entries of the subproblems of one query.
const EACH: u64 = 1 << 23;

/// Maximum table entries of all queries together.
const ENTRIES: u64 = 1 << 31;

/// The least cost of a problem with one node forced to one device, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForcedValue {
    /// The least value.
    Value(u64),
    /// Links do not allow it.
    Impossible,
    /// Computing it would take too long.
    Unknown,
}

/// A solved wide problem, which answers queries about forced nodes.
pub(crate) struct Conditioned {
    network: Network,
    around: Around,
    subproblems: Subproblems,
    /// The optimum, and the assignment of the current query.
    optimum: Vec<u32>,
    chosen: Vec<u32>,
    least: u64,
    /// Per node and device, its own cost in the network.
    own: Vec<u64>,
    devices: usize,
    /// The cost from which an assignment has a node on a device that refuses it.
    refused: u64,
    /// Table entries left for later queries.
    left: u64,
}

impl Conditioned {
    /// `None` if the problem is not settled with tables of this size.
    pub(crate) fn of(problem: &Problem, table_limit: u64) -> Option<Self> {
        let (nodes, devices) = (problem.nodes(), problem.devices());
        // a device that refuses a node costs more than everything else, so that queries include it
        let refused = u64::try_from(problem.dearest()).ok()?.checked_add(1)?;
        if devices == 1 || refused > MOST / (nodes as u64 + 1) {
            return None;
        }
        let mut network = surroundings(problem, table_limit)?;
        let mut own = Vec::with_capacity(nodes * devices);
        for node in 0..nodes {
            for (device, slot) in network.own_mut(node as u32).iter_mut().enumerate() {
                let cost = match problem.cost(node, device) {
                    FORBIDDEN => refused,
                    cost => cost,
                };
                own.push(cost);
                *slot = add(*slot, cost);
            }
        }
        let around = Around::new(&network);
        let (optimum, mut subproblems) = settle_all(&mut network, &around, table_limit, ROUNDS)?;
        subproblems.keep();
        let least = cost_of(&network, &optimum);
        (least < refused).then_some(Self {
            least,
            refused,
            left: ENTRIES,
            chosen: optimum.clone(),
            optimum,
            network,
            around,
            subproblems,
            own,
            devices,
        })
    }

    /// The least value with a node on a device at this cost.
    pub(crate) fn ask(&mut self, node: usize, device: usize, cost: u64) -> ForcedValue {
        let each = EACH.min(self.left);
        if each == 0 {
            return ForcedValue::Unknown;
        }
        self.subproblems.left = each;
        let v = node as u32;
        let own = self.network.own(v).to_vec();
        for (at, slot) in self.network.own_mut(v).iter_mut().enumerate() {
            if at != device {
                *slot = FORBIDDEN;
            }
        }
        self.chosen[node] = device as u32;
        let mut labelling = Labelling {
            core: &self.network,
            around: &self.around,
            chosen: &mut self.chosen,
        };
        let verdict = self.subproblems.settle(&mut labelling, &[v], TABLE, TIMES);
        self.left -= each - self.subproblems.left;
        self.network.own_mut(v).copy_from_slice(&own);
        let answer = match verdict {
            Verdict::Settled => {
                let own = i128::from(self.own[node * self.devices + device]);
                let around = i128::from(self.least) + self.change() - own;
                match u64::try_from(around) {
                    Ok(around) if around < self.refused => ForcedValue::Value(add(around, cost)),
                    _ => ForcedValue::Impossible,
                }
            }
            Verdict::Infeasible => ForcedValue::Impossible,
            Verdict::Wide(_) => ForcedValue::Unknown,
        };
        for &v in self.subproblems.touched() {
            self.chosen[v as usize] = self.optimum[v as usize];
        }
        self.subproblems.go_back();
        answer
    }

    /// The cost of the current assignment above the optimum.
    fn change(&mut self) -> i128 {
        let touched = self.subproblems.touched().to_vec();
        let labelling = Labelling {
            core: &self.network,
            around: &self.around,
            chosen: &mut self.chosen,
        };
        let tables = self.subproblems.tables(&labelling, &touched);
        let tables = tables.into_iter().map(|table| {
            i128::from(labelling.entry(table)) - i128::from(entry(&self.network, table, &self.optimum))
        });
        let own = |v: u32, chosen: &[u32]| i128::from(self.network.own(v)[chosen[v as usize] as usize]);
        let alone = touched
            .iter()
            .map(|&v| own(v, labelling.chosen) - own(v, &self.optimum));
        tables.sum::<i128>() + alone.sum::<i128>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Budget, solve};
    use super::*;
    use crate::solve::wide::tests::problem;

    #[test]
    fn forced_node_costs_match_replanning() {
        let budget = Budget {
            table: 10_000_000,
            moves: 0,
            seed: 0,
        };
        let (mut values, mut impossible, mut unknown) = (0, 0, 0);
        for seed in 0..40 {
            let problem = problem(seed, 40, 5);
            let Some(mut conditioned) = Conditioned::of(&problem, budget.table) else {
                assert!(solve(&problem, &budget).is_err(), "seed {seed}: not settled");
                continue;
            };
            for node in 0..problem.nodes() {
                let device = (node + seed as usize) % problem.devices();
                let cost = match problem.cost(node, device) {
                    FORBIDDEN => 33,
                    cost => cost,
                };
                let mut forced = problem.clone();
                for other in 0..problem.devices() {
                    forced.set_cost(node, other, if other == device { cost } else { FORBIDDEN });
                }
                let plan = solve(&forced, &budget);
                match conditioned.ask(node, device, cost) {
                    ForcedValue::Value(value) => {
                        assert_eq!(
                            Some(value),
                            plan.ok().map(|plan| plan.objective),
                            "seed {seed} node {node}"
                        );
                        values += 1;
                    }
                    ForcedValue::Impossible => {
                        assert!(plan.is_err(), "seed {seed} node {node}");
                        impossible += 1;
                    }
                    ForcedValue::Unknown => unknown += 1,
                }
            }
        }
        assert!(
            values > 1_000 && impossible > 10 && unknown < 20,
            "{values} {impossible} {unknown}"
        );
    }
}
