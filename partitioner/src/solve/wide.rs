//! Wide networks: what is easy is eliminated, the core that is left is bounded, and values that cannot be part of a
//! better assignment are struck out until elimination can do the rest.
//!
//! Each round moves costs between the core's tables (`tighten`), which gives every value of every variable a bound
//! that no assignment with it is below. The values with the least bounds are solved by themselves: that is the optimum
//! of all where it is not above the bound of any other value. If not, every value whose bound is not below the best
//! assignment known is struck out. Inference graphs have dual bounds that meet the optimum or nearly so.
//!
//! Invariants: a value is struck out only where no assignment with it is below the best known one, so that one or the
//! optimum of what is left is the optimum of all; rounds are counted.
//! Deliberately not here: search where a gap stays open (`search`).

use super::bound;
use super::eliminate::{Outcome, eliminate, eliminate_first, eliminate_in, read_off};
use super::network::Network;
use super::order::{Order, light, start};
use super::tighten::tighten;
use crate::problem::{FORBIDDEN, add};

/// Variables whose tables have so many entries at most are eliminated before anything else.
const SMALL: u64 = 256;

/// Rounds of tightening and striking out.
const ROUNDS: usize = 40;

/// Passes over all variables in one round.
const PASSES: usize = 6;

/// A guess keeps the best value of each variable, and one further value for so many variables.
const SHARE: usize = 4;

/// What became of a network.
pub(super) enum Found {
    /// The minimum, with the index of each variable's value.
    Exact { values: Vec<u32>, cost: u64 },
    /// An assignment, and what none is below.
    Open { values: Vec<u32>, bound: u64 },
    /// Every assignment uses something forbidden.
    Infeasible,
}

/// The least cost known and the assignment that has it, as values of the core before any was struck out.
struct Best {
    cost: u64,
    values: Vec<u32>,
}

impl Best {
    fn take(&mut self, core: &Network, outcome: Outcome) {
        if let Outcome::Exact { values, cost } = outcome {
            self.see(core, cost, &values);
        }
    }

    fn see(&mut self, core: &Network, cost: u64, chosen: &[u32]) {
        if cost < self.cost {
            self.cost = cost;
            let value = |(v, &at): (usize, &u32)| core.list(v as u32)[at as usize];
            self.values = chosen.iter().enumerate().map(value).collect();
        }
    }
}

/// Minimises a network with no table of more than `table_limit` entries.
pub(super) fn solve(network: &Network, table_limit: u64) -> Found {
    solve_in(network, &easy_part(network, table_limit), table_limit)
}

/// The order in which what is easy goes; it depends on the scopes alone.
pub(super) fn easy_part(network: &Network, table_limit: u64) -> Order {
    start(network, SMALL.min(table_limit))
}

/// The same where that order is known.
pub(super) fn solve_in(network: &Network, order: &Order, table_limit: u64) -> Found {
    let gone = eliminate_first(network, order);
    let mut kept = order.sequence[order.scopes.len()..].to_vec();
    kept.sort_unstable();
    let mut core = network.rest(&kept, gone.left, gone.cost);
    let mut best = Best {
        cost: FORBIDDEN,
        values: Vec::new(),
    };
    let closed = close(&mut core, &mut best, table_limit);
    let mut bound = core.constant;
    if !closed {
        let (least, guess) = bound::split(&core, table_limit);
        bound = bound.max(least);
        best.see(&core, cost_of(&core, &guess), &guess);
    }
    if best.cost == FORBIDDEN && (closed || bound == FORBIDDEN) {
        return Found::Infeasible;
    }
    let mut values = vec![0; network.variables() as usize];
    if best.cost != FORBIDDEN {
        for (&v, &value) in kept.iter().zip(&best.values) {
            values[v as usize] = value;
        }
    }
    read_off(network, order, &gone.best, &mut values);
    match closed {
        true => Found::Exact {
            values,
            cost: best.cost,
        },
        false => Found::Open { values, bound },
    }
}

/// Guesses and strikes out values until the best assignment is the optimum; whether that was reached.
fn close(core: &mut Network, best: &mut Best, table_limit: u64) -> bool {
    let mut tried = usize::MAX;
    for _ in 0..ROUNDS {
        let (labels, constant) = (core.own.len(), core.constant);
        if labels < tried - tried / 10 {
            tried = labels;
            if let Some(outcome) = easy(core, table_limit) {
                best.take(core, outcome);
                return true;
            }
        }
        tighten(core, PASSES);
        let bounds = bounds(core);
        if core.constant >= best.cost || guess(core, &bounds, best, table_limit) {
            return true;
        }
        let Some(keep) = below(core, &bounds, best.cost) else {
            return true;
        };
        *core = core.restricted(&keep);
        if core.constant == constant && core.own.len() == labels {
            break;
        }
    }
    match eliminate(core, table_limit) {
        Outcome::TooWide => false,
        outcome => {
            best.take(core, outcome);
            true
        }
    }
}

/// The minimum where it takes few entries.
fn easy(core: &Network, table_limit: u64) -> Option<Outcome> {
    light(core, table_limit).map(|order| eliminate_in(core, &order))
}

/// Per value of every variable, what no assignment with it is below.
fn bounds(core: &Network) -> Vec<u64> {
    let mut bounds: Vec<u64> = core.own.iter().map(|&own| add(own, core.constant)).collect();
    for factor in &core.factors {
        let least = core.least(factor);
        for (&v, least) in factor.scope.iter().zip(least) {
            for (bound, least) in core.slots(v).zip(least) {
                bounds[bound] = add(bounds[bound], least);
            }
        }
    }
    bounds
}

