//! What a governed session says of itself: its plans, which one is next, and the newest changes.
//!
//! Invariant: the list of changes is bounded.

use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Governing, State};

/// Changes of plan that the report lists.
const LISTED: usize = 32;

/// What a governed session did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GovernedReport {
    /// The plan of the next run.
    pub plan: String,
    /// Changes of plan so far.
    pub switches: u64,
    /// So many of a thousand frames are to run.
    pub pace_permille: u32,
    /// Plans that are ready.
    pub candidates: Vec<CandidateReport>,
    /// The newest changes, oldest first.
    pub changes: Vec<ChangeReport>,
}

/// A plan that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateReport {
    /// Name.
    pub name: String,
    /// The devices that it uses.
    pub devices: Vec<String>,
    /// Predicted time of a run in nanoseconds.
    pub predicted_ns: u64,
    /// Predicted energy of a run in microjoules, where it is known.
    pub predicted_uj: Option<u64>,
    /// Memory of the tensors of its runs in flight, in bytes.
    pub bytes: u64,
    /// Whether it can run: no device of it is lost.
    pub usable: bool,
}

/// A change of plan or pace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeReport {
    /// When, on the runtime's clock.
    pub time_ns: u64,
    /// The plan from then on.
    pub plan: String,
    /// So many of a thousand frames are to run from then on.
    pub pace_permille: u32,
    /// Why.
    pub words: String,
}

impl Governing {
    pub(crate) fn report(&self) -> GovernedReport {
        let state = self.lock();
        let candidates = state.ready.iter().enumerate().map(|(index, ready)| {
            let planned = &ready.plan.planned;
            let found = &state.governor.portfolio().candidates[index];
            let used = planned.used_devices();
            let slots = u64::try_from(self.policy.runs_in_flight()).unwrap_or(u64::MAX);
            let footprint = ready.plan.footprint;
            CandidateReport {
                name: ready.name.clone(),
                devices: used
                    .iter()
                    .map(|&column| self.devices[column].name().to_owned())
                    .collect(),
                predicted_ns: found.latency_ns,
                predicted_uj: found.energy_uj,
                bytes: slots.saturating_mul(footprint.arena_bytes.saturating_add(footprint.output_bytes)),
                usable: state.governor.is_usable(index),
            }
        });
        GovernedReport {
            plan: state.ready[state.governor.plan()].name.clone(),
            switches: state.switches,
            pace_permille: self.pace.load(Ordering::Acquire),
            candidates: candidates.collect(),
            changes: state.changes.clone(),
        }
    }
}

/// Adds a change to the list.
pub(super) fn note(state: &mut State, time_ns: u64, plan: String, pace_permille: u32, words: String) {
    if state.changes.len() == LISTED {
        state.changes.remove(0);
    }
    state.changes.push(ChangeReport {
        time_ns,
        plan,
        pace_permille,
        words,
    });
}
