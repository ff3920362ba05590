//! The ways to run a model that are measured: each device alone, and the planner's choice of several.

use std::collections::BTreeMap;

use polychip::{Planned, Policy, Runtime};

use super::arguments::Arguments;
use super::output::NotRun;
use crate::setup::{PATIENCE, Precision};

/// A candidate before it is measured.
pub(super) struct PlannedCandidate {
    pub(super) name: String,
    pub(super) planned: Planned,
    pub(super) policy: Policy,
    pub(super) precision: Precision,
    pub(super) lanes: u32,
}

/// Each device alone, and the planner's choice of several, in each precision and number of runs in flight.
pub(super) fn ways(
    runtime: &Runtime,
    model: &polychip::Model,
    arguments: &Arguments,
    not_run: &mut Vec<NotRun>,
) -> anyhow::Result<Vec<PlannedCandidate>> {
    let names = arguments.plan.names_of_devices(runtime);
    let precisions: &[Precision] = match arguments.plan.precision.resolved() {
        Precision::Exact => &[Precision::Exact],
        Precision::Reduced => &[Precision::Exact, Precision::Reduced],
    };
    let hang_timeout = arguments.plan.runtime.hang_timeout.unwrap_or(PATIENCE);
    let mut ways: Vec<PlannedCandidate> = Vec::new();
    for &precision in precisions {
        let base = arguments
            .plan
            .policy_of(Policy::latency())
            .precision(precision.of_library());
        let mut plans: Vec<(String, Policy)> = names
            .iter()
            .map(|name| (name.clone(), base.clone().devices([name.as_str()])))
            .collect();
        if names.len() > 1 {
            let all = base.clone().devices(names.iter().map(String::as_str));
            plans.push(("planned".to_owned(), all.clone()));
        }
        for (name, policy) in plans {
            let planned = match runtime.plan(model, &policy) {
                Ok(planned) => planned,
                Err(error) => {
                    not_run.push(NotRun {
                        name,
                        reason: error.to_string(),
                    });
                    continue;
                }
            };
            let alike = |way: &&PlannedCandidate| {
                way.precision == precision && nodes(&way.planned) == nodes(&planned)
            };
            if ways.iter().any(|way| alike(&way)) {
                continue;
            }
            for &lanes in &arguments.lanes {
                let word = match precision {
                    Precision::Exact => "exact",
                    Precision::Reduced => "reduced",
                };
                ways.push(PlannedCandidate {
                    name: format!("{name} {word} x{lanes}"),
                    planned: planned.clone(),
                    policy: policy
                        .clone()
                        .in_flight(lanes as usize)
                        .hang_timeout(hang_timeout),
                    precision,
                    lanes,
                });
            }
        }
    }
    Ok(ways)
}

/// Number of nodes of each device.
pub(super) fn nodes(planned: &Planned) -> BTreeMap<String, usize> {
    let plan = planned.plan();
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    for part in &plan.parts {
        *nodes
            .entry(plan.devices[part.device.index()].clone())
            .or_default() += part.nodes.len();
    }
    nodes
}
