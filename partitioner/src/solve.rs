//! Solves a placement problem: exactly where the graph is narrow enough, else with a stated gap.
//!
//! Invariants: same problem and limits give the same placement on every host (ties go to the first
//! device, search is counted in seeded moves); `bound` never exceeds the objective of any placement,
//! and equals the objective of the returned one exactly when that is optimal.
//! Deliberately not here: memory limits, deadlines (`limit`) and merging (`merge`).
//!
//! Start reading at `network` (variables and factors), then `eliminate`. `wide` solves networks that are too wide for
//! elimination (`reparametrise`, then `combilp`), `hubs` branches over tensors that many nodes read. `min_marginals` prices
//! every node on every device, `conditioned` does so for one node at a time in wide problems.

mod around;
mod bound;
mod budget;
mod combilp;
mod conditioned;
mod dead_ends;
mod eliminate;
mod hubs;
mod min_marginals;
mod network;
mod order;
mod reparametrise;
mod revise;
mod search;
mod solution;
mod sweep;
mod wide;

use crate::error::{Error, Repr};
use crate::problem::{Domain, Problem};
use eliminate::Outcome;
use network::Network;
use wide::Found;

pub use budget::Budget;
pub(crate) use conditioned::{Conditioned, ForcedValue};
pub(crate) use min_marginals::MinMarginals;
pub use solution::Solution;
pub(crate) use sweep::Sweep;

/// Solves a problem.
///
/// # Errors
/// Sums that could overflow, a node that no device may run, or no placement that links allow.
pub fn solve(problem: &Problem, budget: &Budget) -> Result<Solution, Error> {
    problem.bounded()?;
    let mut domains = problem.domains();
    if let Some(node) = domains.iter().position(Domain::is_empty) {
        return Err(Repr::Infeasible(format!("node {node} is forbidden on every device")).into());
    }
    dead_ends::remove(problem, &mut domains);
    let infeasible = || {
        Error::from(Repr::Infeasible(
            "every placement needs a link that is missing".to_owned(),
        ))
    };
    let hubs = hubs::solve(problem, &domains, budget);
    if let Some(solution) = hubs
        .as_ref()
        .filter(|solution| solution.objective == solution.bound)
    {
        return Ok(solution.clone());
    }
    let network = Network::new(problem, &domains, budget.table);
    let exact = |network: &Network, values: &[u32], cost: u64| {
        let placement = network.placement(values);
        debug_assert_eq!(problem.objective(&placement), Some(cost));
        Ok(Solution {
            placement,
            objective: cost,
            bound: cost,
        })
    };
    let (bound, guess) = match &network {
        Some(network) => {
            let order = order::light(network, budget.table);
            if order.narrow {
                return match eliminate::eliminate_in(network, &order) {
                    Outcome::Exact { values, cost } => exact(network, &values, cost),
                    Outcome::Infeasible | Outcome::TooWide => Err(infeasible()),
                };
            }
            match wide::solve(network, &order, budget.table) {
                Found::Exact { values, cost } => return exact(network, &values, cost),
                Found::Infeasible => return Err(infeasible()),
                Found::Open { values, bound } => (bound, network.placement(&values)),
            }
        }
        None => bound::cheapest(problem, &domains),
    };
    if let Some(solution) = hubs {
        return Ok(solution);
    }
    let (placement, objective) = search::search(problem, guess, bound, budget).ok_or_else(infeasible)?;
    Ok(Solution {
        placement,
        objective,
        bound: bound.min(objective),
    })
}