/// Per variable the values whose bound is below a limit; none where a variable has no such value.
fn below(core: &Network, bounds: &[u64], limit: u64) -> Option<Vec<Vec<usize>>> {
    let kept = |v: u32| {
        let slots = core.slots(v).enumerate();
        // the costs of an only value are part of the constant
        let kept: Vec<usize> = slots
            .filter(|&(_, slot)| core.count(v) == 1 || bounds[slot] < limit)
            .map(|(value, _)| value)
            .collect();
        (!kept.is_empty()).then_some(kept)
    };
    (0..core.variables()).map(kept).collect()
}

/// Solves the network of the values with the least bounds; whether that is the optimum, because no other value is
/// part of anything better.
fn guess(core: &Network, bounds: &[u64], best: &mut Best, table_limit: u64) -> bool {
    let open = || (0..core.variables()).filter(|&v| core.count(v) > 1);
    let mut further = Vec::with_capacity(core.own.len());
    for v in open() {
        let values = &bounds[core.slots(v)];
        let first = values.iter().enumerate().min_by_key(|&(at, &bound)| (bound, at));
        let first = first.map(|(at, _)| at);
        further.extend(
            values
                .iter()
                .enumerate()
                .filter(|&(at, _)| Some(at) != first)
                .map(|(_, &bound)| bound),
        );
    }
    further.sort_unstable();
    let mut share = SHARE;
    while share <= 64 * SHARE {
        let limit = further.get(open().count() / share).copied().unwrap_or(FORBIDDEN);
        let keep: Vec<Vec<usize>> = (0..core.variables())
            .map(|v| {
                let values = &bounds[core.slots(v)];
                let least = values.iter().copied().min().unwrap_or(0);
                let kept = |&at: &usize| values.len() == 1 || values[at] < limit || values[at] == least;
                (0..values.len()).filter(kept).collect()
            })
            .collect();
        let narrowed = core.restricted(&keep);
        match easy(&narrowed, table_limit) {
            Some(outcome) => {
                best.take(&narrowed, outcome);
                return best.cost <= limit;
            }
            None => share *= 4,
        }
    }
    false
}

/// The cost of an assignment.
fn cost_of(core: &Network, chosen: &[u32]) -> u64 {
    let own = |v: u32| match core.count(v) {
        1 => 0,
        _ => core.own(v)[chosen[v as usize] as usize],
    };
    let sum = (0..core.variables()).fold(core.constant, |sum, v| add(sum, own(v)));
    core.factors.iter().fold(sum, |sum, factor| {
        let place = factor.scope.iter().fold(0usize, |place, &v| {
            place * core.count(v) + chosen[v as usize] as usize
        });
        add(sum, factor.table[place])
    })
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::problem::{Moved, Problem, Source};

    /// Nodes that read any before them: wide for their number.
    fn problem(seed: u64) -> Problem {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |limit: u64| random.next_u64() % limit;
        let (nodes, devices) = (17, 3);
        // some links are missing, and nodes that need one, so that some problems have no solution
        let missing = seed.is_multiple_of(7);
        let forbidden = if seed.is_multiple_of(5) { 2 } else { 9 };
        let cost = (0..nodes * devices).map(|_| {
            if below(forbidden) == 0 {
                FORBIDDEN
            } else {
                below(90)
            }
        });
        let mut cost: Vec<u64> = cost.collect();
        for row in cost.chunks_mut(devices) {
            let sure = if missing { below(3) as usize } else { 0 };
            row[sure] = row[sure].min(80);
        }
        let mut problem = Problem::new(cost, (0..devices).map(|_| below(20)).collect()).unwrap();
        for node in 0..nodes - 1 {
            let left = (nodes - 1 - node) as u64;
            let readers = (0..1 + below(4))
                .map(|_| node + 1 + below(left) as usize)
                .collect();
            let cost = |_| {
                if missing && below(4) == 0 {
                    FORBIDDEN
                } else {
                    below(70)
                }
            };
            let transfer = (0..devices * devices).map(cost).collect();
            let tensor = Moved {
                source: Source::Node(node),
                readers,
                home: None,
                transfer,
            };
            problem.push(tensor).unwrap();
        }
        problem
    }

    #[test]
    fn wide_networks_have_the_optimum_of_plain_elimination() {
        let (mut exact, mut infeasible, mut open) = (0, 0, 0);
        for seed in 0..120 {
            let problem = problem(seed);
            let domains: Vec<Vec<usize>> = (0..problem.nodes()).map(|node| problem.allowed(node)).collect();
            let network = Network::new(&problem, &domains, 10_000_000).unwrap();
            let optimum = match eliminate(&network, 10_000_000) {
                Outcome::Exact { cost, .. } => Some(cost),
                Outcome::Infeasible => None,
                Outcome::TooWide => panic!("seed {seed}: too wide to compare"),
            };
            // the larger limit closes every gap, the smaller leaves some
            for limit in [10_000_000, 60] {
                let value = |values: &[u32]| problem.objective(&network.placement(values));
                match solve(&network, limit) {
                    Found::Exact { values, cost } => {
                        assert_eq!((Some(cost), value(&values)), (optimum, optimum), "seed {seed}");
                        exact += 1;
                    }
                    Found::Infeasible => {
                        assert_eq!(optimum, None, "seed {seed}");
                        infeasible += 1;
                    }
                    Found::Open { values, bound } => {
                        assert_eq!(limit, 60, "seed {seed}");
                        assert!(optimum.is_none_or(|optimum| bound <= optimum), "seed {seed}");
                        assert!(
                            value(&values).is_none_or(|value| Some(value) >= optimum),
                            "seed {seed}"
                        );
                        open += 1;
                    }
                }
            }
        }
        assert!(
            exact > 80 && infeasible > 5 && open > 5,
            "{exact} {infeasible} {open}"
        );
    }
}
