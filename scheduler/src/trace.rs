//! When each part of the newest runs ran, for a picture of them.
//!
//! Invariants:
//! 1. A session that is not traced pays one load of an atomic a run.
//! 2. At most as many runs are kept as were asked for; later ones are counted.
//! 3. Times are on the runtime's clock, as the devices state them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_graph::TensorId;
use polychip_partitioner::PartIndex;

use crate::session::lateness::{Outcome, Submitted};
use crate::session::loaded::LoadedPlan;
use crate::session::slot::Slot;

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedRun {
    /// The parts that stated their times, in the plan's order.
    pub parts: Vec<TracedPart>,
    /// Tensors that crossed between parts of the run.
    pub crossings: Vec<TracedCrossing>,
    /// When it was submitted, in nanoseconds.
    pub submitted_ns: u64,
    /// From then to the end of its last part.
    pub latency_ns: u64,
    /// By how much it was late; none where it was in time, or had no deadline.
    pub late_ns: Option<u64>,
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPart {
    /// Stable id of the part.
    pub id: String,
    /// Device, `plugin:index`.
    pub device: String,
    /// Number of nodes.
    pub nodes: usize,
    /// When the device began to compute, in nanoseconds.
    pub start_ns: u64,
    /// When it was done.
    pub end_ns: u64,
    /// Energy in microjoules, where the device states it.
    pub energy_uj: Option<u64>,
}

/// A tensor that crossed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedCrossing {
    /// Name of the tensor.
    pub tensor: String,
    /// Bytes, where known before the run.
    pub bytes: Option<u64>,
    /// native, imported or copy.
    pub mode: &'static str,
    /// The part that wrote it, by its place in `parts`.
    pub from: usize,
    /// The part that read it.
    pub to: usize,
}

/// What is traced.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    is_on: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    most: usize,
    runs: Vec<TracedRun>,
    left_out: u64,
}

impl Tracer {
    /// Keeps so many runs from now on; those kept before are forgotten. 0 ends it.
    pub(crate) fn start(&self, runs: usize) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Kept {
            most: runs,
            ..Kept::default()
        };
        self.is_on.store(runs > 0, Ordering::Release);
    }

    /// The runs that were kept, and how many were not.
    pub(crate) fn kept(&self) -> (Vec<TracedRun>, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.runs.clone(), kept.left_out)
    }

    /// Takes note of a run that has ended.
    pub(crate) fn add(&self, plan: &Arc<LoadedPlan>, slot: &Slot, submitted: &Submitted, outcome: Outcome) {
        if !self.is_on.load(Ordering::Acquire) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.runs.len() < kept.most {
            kept.runs.push(traced(plan, slot, submitted, outcome));
        } else {
            kept.left_out += 1;
        }
    }
}

fn traced(plan: &LoadedPlan, slot: &Slot, submitted: &Submitted, outcome: Outcome) -> TracedRun {
    let planned = &plan.planned;
    // where each part of the plan stands among those that stated their times
    let mut places = Vec::new();
    let mut parts = Vec::new();
    for (part, timing) in planned.plan().parts.iter().zip(&slot.timings) {
        let Some((start_ns, end_ns)) = timing.span_ns else {
            places.push(None);
            continue;
        };
        places.push(Some(parts.len()));
        parts.push(TracedPart {
            id: part.id.clone(),
            device: planned.devices()[part.device.index()].name().to_owned(),
            nodes: part.nodes.len(),
            start_ns,
            end_ns: end_ns.max(start_ns),
            energy_uj: timing.energy_uj,
        });
    }
    let place = |part: PartIndex| places.get(part.index()).copied().flatten();
    let mut crossings = Vec::new();
    for crossing in &planned.plan().crossings {
        let Some(from) = crossing.from_part.and_then(place) else {
            continue;
        };
        for to in crossing.to_parts.iter().filter_map(|part| place(*part)) {
            let id = TensorId::new(crossing.tensor as usize);
            crossings.push(TracedCrossing {
                tensor: planned.graph().tensor(id).name.clone(),
                bytes: crossing.bytes,
                mode: crossing.mode.word(),
                from,
                to,
            });
        }
    }
    TracedRun {
        parts,
        crossings,
        submitted_ns: submitted.at_ns(),
        latency_ns: outcome.latency_ns,
        late_ns: outcome.late_ns,
    }
}
