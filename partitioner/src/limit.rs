//! Keeps a placement within memory limits, a deadline and an energy budget.
//!
//! Invariants: a placement is returned only if it keeps to every limit, but for a deadline that none was found to
//! meet: then it is the fastest; its bound holds for all
//! placements that do; the number of solver calls is bounded, never the time.
//! Deliberately not here: optimality under limits: where one binds, a gap may be left, and is stated.

use crate::assemble::assemble;
use crate::error::{Error, Repr};
use crate::instance::{Inputs, Weights, indices};
use crate::measured::solve_with_parts;
use crate::merge;
use crate::objective::Objective;
use crate::plan::{Certificate, Plan};
use crate::problem::{FORBIDDEN, Problem};
use crate::solve::{Limits, Solution};
use polychip_graph::NodeId;
use std::collections::BTreeSet;

/// Own weights are scaled by this, so that a limit's price can be smaller than one.
const SCALE: u64 = 1 << 12;

/// Most doublings of a price.
const DOUBLINGS: u32 = 32;

/// Steps of bisection once a price is known to be enough.
const BISECTIONS: u32 = 8;

/// What the limits cost: price of a picosecond, of a nanojoule, and per device of a byte.
#[derive(Clone, Debug, Default)]
struct Prices {
    time: u64,
    energy: u64,
    bytes: Vec<u64>,
}

struct Attempt {
    placement: Vec<usize>,
    /// Value under the objective's own weights.
    value: u64,
    bound: u64,
    over: Vec<Over>,
}

/// A limit that a placement exceeds.
pub(crate) struct Over {
    what: String,
    limit: String,
    seen: String,
    kind: Kind,
}

