//! Turns a placement into a plan: forms parts, merges them if the objective gains, and assembles
//! the plan.
//!
//! Deliberately not here: placement (`solve`, `limit`), the lists of a plan (`assemble`).

use crate::assemble::{assemble, part_cost};
use crate::cut;
use crate::error::Error;
use crate::instance::{Inputs, Weights};
use crate::merge;
use crate::plan::{Certificate, Plan};
use polychip_graph::Graph;

/// The plan of a placement.
pub(crate) fn plan_of(
    inputs: &Inputs<'_>,
    edges: &[(usize, usize)],
    placement: &[usize],
    objective: u64,
    bound: u64,
) -> Result<Plan, Error> {
    let weights = Weights::of(inputs.objective);
    let value = |nodes: &[usize], device: usize| {
        let cost = part_cost(inputs, nodes, device).ok()?;
        let target = &inputs.targets[device];
        let launch = weights.value(target.launch, target.launch_energy);
        Some(u128::from(weights.value(cost.time, cost.energy.unwrap_or_default())) + u128::from(launch))
    };
    let stated = inputs.costs.parts().next().is_some();
    let gain = |device: usize, early: &[usize], late: &[usize]| {
        if !stated {
            // costs of nodes add up, so a merge saves exactly one launch
            let target = &inputs.targets[device];
            return weights.value(target.launch, target.launch_energy) > 0;
        }
        let mut both = [early, late].concat();
        both.sort_unstable();
        match (value(early, device), value(late, device), value(&both, device)) {
            (Some(early), Some(late), Some(both)) => both < early + late,
            _ => false,
        }
    };
    let mut parts = merge::parts(placement, edges, inputs.options.merge, gain);
    if let Some(longest) = inputs.options.longest_part {
        parts = cut::parts(inputs, parts, placement, longest)?;
    }
    assemble(inputs, &parts, placement, Certificate { objective, bound })
}

/// Which node reads what which node writes, each pair once, ascending.
pub(crate) fn edges(graph: &Graph) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    for (id, node) in graph.nodes() {
        edges.extend(
            node.reads()
                .filter_map(|tensor| graph.producer(tensor))
                .map(|from| (from.index(), id.index())),
        );
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}
