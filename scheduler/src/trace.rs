//! Traces of part times in recent runs.
//!
//! Invariants:
//! 1. An untraced session pays one atomic load per run.
//! 2. At most the requested number of runs is kept; later runs are counted.
//! 3. Times are on the runtime's clock, as the devices report them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_graph::{Graph, TensorId};
use polychip_host::{Step, Timing};
use polychip_partitioner::{Part, PartIndex};
use polychip_profile::median;

use crate::cost_model::part_graph;
use crate::session::deadline_miss::{Outcome, Submitted};
use crate::session::loaded::LoadedPlan;
use crate::session::run_state::RunState;
use crate::warning::StepTime;

/// The trace of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedRun {
    /// The parts with reported times, in the plan's order.
    pub parts: Vec<TracedPart>,
    /// Tensors that crossed between parts of the run.
    pub crossings: Vec<TracedCrossing>,
    /// Submit time in nanoseconds.
    pub submitted_ns: u64,
    /// Time from submit to the end of its last part, in nanoseconds.
    pub latency_ns: u64,
    /// Lateness in nanoseconds; none if it was in time, or had no deadline.
    pub late_ns: Option<u64>,
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPart {
    /// Stable id of the part.
    pub id: String,
    /// Device, `plugin:index`.
    pub device: String,
    /// Whether the device is emulated: its times are those of the emulating computer.
    pub emulated: bool,
    /// Number of nodes.
    pub nodes: usize,
    /// When the device began to compute, in nanoseconds.
    pub start_ns: u64,
    /// When the device finished, in nanoseconds.
    pub end_ns: u64,
    /// Energy in microjoules, if the device reports it.
    pub energy_uj: Option<u64>,
    /// Its steps, if requested ([`Session::start_op_trace`](crate::Session::start_op_trace)) and
    /// measured by the device.
    pub steps: Vec<TracedStep>,
}

/// A step of a part: one kernel, for one node or for several that it fuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedStep {
    /// The nodes that it computes; empty if it serves the whole part.
    pub nodes: Vec<TracedNode>,
    /// The plugin's name of the kernel.
    pub kernel: String,
    /// Its time, in nanoseconds.
    pub time_ns: u64,
    /// Arithmetic operations, if the device reports them; a multiply-add counts as two.
    pub operations: Option<u64>,
    /// Bytes read and written, if the device reports them.
    pub moved_bytes: Option<u64>,
    /// Whether plain loops replace a kernel.
    pub is_reference: bool,
}

/// A node of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedNode {
    /// Its name, or the name of its first output if it has none.
    pub name: String,
    /// Its operator.
    pub op: String,
}

/// A tensor that crossed between parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedCrossing {
    /// Name of the tensor.
    pub tensor: String,
    /// Size in bytes, if known before the run.
    pub bytes: Option<u64>,
    /// How it travelled: native, imported or copy.
    pub mode: &'static str,
    /// Index in `parts` of the part that wrote it.
    pub from: usize,
    /// Index in `parts` of the part that read it.
    pub to: usize,
}

/// What is traced.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    is_on: AtomicBool,
    /// Steps are measured too.
    steps: AtomicBool,
    kept: Mutex<TraceBuffer>,
}

#[derive(Debug, Default)]
struct TraceBuffer {
    most: usize,
    runs: Vec<RecordedRun>,
    left_out: u64,
}

/// The raw record of a run. It is converted on request, because that takes longer than many runs.
#[derive(Debug)]
struct RecordedRun {
    plan: Arc<LoadedPlan>,
    /// Of each part of the plan.
    timings: Vec<Timing>,
    /// Of each part of the plan whose device measured any; may be shorter than `timings`.
    steps: Vec<Vec<Step>>,
    submitted_ns: u64,
    outcome: Outcome,
}

