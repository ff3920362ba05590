//! Wide networks: eliminates easy variables, reparametrises the remaining core, and solves
//! undecided variables by subproblems.
//!
//! Each round reparametrises the core (`reparametrise`) until an assignment costs little beyond the
//! constant, and settles the rest (`combilp`). Too wide subproblems are reparametrised further,
//! with their neighbours. Every few rounds, dead-end elimination removes values whose lower bound
//! is not below the best known assignment. (J. Desmet et al., The Dead-End Elimination Theorem and
//! Its Use in Protein Side-Chain Positioning, Nature 356, 1992; here by lower bounds of
//! min-marginals.)
//!
//! Invariants: a value is removed only if no assignment with it is below the best known one, so
//! that one, or the optimum of the rest, is the optimum of all; rounds are counted.
//! Deliberately not here: search if a gap stays open (`search`).

use super::around::{Around, cost_of};
use super::bound;
use super::combilp::{Labelling, Subproblems, Verdict, choose};
use super::eliminate::{Outcome, eliminate, eliminate_first, read_off};
use super::network::Network;
use super::order::{Order, TOTAL};
use super::reparametrise::reparametrise;
use crate::problem::{FORBIDDEN, add};

/// Maximum rounds of reparametrisation.
const ROUNDS: usize = 40;

/// Passes over the undecided variables in each round; over all variables at first and after values
/// were removed.
const PASSES: usize = 8;

/// Number of rounds between dead-end eliminations.
const LATER: usize = 8;

/// Growth factor of the subproblems' table limit per round.
const WIDER: u64 = 4;

/// The outcome of a network.
pub(super) enum Found {
    /// The minimum, with the index of each variable's value.
    Exact { values: Vec<u32>, cost: u64 },
    /// An assignment, and a lower bound of all.
    Open { values: Vec<u32>, bound: u64 },
    /// Every assignment uses a forbidden value or link.
    Infeasible,
}

/// The best known cost and its assignment, as values of the core before any was removed.
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

