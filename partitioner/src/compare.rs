//! Two simple placement rules of other runtimes, for comparison with plans; never used to plan.
//!
//! Invariants: both are priced with the same objective as plans. Deliberately not here: any
//! improvement of these rules.

use crate::error::Error;
use crate::instance::{Inputs, Weights};
use crate::objective::{Goal, Objective};
use crate::problem::FORBIDDEN;
use crate::request::Request;
use schemars::JsonSchema;
use serde::Serialize;

/// The cost of a simple placement rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The rule.
    pub rule: String,
    /// The objective's value, in the objective's own units; none if the placement is impossible.
    pub objective: Option<u64>,
    /// Device of every node, by index.
    pub placement: Vec<usize>,
}

impl Comparison {
    /// The rule's cost as text, relative to the plan's objective `ours`. Placements of rules run
    /// serially, as in the runtimes that use them.
    #[must_use]
    pub fn words(&self, ours: u64, objective: &Objective) -> String {
        let quantity = objective.quantity();
        let turns = match objective.goal {
            Goal::Serial => "",
            Goal::Makespan | Goal::Throughput => ", run serially",
        };
        match self.objective {
            Some(value) if ours > 0 => {
                let ratio = u128::from(value) * 1000 / u128::from(ours);
                format!(
                    "{}.{:03} times as much {quantity}{turns}",
                    ratio / 1000,
                    ratio % 1000
                )
            }
            Some(value) => format!("{} against none{turns}", objective.words(value)),
            None => "not possible".to_owned(),
        }
    }
}

/// Places each node on the first device of a priority list that supports it, like ONNX Runtime,
/// LiteRT and OpenVINO HETERO; unlisted devices come last.
///
/// # Errors
/// As for [`partition`](crate::partition()).
pub fn greedy_by_priority(request: Request<'_>, priority: &[usize]) -> Result<Comparison, Error> {
    let inputs = Inputs::new(request)?;
    let rank = |device: usize| {
        priority
            .iter()
            .position(|&other| other == device)
            .unwrap_or(priority.len())
    };
    let names: Vec<&str> = priority
        .iter()
        .filter_map(|&device| Some(request.targets.get(device)?.name.as_str()))
        .collect();
    by_rule(&inputs, format!("priority {}", names.join(" > ")), |_, device| {
        rank(device) as u64
    })
}

/// Places each node where it alone is cheapest.
///
/// # Errors
/// As for [`partition`](crate::partition()).
pub fn cheapest_per_node(request: Request<'_>) -> Result<Comparison, Error> {
    let inputs = Inputs::new(request)?;
    by_rule(&inputs, "cheapest per node".to_owned(), |cost, _| cost)
}

fn by_rule(inputs: &Inputs<'_>, rule: String, key: impl Fn(u64, usize) -> u64) -> Result<Comparison, Error> {
    let problem = inputs.problem(Weights::of(inputs.objective))?;
    problem.bounded()?;
    let choose = |node: usize| {
        let allowed = (0..problem.devices()).filter(|&device| problem.cost(node, device) != FORBIDDEN);
        allowed
            .min_by_key(|&device| (key(problem.cost(node, device), device), device))
            .expect("invariant: every node has a device, or the problem is an error")
    };
    let placement: Vec<usize> = (0..problem.nodes()).map(choose).collect();
    Ok(Comparison {
        rule,
        objective: problem.objective(&placement),
        placement,
    })
}