impl RecordedRun {
    fn to_traced(&self) -> TracedRun {
        let planned = &self.plan.planned;
        // where each part of the plan stands among those that stated their times
        let mut places = Vec::new();
        let mut parts = Vec::new();
        for (index, (part, timing)) in planned.plan().parts.iter().zip(&self.timings).enumerate() {
            let Some((start_ns, end_ns)) = timing.span_ns else {
                places.push(None);
                continue;
            };
            places.push(Some(parts.len()));
            let measured = self.steps.get(index).map_or(&[][..], Vec::as_slice);
            parts.push(TracedPart {
                id: part.id.clone(),
                device: planned.devices()[part.device.index()].name().to_owned(),
                emulated: part.cost.emulated,
                nodes: part.nodes.len(),
                start_ns,
                end_ns: end_ns.max(start_ns),
                energy_uj: timing.energy_uj,
                steps: steps(planned.graph(), part, measured),
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
            submitted_ns: self.submitted_ns,
            latency_ns: self.outcome.latency_ns,
            late_ns: self.outcome.late_ns,
        }
    }
}

impl Tracer {
    /// Whether devices are to measure the steps of runs that start now.
    pub(crate) fn measures_steps(&self) -> bool {
        self.steps.load(Ordering::Relaxed)
    }

    /// Keeps so many runs from now on, with their steps where these are asked for; those kept before are forgotten. 0 ends it.
    pub(crate) fn start(&self, runs: usize, steps: bool) {
        self.steps.store(steps && runs > 0, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = TraceBuffer {
            most: runs,
            ..TraceBuffer::default()
        };
        self.is_on.store(runs > 0, Ordering::Release);
    }

    /// The runs that were kept, and how many were not.
    pub(crate) fn kept(&self) -> (Vec<TracedRun>, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (
            kept.runs.iter().map(RecordedRun::to_traced).collect(),
            kept.left_out,
        )
    }

    /// Median times of the steps of each part in the kept runs of a plan; empty for a part without any.
    pub(crate) fn step_times(&self, plan: &LoadedPlan) -> Vec<Vec<StepTime>> {
        let parts = &plan.planned.plan().parts;
        let mut times: Vec<BTreeMap<(Vec<u32>, String), Vec<u64>>> = vec![BTreeMap::new(); parts.len()];
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for run in kept.runs.iter().filter(|run| std::ptr::eq(&*run.plan, plan)) {
            for ((steps, part), times) in run.steps.iter().zip(parts).zip(&mut times) {
                let mut of_run: BTreeMap<(Vec<u32>, String), u64> = BTreeMap::new();
                for step in steps {
                    let node = |node: &u32| part.nodes.get(*node as usize).copied();
                    let key = (step.nodes.iter().filter_map(node).collect(), step.name.clone());
                    let time = of_run.entry(key).or_default();
                    *time = time.saturating_add(step.time_ns);
                }
                for (key, time) in of_run {
                    times.entry(key).or_default().push(time);
                }
            }
        }
        drop(kept);
        let step = |((nodes, kernel), mut times): ((Vec<u32>, String), Vec<u64>)| StepTime {
            nodes,
            kernel,
            time_ns: median(&mut times, u64::cmp).unwrap_or(0),
        };
        let parts = times.into_iter();
        parts.map(|steps| steps.into_iter().map(step).collect()).collect()
    }

    /// Takes note of a run that has ended.
    pub(crate) fn add(
        &self,
        plan: &Arc<LoadedPlan>,
        slot: &mut RunState,
        submitted: &Submitted,
        outcome: Outcome,
    ) {
        if !self.is_on.load(Ordering::Acquire) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.runs.len() < kept.most {
            kept.runs.push(RecordedRun {
                plan: Arc::clone(plan),
                timings: slot.timings.clone(),
                steps: std::mem::take(&mut slot.steps),
                submitted_ns: submitted.at_ns(),
                outcome,
            });
        } else {
            kept.left_out += 1;
        }
    }
}

/// The steps of a part, with the nodes that they compute.
fn steps(graph: &Graph, part: &Part, measured: &[Step]) -> Vec<TracedStep> {
    if measured.is_empty() {
        return Vec::new();
    }
    let graph = part_graph(graph, part);
    let nodes: Vec<TracedNode> = graph
        .nodes()
        .map(|(_, node)| {
            let output = node.outputs.iter().flatten().next();
            let name = match output {
                Some(output) if node.name.is_empty() => graph.tensor(*output).name.clone(),
                _ => node.name.clone(),
            };
            let op = node.op_name.to_string();
            TracedNode { name, op }
        })
        .collect();
    let traced = measured.iter().map(|step| TracedStep {
        nodes: step
            .nodes
            .iter()
            .filter_map(|&node| nodes.get(node as usize).cloned())
            .collect(),
        kernel: step.name.clone(),
        time_ns: step.time_ns,
        operations: step.operations,
        moved_bytes: step.moved_bytes,
        is_reference: step.is_reference,
    });
    traced.collect()
}
