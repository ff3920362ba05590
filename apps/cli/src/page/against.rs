//! Another plan that the page's plan is compared with.
//!
//! Invariant: what changed is said in the words of `polychip plan diff`.

use polychip::Planned;
use polychip_partitioner::{self as partitioner, Plan};
use serde::Serialize;

use super::timeline::{self, Span};
use super::usage::{self, Usage};

/// The other plan, and what changed since it.
#[derive(Debug, Serialize)]
pub(super) struct Against {
    title: String,
    headline: String,
    objective: String,
    /// Time of a run.
    time_ps: u64,
    energy_nj: Option<u64>,
    devices: Vec<Usage>,
    timeline: Vec<Span>,
    /// Nodes of the page's plan that were on another device: which one.
    moved: Vec<(u32, String)>,
    /// Nodes of the page's plan that the other does not have.
    added: Vec<u32>,
    /// How many nodes only the other plan has.
    removed: usize,
}

/// What changed from a plan, read from a file of this name, to the one that the page is of.
pub(super) fn of(title: String, old: &Plan, planned: &Planned) -> Against {
    let diff = partitioner::diff(old, &planned.plan_file());
    Against {
        title,
        headline: diff.headline(),
        objective: old.objective.description(),
        time_ps: old.time().picoseconds(),
        energy_nj: usage::nanojoules(old.totals.energy),
        devices: usage::of(old),
        timeline: timeline::of(old, diff.same_model.then(|| planned.graph())),
        moved: diff
            .moved
            .iter()
            .map(|node| (node.node, node.from.clone()))
            .collect(),
        added: diff.added.iter().map(|node| node.node).collect(),
        removed: diff.removed.len(),
    }
}
