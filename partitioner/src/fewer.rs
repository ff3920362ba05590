//! Compares the plan with all devices with plans for fewer: an additional device never makes a plan
//! worse.
//!
//! A certificate refers to placements before parts are merged, to what a search could find, or to
//! limits that leave a gap; in all three cases a plan without some device may be better. So plans
//! of single devices are always tried, and with few devices every subset.
//!
//! Invariants: with up to [`MOST_SETS`] devices, and graphs of up to [`MOST_NODES`] nodes, no
//! subset of devices has a better plan than the whole; with more, no single device has.
//! Deliberately not here: plans with several replicas (`replicas`).

use crate::error::Error;
use crate::index::DeviceIndex;
use crate::instance::{Inputs, Weights};
use crate::limit;
use crate::makespan;
use crate::objective::Goal;
use crate::options::Options;
use crate::plan::Plan;
use crate::problem::{FORBIDDEN, add};
use crate::solve::Solution;
use crate::subset::{Subset, usable};

/// Most devices of which every set is planned.
const MOST_SETS: usize = 4;

/// The same where a search stands behind each plan.
const MOST_SEARCHED: usize = 3;

/// With more nodes, only single devices are tried beside all of them.
const MOST_NODES: usize = 4000;

/// The best plan for runs by themselves.
pub(crate) fn plan(inputs: &Inputs<'_>, edges: &[(usize, usize)]) -> Result<Plan, Error> {
    if inputs.objective.goal != Goal::Serial {
        let all = makespan::plan(inputs, edges)?;
        let planned = |set: &[usize], subset: &Subset| {
            // on one device there is no order to look for
            if let &[device] = set {
                let nodes = inputs.graph.node_count();
                let parts = vec![(0..nodes).collect()];
                return makespan::written(inputs, parts, &vec![device; nodes], 0).ok();
            }
            let found = makespan::plan(&subset.inputs(inputs), edges).ok()?;
            subset.scheduled(inputs, &found).ok()
        };
        let bound = all.certificate.bound;
        let mut best = best(inputs, all, MOST_SEARCHED, |_| 0, planned);
        best.certificate.bound = bound.min(best.certificate.objective);
        return Ok(best);
    }
    // parts are cut afterwards, wherever their nodes are
    let uncut = Options {
        longest_part: None,
        ..inputs.options.clone()
    };
    let uncut = inputs.changed(inputs.with(&uncut));
    let placed = limit::placed(&uncut, edges)?;
    let (free, bound) = (placed.free.clone(), placed.solution.bound);
    let all = limit::stated(&uncut, edges, &placed.solution, placed.free)?;
    // nothing to merge: the optimum is the best of every set
    let merges = inputs.options.merge
        && inputs
            .targets
            .iter()
            .any(|target| Weights::of(inputs.objective).value(target.launch, target.launch_energy) > 0);
    let sums = inputs.costs.parts().next().is_none();
    let best = if all.certificate.is_optimal() && !merges && sums {
        all
    } else {
        let planned = |_: &[usize], subset: &Subset| {
            let found = limit::placed(&subset.inputs(&uncut), edges).ok()?;
            let solution = Solution {
                placement: subset.whole(&found.solution.placement),
                objective: found.solution.objective,
                bound: bound.min(found.solution.objective),
            };
            limit::stated(&uncut, edges, &solution, free.clone()).ok()
        };
        let least = |set: &[usize]| match set {
            &[device] if sums => least_on(&uncut, device),
            _ => 0,
        };
        best(&uncut, all, MOST_SETS, least, planned)
    };
    if inputs.options.longest_part.is_none() {
        return Ok(best);
    }
    let placement = best.devices_of_nodes(inputs.graph.node_count());
    let solution = Solution {
        placement: placement.into_iter().flatten().map(DeviceIndex::index).collect(),
        objective: best.certificate.objective,
        bound: best.certificate.bound,
    };
    limit::stated(inputs, edges, &solution, free)
}

/// What no plan on one device is below: the sum of its nodes' costs, where no part has one of its own.
fn least_on(inputs: &Inputs<'_>, device: usize) -> u64 {
    let weights = Weights::of(inputs.objective);
    let cost = |node| {
        let cost = inputs.node_cost(node, device);
        cost.map_or(FORBIDDEN, |cost| weights.of_cost(&cost))
    };
    (0..inputs.graph.node_count()).map(cost).fold(0, add)
}

/// The best of a plan and those of smaller sets, of which no plan is below `least`.
fn best(
    inputs: &Inputs<'_>,
    all: Plan,
    most: usize,
    least: impl Fn(&[usize]) -> u64,
    planned: impl Fn(&[usize], &Subset) -> Option<Plan>,
) -> Plan {
    let devices = usable(inputs);
    let every = devices.len() <= most && inputs.graph.node_count() <= MOST_NODES;
    let sets: Vec<Vec<usize>> = if every {
        (1..(1usize << devices.len()) - 1)
            .map(|set| {
                let members = devices.iter().enumerate();
                let members = members.filter(|(at, _)| set >> at & 1 == 1);
                members.map(|(_, &device)| device).collect()
            })
            .collect()
    } else {
        devices.iter().map(|&device| vec![device]).collect()
    };
    let mut best = (rank(inputs, &all), all);
    for set in sets.iter().filter(|set| runs_all(inputs, set)) {
        // not even if it kept to all limits
        if best.0 <= (false, 0, least(set)) {
            continue;
        }
        let Some(plan) = Subset::new(inputs, set).and_then(|subset| planned(set, &subset)) else {
            continue;
        };
        let rank = rank(inputs, &plan);
        if rank < best.0 {
            best = (rank, plan);
        }
    }
    best.1
}

/// Whether each node runs on one of some devices.
fn runs_all(inputs: &Inputs<'_>, devices: &[usize]) -> bool {
    let runs = |node| {
        devices
            .iter()
            .any(|&device| inputs.targets[device].supports(node))
    };
    (0..inputs.graph.node_count()).all(runs)
}

/// What a plan is ranked by: limits that may not be missed, how far others are, the value as it stands.
fn rank(inputs: &Inputs<'_>, plan: &Plan) -> (bool, u128, u64) {
    let value = match plan.objective.goal {
        Goal::Serial => {
            let energy = plan.totals.energy.unwrap_or_default();
            Weights::of(inputs.objective).value(plan.totals.time, energy)
        }
        Goal::Makespan | Goal::Throughput => plan.certificate.objective,
    };
    let miss = limit::miss(inputs, plan);
    (miss.is_none(), miss.unwrap_or(0), value)
}
