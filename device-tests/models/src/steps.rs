//! Steps of a model that the CPU leaves to the scalar reference evaluator.
#![allow(unsafe_code)]

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use polychip::Session;
use polychip_host::FlatGraph;
use polychip_sdk::GraphView;

/// Steps that the reference evaluator computes in the session's plan of its last run: name and class of loops, each once.
///
/// # Errors
/// Nothing has been planned, or the graph is malformed.
pub(crate) fn by_reference(session: &Session) -> Result<BTreeSet<String>> {
    let planned = session.planned().ok_or_else(|| anyhow!("nothing is planned"))?;
    let flat = FlatGraph::new(planned.graph(), &[])?;
    // SAFETY: the flat graph outlives the view, and nobody writes to it.
    let view = unsafe { GraphView::new(flat.raw()) }.map_err(|error| anyhow!("{error}"))?;
    let steps = polychip_cpu::work(&view).map_err(|error| anyhow!("{error}"))?;
    let left = steps.into_iter().filter(|step| step.reference);
    let words = |step: polychip_cpu::StepWork| format!("{} {}", step.name, step.class);
    Ok(left.map(words).collect())
}