impl Over {
    fn error(self) -> Error {
        Repr::OverLimit {
            what: self.what,
            limit: self.limit,
            seen: self.seen,
        }
        .into()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Time,
    Energy,
    Memory(usize),
}

/// The best placement found that keeps to every limit.
pub(crate) fn place(inputs: &Inputs<'_>, edges: &[(usize, usize)]) -> Result<Solution, Error> {
    let objective = inputs.objective;
    let unlimited = objective.deadline.is_none()
        && objective.energy_budget.is_none()
        && inputs.targets.iter().all(|target| target.memory_limit.is_none());
    if unlimited && inputs.costs.parts().next().is_none() {
        // costs add up and nothing can be exceeded
        let weights = Weights::of(objective);
        return solve_with_parts(inputs, weights, &inputs.problem(weights)?, &settings(inputs));
    }
    let mut prices = Prices {
        bytes: vec![0; inputs.targets.len()],
        ..Prices::default()
    };
    let first = attempt(inputs, edges, &prices)?;
    if first.over.is_empty() {
        return Ok(Solution {
            placement: first.placement,
            objective: first.value,
            bound: first.bound,
        });
    }
    let without_limits = first.bound;
    let mut bound = without_limits;
    let mut best: Option<(u64, Vec<usize>)> = None;
    let mut closest = first;
    for _ in 0..DOUBLINGS {
        // whatever is exceeded gets dearer
        let before = prices.clone();
        for over in &closest.over {
            let price = match over.kind {
                Kind::Time => &mut prices.time,
                Kind::Energy => &mut prices.energy,
                Kind::Memory(device) => &mut prices.bytes[device],
            };
            *price = price
                .saturating_mul(2)
                .max(if matches!(over.kind, Kind::Memory(_)) {
                    1
                } else {
                    SCALE / 64
                });
        }
        let Ok(next) = attempt(inputs, edges, &prices) else {
            break;
        };
        bound = bound.max(next.bound);
        closest = next;
        if closest.over.is_empty() {
            best = Some((closest.value, closest.placement.clone()));
            (bound, best) = bisect(inputs, edges, before, prices, bound, best)?;
            break;
        }
    }
    match best {
        Some((value, placement)) => Ok(Solution {
            placement,
            objective: value,
            bound: bound.min(value),
        }),
        None if inputs.objective.deadline.is_some() => fastest(inputs, edges, without_limits),
        None => {
            let over = closest.over.into_iter().next();
            Err(over.expect("invariant: no attempt kept to the limits").error())
        }
    }
}

/// The fastest placement within all other limits, for a deadline that nothing else was found to meet. Its bound is
/// that of all placements: none is known to keep to the deadline.
fn fastest(inputs: &Inputs<'_>, edges: &[(usize, usize)], bound: u64) -> Result<Solution, Error> {
    let objective = Objective {
        energy_budget: inputs.objective.energy_budget,
        ..Objective::latency()
    };
    let found = place(&inputs.under(&objective), edges)?;
    let plan = assemble_runs(inputs, edges, &found.placement)?;
    let own = Weights::of(inputs.objective);
    let value = own.value(plan.totals.time, plan.totals.energy.unwrap_or_default());
    Ok(Solution {
        placement: found.placement,
        objective: value,
        bound: bound.min(value),
    })
}

type Best = (u64, Option<(u64, Vec<usize>)>);

/// Looks for the least prices that keep to the limits, between some that do not and some that do.
fn bisect(
    inputs: &Inputs<'_>,
    edges: &[(usize, usize)],
    mut low: Prices,
    mut high: Prices,
    mut bound: u64,
    mut best: Option<(u64, Vec<usize>)>,
) -> Result<Best, Error> {
    let middle = |a: u64, b: u64| a + (b - a) / 2;
    for _ in 0..BISECTIONS {
        let bytes = low
            .bytes
            .iter()
            .zip(&high.bytes)
            .map(|(&a, &b)| middle(a, b))
            .collect();
        let prices = Prices {
            time: middle(low.time, high.time),
            energy: middle(low.energy, high.energy),
            bytes,
        };
        let next = attempt(inputs, edges, &prices)?;
        bound = bound.max(next.bound);
        if next.over.is_empty() {
            if best.as_ref().is_none_or(|(value, _)| next.value < *value) {
                best = Some((next.value, next.placement));
            }
            high = prices;
        } else {
            low = prices;
        }
    }
    Ok((bound, best))
}

/// The solver's settings.
fn settings(inputs: &Inputs<'_>) -> Limits {
    Limits {
        table: inputs.options.table_limit,
        moves: inputs.options.moves,
        seed: inputs.options.seed,
    }
}

/// Solves under prices and sees which limits the result exceeds.
fn attempt(inputs: &Inputs<'_>, edges: &[(usize, usize)], prices: &Prices) -> Result<Attempt, Error> {
    let limits = settings(inputs);
    let own = Weights::of(inputs.objective);
    let free = prices.time == 0 && prices.energy == 0 && prices.bytes.iter().all(|&price| price == 0);
    let scale = if free { 1 } else { SCALE };
    let weights = Weights {
        time: own.time.saturating_mul(scale).saturating_add(prices.time),
        energy: own.energy.saturating_mul(scale).saturating_add(prices.energy),
    };
    let mut problem = inputs.problem(weights)?;
    for (device, &price) in prices.bytes.iter().enumerate().filter(|&(_, &price)| price > 0) {
        charge_bytes(inputs, &mut problem, device, price);
    }
    let solution = solve_with_parts(inputs, weights, &problem, &limits)?;
    let plan = assemble_runs(inputs, edges, &solution.placement)?;
    let value = own.value(plan.totals.time, plan.totals.energy.unwrap_or_default());
    // prices on bytes do not add up as the limit counts them, so they give no bound
    let bound = if free {
        solution.bound
    } else if prices.bytes.iter().any(|&price| price > 0) {
        0
    } else {
        let deadline = inputs.objective.deadline.map_or(0, |limit| limit.picoseconds());
        let budget = inputs
            .objective
            .energy_budget
            .map_or(0, |limit| limit.nanojoules());
        let paid =
            u128::from(prices.time) * u128::from(deadline) + u128::from(prices.energy) * u128::from(budget);
        (u128::from(solution.bound)
            .saturating_sub(paid)
            .div_ceil(u128::from(scale)))
        .try_into()
        .unwrap_or(0)
    };
    Ok(Attempt {
        over: exceeded(inputs, &plan),
        value,
        bound,
        placement: solution.placement,
    })
}

/// The plan of a placement before merging.
fn assemble_runs(inputs: &Inputs<'_>, edges: &[(usize, usize)], placement: &[usize]) -> Result<Plan, Error> {
    let runs = merge::parts(placement, edges, false, |_, _, _| false);
    assemble(
        inputs,
        &runs,
        placement,
        Certificate {
            objective: 0,
            bound: 0,
        },
    )
}

/// The first limit that a placement exceeds, in words.
pub(crate) fn broken_limit(
    inputs: &Inputs<'_>,
    edges: &[(usize, usize)],
    placement: &[usize],
) -> Option<String> {
    let plan = assemble_runs(inputs, edges, placement).ok()?;
    let over = exceeded(inputs, &plan).into_iter().next()?;
    Some(format!(
        "{}: limit {}, would need {}",
        over.what, over.limit, over.seen
    ))
}

/// The error of a plan that exceeds a limit.
pub(crate) fn over(inputs: &Inputs<'_>, plan: &Plan) -> Error {
    let over = exceeded(inputs, plan).into_iter().next();
    over.expect("invariant: the plan exceeds a limit").error()
}

/// Whether a plan exceeds its deadline and nothing else.
pub(crate) fn is_only_late(inputs: &Inputs<'_>, plan: &Plan) -> bool {
    exceeded(inputs, plan).iter().all(|over| over.kind == Kind::Time)
}

/// What a plan exceeds.
pub(crate) fn exceeded(inputs: &Inputs<'_>, plan: &Plan) -> Vec<Over> {
    let mut over = Vec::new();
    let time = plan.time();
    if let Some(deadline) = inputs.objective.deadline
        && time > deadline
    {
        let (limit, seen) = (deadline.to_string(), time.to_string());
        over.push(Over {
            what: "deadline".to_owned(),
            limit,
            seen,
            kind: Kind::Time,
        });
    }
    if let (Some(budget), Some(energy)) = (inputs.objective.energy_budget, plan.totals.energy)
        && energy > budget
    {
        let (limit, seen) = (budget.to_string(), energy.to_string());
        over.push(Over {
            what: "energy budget".to_owned(),
            limit,
            seen,
            kind: Kind::Energy,
        });
    }
    for (device, target) in inputs.targets.iter().enumerate() {
        if let Some(limit) = target.memory_limit
            && plan.memory_bytes[device] > limit
        {
            over.push(Over {
                what: format!("memory of {}", target.name),
                limit: format!("{limit} bytes"),
                seen: format!("{} bytes", plan.memory_bytes[device]),
                kind: Kind::Memory(device),
            });
        }
    }
    over
}

/// Charges each node of a device for the constants it reads and the tensors it writes.
fn charge_bytes(inputs: &Inputs<'_>, problem: &mut Problem, device: usize, price: u64) {
    for index in 0..problem.nodes() {
        let cost = problem.cost(index, device);
        if cost == FORBIDDEN {
            continue;
        }
        let node = inputs.graph.node(NodeId::new(index));
        let constants: BTreeSet<_> = node.reads().collect();
        let constants = constants.into_iter().filter_map(|id| {
            // a constant of several readers is shared among them
            let bytes = inputs.graph.tensor(id).data.as_ref()?.bytes.len() as u64;
            Some(bytes / indices(inputs.graph.consumers(id)).len().max(1) as u64)
        });
        let written = node.writes().filter_map(|id| inputs.bytes(id));
        let bodies = node.bodies.iter().map(|body| body.graph.constant_bytes());
        let bytes = constants
            .chain(written)
            .chain(bodies)
            .fold(0u64, u64::saturating_add);
        // dear enough to move any node, small enough to add up
        let limit = (u64::MAX / 8) / (problem.nodes() as u64 + 1);
        problem.set_cost(
            index,
            device,
            cost.saturating_add(bytes.saturating_mul(price).min(limit)),
        );
    }
}