/// Minimises a network with no table above `table_limit` entries; variables with scopes in the
/// order are easy.
pub(super) fn solve(network: &Network, order: &Order, table_limit: u64) -> Found {
    let gone = eliminate_first(network, order);
    let mut kept = order.sequence[order.scopes.len()..].to_vec();
    kept.sort_unstable();
    let mut number = vec![0; network.variables() as usize];
    for (new, &v) in kept.iter().enumerate() {
        number[v as usize] = new as u32;
    }
    let mut left = gone.left;
    for v in left.iter_mut().flat_map(|factor| &mut factor.scope) {
        *v = number[*v as usize];
    }
    let mut core = network.rest(&kept, left, gone.cost);
    let mut best = Best {
        cost: FORBIDDEN,
        values: Vec::new(),
    };
    let unit = core.in_finer_units();
    let closed = close(&mut core, &mut best, table_limit, unit > 1);
    let mut bound = core.constant;
    if !closed {
        let (least, guess) = bound::split(&core, table_limit);
        bound = bound.max(least);
        best.see(&core, cost_of(&core, &guess), &guess);
    }
    if best.cost != FORBIDDEN {
        best.cost /= unit;
    }
    if bound != FORBIDDEN {
        // costs are multiples of the previous unit
        bound = bound.div_ceil(unit);
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
    if closed {
        Found::Exact {
            values,
            cost: best.cost,
        }
    } else {
        Found::Open {
            values,
            bound: bound.min(best.cost),
        }
    }
}

/// Reparametrises and settles until the best assignment is the optimum. Whether it is.
fn close(core: &mut Network, best: &mut Best, table_limit: u64, is_finer: bool) -> bool {
    let mut around = Around::new(core);
    let mut doubtful = around.order().to_vec();
    let mut chosen = vec![0; core.variables() as usize];
    let mut subproblems = Subproblems::new(core, table_limit.saturating_mul(TOTAL)).in_finer_units(is_finer);
    let mut times = 1u64;
    for round in 1..=ROUNDS {
        let constant = core.constant;
        times = times.saturating_mul(WIDER);
        let verdict = settled(
            core,
            &around,
            &doubtful,
            &mut chosen,
            &mut subproblems,
            [table_limit, times],
        );
        best.see(core, cost_of(core, &chosen), &chosen);
        match verdict {
            Verdict::Settled | Verdict::Infeasible => return true,
            Verdict::Wide(_) if core.constant >= best.cost => return true,
            Verdict::Wide(_) if subproblems.left == 0 => break,
            Verdict::Wide(variables) => doubtful = beside(core, &around, variables),
        }
        if core.constant > constant && !round.is_multiple_of(LATER) {
            continue;
        }
        let Some(keep) = without_dead_ends(core, &min_marginal_bounds(core), best.cost) else {
            return true;
        };
        let labels = core.own.len();
        *core = core.restricted(&keep);
        if core.constant == constant && core.own.len() == labels {
            break;
        }
        around = Around::new(core);
        doubtful = around.order().to_vec();
        chosen.fill(0);
        subproblems = Subproblems::new(core, subproblems.left).in_finer_units(is_finer);
    }
    match eliminate(core, table_limit) {
        Outcome::TooWide => false,
        outcome => {
            best.take(core, outcome);
            true
        }
    }
}

/// Reparametrises around the undecided variables and solves the subproblems left there; the limits
/// are those of a table and, in multiples of [`FEW`](super::order::FEW), of a subproblem's tables.
fn settled(
    core: &mut Network,
    around: &Around,
    doubtful: &[u32],
    chosen: &mut [u32],
    subproblems: &mut Subproblems,
    [table_limit, times]: [u64; 2],
) -> Verdict {
    reparametrise(core, around, doubtful, PASSES);
    if core.constant == FORBIDDEN {
        return Verdict::Infeasible;
    }
    choose(core, around, doubtful, chosen);
    let mut labelling = Labelling { core, around, chosen };
    subproblems.settle(&mut labelling, doubtful, table_limit, times)
}

/// The optimum of a network and its settled subproblems, within this many rounds; reparametrises
/// the network.
pub(super) fn settle_all(
    network: &mut Network,
    around: &Around,
    table_limit: u64,
    rounds: usize,
) -> Option<(Vec<u32>, Subproblems)> {
    let mut doubtful = around.order().to_vec();
    let mut chosen = vec![0; network.variables() as usize];
    let mut subproblems = Subproblems::new(network, table_limit.saturating_mul(TOTAL));
    let mut times = 1u64;
    for _ in 0..rounds {
        times = times.saturating_mul(WIDER);
        match settled(
            network,
            around,
            &doubtful,
            &mut chosen,
            &mut subproblems,
            [table_limit, times],
        ) {
            Verdict::Settled => return Some((chosen, subproblems)),
            Verdict::Infeasible => return None,
            Verdict::Wide(_) if subproblems.left == 0 => return None,
            Verdict::Wide(variables) => doubtful = beside(network, around, variables),
        }
    }
    None
}

/// Some variables and all variables that share a table with them, in the order of visits.
fn beside(core: &Network, around: &Around, mut variables: Vec<u32>) -> Vec<u32> {
    for at in 0..variables.len() {
        for meeting in around.of(variables[at]) {
            variables.extend_from_slice(&core.factors[meeting.factor as usize].scope);
        }
    }
    around.sort(&mut variables);
    variables
}

/// Per value of every variable, a lower bound of its min-marginal.
fn min_marginal_bounds(core: &Network) -> Vec<u64> {
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

/// Per variable, the values whose bound is below a limit; `None` if a variable has only dead ends.
fn without_dead_ends(core: &Network, bounds: &[u64], limit: u64) -> Option<Vec<Vec<usize>>> {
    let kept = |v: u32| {
        let slots = core.slots(v).enumerate();
        // the costs of a single value are part of the constant
        let kept: Vec<usize> = slots
            .filter(|&(_, slot)| core.count(v) == 1 || bounds[slot] < limit)
            .map(|(value, _)| value)
            .collect();
        (!kept.is_empty()).then_some(kept)
    };
    (0..core.variables()).map(kept).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::super::order::easy;
    use super::*;
    use crate::problem::{Moved, Problem, Source};

    /// Nodes that are read by some of the next few: wide for their number.
    pub(in crate::solve) fn problem(seed: u64, nodes: usize, reach: usize) -> Problem {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut below = |limit: u64| random.next_u64() % limit;
        let devices = 3;
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
            let left = reach.min(nodes - 1 - node) as u64;
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
    fn wide_search_matches_plain_elimination() {
        let (mut exact, mut infeasible, mut open) = (0, 0, 0);
        for seed in 0..200 {
            let problem = problem(seed, 17, 17);
            let domains = problem.domains();
            let network = Network::new(&problem, &domains, 10_000_000).unwrap();
            let optimum = match eliminate(&network, 10_000_000) {
                Outcome::Exact { cost, .. } => Some(cost),
                Outcome::Infeasible => None,
                Outcome::TooWide => panic!("seed {seed}: too wide to compare"),
            };
            // the larger limit closes every gap, the smaller leaves some
            for limit in [10_000_000, 60] {
                let value = |values: &[u32]| problem.objective(&network.placement(values));
                match solve(&network, &easy(&network, limit.min(256)), limit) {
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

    #[test]
    fn settled_subproblems_keep_the_optimum() {
        let (mut settled, mut other) = (0, 0);
        for seed in 0..120 {
            let problem = problem(seed, 80, 6);
            let network = Network::new(&problem, &problem.domains(), 10_000_000).unwrap();
            let optimum = match eliminate(&network, 10_000_000) {
                Outcome::Exact { cost, .. } => Some(cost),
                Outcome::Infeasible => None,
                Outcome::TooWide => panic!("seed {seed}: too wide to compare"),
            };
            // the smaller the tables may be, the more rounds it takes, and the fewer are settled
            for limit in [300, 5_000] {
                match solve(&network, &easy(&network, 30), limit) {
                    Found::Exact { values, cost } => {
                        let value = problem.objective(&network.placement(&values));
                        assert_eq!((Some(cost), value), (optimum, optimum), "seed {seed}");
                        settled += 1;
                    }
                    Found::Infeasible => {
                        assert_eq!(optimum, None, "seed {seed}");
                        other += 1;
                    }
                    Found::Open { bound, .. } => {
                        assert!(optimum.is_none_or(|optimum| bound <= optimum), "seed {seed}");
                        other += 1;
                    }
                }
            }
        }
        assert!(settled > 100, "{settled} {other}");
    }
}
