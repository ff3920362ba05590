//! Judges a finished plan against the graph, targets, costs and links, without trusting who made it.
//!
//! Invariants: shares no code with the solver, merging and assembling; a plan passes only if each
//! node is in exactly one part, its device supports it, parts are convex and their quotient graph
//! acyclic, every tensor between parts has its crossing over a link that exists, limits hold, and
//! every figure adds up exactly. A violation says what is wrong and where.
//! Deliberately not here: whether a better plan exists, beyond the certificate's own arithmetic.

mod figures;
mod limits;
mod schedule;
mod shape;

use crate::cost::CostTable;
use crate::fingerprint::model_fingerprint;
use crate::link::LinkTable;
use crate::objective::Goal;
use crate::plan::{PLAN_VERSION, Plan};
use crate::target::Target;
use polychip_graph::Graph;
use std::fmt;

/// What is wrong with a plan, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    kind: ViolationKind,
    words: String,
}

/// The rule that a plan breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ViolationKind {
    /// The plan is of another format version.
    Version,
    /// The plan is for another model.
    OtherModel,
    /// Devices, costs, links or verdicts do not fit the plan or the graph.
    Inputs,
    /// A node in no part, in several, twice in one, or unknown; an empty or unsorted part.
    Nodes,
    /// A part on a device that does not support one of its nodes, or that is out of use.
    Unsupported,
    /// A path leaves a part and returns to it.
    NotConvex,
    /// Parts depend on each other in a circle.
    Cyclic,
    /// A part stands before one that it depends on, or names its dependencies wrongly.
    Order,
    /// A part's list of inputs or outputs is wrong.
    Boundary,
    /// A crossing is missing, superfluous or wrong.
    Crossing,
    /// A state's reader and writer are on different devices.
    State,
    /// A figure is not what the tables say, or a sum does not add up.
    Figure,
    /// A schedule is missing, superfluous or not what parts and crossings give.
    Schedule,
    /// A limit is exceeded, and it may not be or the plan does not say so; or a plan's line about a limit is wrong.
    Limit,
    /// The certificate contradicts the plan.
    Certificate,
}

impl Violation {
    pub(crate) fn new(kind: ViolationKind, words: impl Into<String>) -> Self {
        Self {
            kind,
            words: words.into(),
        }
    }

    /// The rule broken.
    #[must_use]
    pub fn kind(&self) -> ViolationKind {
        self.kind
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Violation {}

/// What a plan is judged against.
pub(crate) struct Evidence<'a> {
    graph: &'a Graph,
    targets: &'a [Target],
    costs: &'a CostTable,
    links: &'a LinkTable,
    plan: &'a Plan,
}

/// Checks a plan.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn check(
    graph: &Graph,
    targets: &[Target],
    costs: &CostTable,
    links: &LinkTable,
    plan: &Plan,
) -> Result<(), Violation> {
    let evidence = Evidence {
        graph,
        targets,
        costs,
        links,
        plan,
    };
    let part_of = placement(&evidence)?;
    figures::states(&evidence, &part_of)?;
    figures::crossings(&evidence, &part_of)?;
    figures::parts(&evidence)?;
    figures::memory(&evidence)?;
    figures::totals(&evidence)?;
    let time = schedule::ends(&evidence)?;
    figures::limits(&evidence, time)?;
    limits::stated(&evidence, time)?;
    match evidence.plan.objective.goal {
        Goal::Serial => figures::certificate(&evidence, &part_of),
        Goal::Makespan | Goal::Throughput => schedule::certificate(&evidence),
    }
}

/// Checks only where nodes are: version and model, each node in one part, support, order and
/// boundaries. Figures may be another day's; `restate` prices them anew.
///
/// # Errors
/// The first rule that the placement breaks.
pub fn check_placement(
    graph: &Graph,
    targets: &[Target],
    costs: &CostTable,
    links: &LinkTable,
    plan: &Plan,
) -> Result<(), Violation> {
    let evidence = Evidence {
        graph,
        targets,
        costs,
        links,
        plan,
    };
    placement(&evidence).map(|_| ())
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
    let model = model_fingerprint(e.graph);
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
        .any(|home| home as usize >= names.len())
    {
        return wrong(
            Inputs,
            format!("home of inputs or outputs is not one of {} devices", names.len()),
        );
    }
    Ok(())
}
