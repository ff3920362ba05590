//! Checks a finished plan against the graph, targets, costs and links, whatever produced the plan.
//!
//! Invariants: shares no code with the solver, merging and assembling; a plan passes only if each
//! node is in exactly one part, the part's device supports the node, parts are convex and their
//! quotient graph is acyclic, every tensor between parts has a crossing over an existing link,
//! limits hold, and every sum is exact. A violation names the fault and its location. Deliberately
//! not here: whether a better plan exists, beyond the certificate's own arithmetic.

mod evidence;
mod figures;
mod limits;
mod replicas;
mod schedule;
mod shape;
mod violation;

pub use violation::{Violation, ViolationKind};

use crate::objective::Goal;
use crate::plan::{PLAN_VERSION, Plan};
use crate::request::Request;
use evidence::Evidence;

/// Checks a plan.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn check(request: Request<'_>, plan: &Plan) -> Result<(), Violation> {
    let evidence = Evidence { request, plan };
    let part_of = placement(&evidence)?;
    replicas::each(&evidence, |copy| figures_of(copy, &placement(copy)?))?;
    figures_of(&evidence, &part_of)
}

/// The rules of figures, without those of copies.
fn figures_of(evidence: &Evidence<'_>, part_of: &[usize]) -> Result<(), Violation> {
    figures::states(evidence, part_of)?;
    figures::crossings(evidence, part_of)?;
    figures::parts(evidence)?;
    figures::memory(evidence)?;
    figures::totals(evidence)?;
    let time = schedule::ends(evidence)?;
    figures::limits(evidence, time)?;
    limits::stated(evidence, time)?;
    match evidence.plan.objective.goal {
        Goal::Serial => {
            figures::longest_part(evidence)?;
            figures::certificate(evidence, part_of)
        }
        Goal::Makespan | Goal::Throughput => schedule::certificate(evidence),
    }
}

/// Checks only the placement: version and model, each node in one part, support, order and
/// boundaries. Figures may be outdated; `restate` recomputes them.
///
/// # Errors
/// The first rule that the placement breaks.
pub fn check_placement(request: Request<'_>, plan: &Plan) -> Result<(), Violation> {
    let evidence = Evidence { request, plan };
    placement(&evidence)?;
    replicas::each(&evidence, |copy| placement(copy).map(|_| ()))
}

/// The rules of where nodes are; gives the part of each node.
fn placement(e: &Evidence<'_>) -> Result<Vec<usize>, Violation> {
    identity(e)?;
    let part_of = shape::parts(e)?;
    shape::order(e, &part_of)?;
    shape::boundaries(e, &part_of)?;
    Ok(part_of)
}

/// The plan is of this version, for this model, and everything given fits it.
fn identity(e: &Evidence<'_>) -> Result<(), Violation> {
    use ViolationKind::{Inputs, OtherModel, Version};
    let wrong = |kind, words: String| Err(Violation::new(kind, words));
    if e.plan.version != PLAN_VERSION {
        return wrong(
            Version,
            format!("plan has version {}, expected {PLAN_VERSION}", e.plan.version),
        );
    }
    let nodes = e.graph.node_count();
    if e.graph.node_bound() != nodes {
        return wrong(Inputs, "graph has removed nodes: it must be sorted".to_owned());
    }
    let model = e.request.fingerprint();
    if e.plan.model != model {
        return wrong(
            OtherModel,
            format!(
                "plan is for model {:.16}, this model is {model:.16}",
                e.plan.model
            ),
        );
    }
    let names: Vec<&str> = e.targets.iter().map(|target| target.name.as_str()).collect();
    if names != e.plan.devices {
        return wrong(
            Inputs,
            format!("plan is for devices {:?}, given are {names:?}", e.plan.devices),
        );
    }
    if let Some(target) = e.targets.iter().find(|target| target.refusals.len() != nodes) {
        let seen = target.refusals.len();
        return wrong(
            Inputs,
            format!("device {} has {seen} verdicts for {nodes} nodes", target.name),
        );
    }
    if (e.costs.nodes(), e.costs.devices()) != (nodes, names.len()) || e.links.devices() != names.len() {
        return wrong(
            Inputs,
            "cost or link table is for other nodes or devices".to_owned(),
        );
    }
    let homes = [e.plan.input_home, e.plan.output_home];
    if homes
        .into_iter()
        .flatten()
        .any(|home| home.index() >= names.len())
    {
        return wrong(
            Inputs,
            format!("home of inputs or outputs is not one of {} devices", names.len()),
        );
    }
    Ok(())
}
