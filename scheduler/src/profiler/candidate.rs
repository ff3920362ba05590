//! Candidates of the profiler: a fusion group, a whole model, or a part of a plan, on one device.
//!
//! Invariants:
//! 1. A structure is measured once per device, regardless of the number of models that contain it.
//! 2. Each run belongs to a session of that structure alone, on that device alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use polychip_graph::{Graph, fingerprint};
use polychip_host::Device;
use polychip_ops::DType;
use polychip_partitioner::{Part, Time};
use polychip_profile::Conditions;
use polychip_profile::extract::run_graph;
use polychip_profile::predict::{self, Content, end_to_end, fusion_groups, segments};
use polychip_profile::{Measurement, PartKey, Profile, median_interval};

use super::options::{ENOUGH, ProfileOptions, SPREAD};
use crate::cost_model;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::planned::{Planned, Prepared};
use crate::policy::Policy;
use crate::runtime::Runtime;
use crate::session::Session;

/// Longest that a run may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Candidates that are measured this often and still have wide intervals stay as they are: the machine is not quieter.
const BATCHES: u32 = 4;

/// What a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    /// A measured segment, or what it shares with the next: the model's time is composed of them.
    Segment,
    FusionGroup,
    Part,
}

pub(super) struct Candidate {
    pub(super) kind: Kind,
    pub(super) device: Device,
    pub(super) fingerprint: [u8; 32],
    /// Places of the models that hold it; none of a part of a plan.
    pub(super) models: BTreeSet<usize>,
    /// What it consists of, as the profile stores it.
    pub(super) content: String,
    /// Ops and shapes, or the model.
    pub(super) words: String,
    /// Bytes of its constants.
    pub(super) constants: u64,
    /// Half the width of the median's interval over the median, where something is known.
    pub(super) half_width: Option<f64>,
    /// Batches that were measured by this profiler.
    pub(super) batches: u32,
    /// It cannot be measured.
    pub(super) left_out: bool,
    /// What is run: a model of this alone.
    model: Model,
    identity: String,
    operating_point: String,
    /// Share of a model's time on the device that rests on it, over how much slower the device is than the fastest.
    weight: f64,
    /// Measurements and batches that the profile holds.
    samples: u32,
    stored: u32,
}

impl Candidate {
    pub(super) fn key(&self) -> PartKey<'_> {
        PartKey {
            device: &self.identity,
            fingerprint: &self.fingerprint,
            operating_point: &self.operating_point,
        }
    }

    /// What is known of it. What was measured under another governor or power mode, or at another cadence, is not known under
    /// this one.
    pub(super) fn look_up(&mut self, profile: &Profile, now: &Conditions) -> Result<()> {
        let known = profile
            .part_under(self.key(), now)?
            .filter(|known| known.agrees && !known.inherited);
        self.samples = known.as_ref().map_or(0, |known| known.samples);
        self.stored = known.as_ref().map_or(0, |known| known.all_batches);
        self.half_width = known
            .and_then(|known| known.interval)
            .map(|interval| interval.half_width());
        Ok(())
    }

    /// Whether it is to be measured (again).
    pub(super) fn is_open(&self, goal: f64) -> bool {
        let is_narrow = self.half_width.is_some_and(|width| width <= goal);
        let spread = !matches!(self.kind, Kind::Whole | Kind::Segment)
            || self.stored >= SPREAD
            || self.samples >= ENOUGH;
        !self.left_out
            && self.batches < BATCHES
            && !(is_narrow && spread)
            && (self.samples < ENOUGH || !is_narrow)
    }

    /// What plans gain by measuring it.
    pub(super) fn value(&self) -> f64 {
        self.half_width.unwrap_or(1.0) * self.weight
    }

    /// An order that does not depend on anything measured.
    pub(super) fn key_order(&self) -> (&str, &[u8; 32]) {
        (self.device.name(), &self.fingerprint)
    }

    /// Stores what runs took from submit to outputs, beside the time on the device. What is between the two is the launch
    /// of the device (`predict`).
    pub(super) fn record_latencies(
        &self,
        profile: &Profile,
        latencies: &[u64],
        conditions: &Conditions,
    ) -> Result<()> {
        let point = end_to_end(&self.operating_point);
        let key = PartKey {
            operating_point: &point,
            ..self.key()
        };
        let measurements: Vec<Measurement> = latencies
            .iter()
            .map(|&ns| Measurement {
                time: Time::from_nanoseconds(ns),
                energy_uj: None,
            })
            .collect();
        profile.record_under(key, self.device.info().emulated, &measurements, conditions)?;
        Ok(())
    }
}

/// Everything that may be measured of these models.
pub(super) fn all(
    runtime: &Runtime,
    models: &[Model],
    policy: &Policy,
    options: &ProfileOptions,
) -> Result<Vec<Candidate>> {
    let mut found: BTreeMap<(String, [u8; 32]), Candidate> = BTreeMap::new();
    for (place, model) in models.iter().enumerate() {
        let prepared = Prepared::new(&runtime.0, model, policy)?;
        let (graph, prices) = (&prepared.graph, &prepared.evidence.resolve());
        let nanoseconds = |device: usize, nodes: &[u32]| -> f64 {
            let cost = |node: &u32| prices.costs.node(*node as usize, device);
            nodes
                .iter()
                .filter_map(cost)
                .map(|cost| cost.time.picoseconds() as f64 / 1e3)
                .sum()
        };
        let every: Vec<u32> = graph.nodes().map(|(id, _)| id.index() as u32).collect();
        let totals: Vec<f64> = (0..prepared.devices.len())
            .map(|device| nanoseconds(device, &every).max(1.0))
            .collect();
        let complete = |device: usize| {
            every
                .iter()
                .all(|node| prices.targets[device].supports(*node as usize))
        };
        let fastest = (0..totals.len())
            .filter(|&device| complete(device))
            .map(|device| totals[device]);
        let fastest = fastest.fold(f64::INFINITY, f64::min);
        let runs = if options.ops {
            segments_and_groups(graph)
        } else {
            Vec::new()
        };
        let runs: Vec<(Kind, Vec<u32>, Graph)> = runs
            .into_iter()
            .map(|(kind, nodes)| {
                let part = run_graph(graph, &nodes);
                (kind, nodes, part)
            })
            .collect();
        for (index, device) in prepared.devices.iter().enumerate() {
            let rivalry = (fastest / totals[index]).min(1.0);
            let mut add =
                |kind, part: Graph, fingerprint, model: Model, words: Option<String>, share: f64| {
                    let key = (device.name().to_owned(), fingerprint);
                    if let Some(known) = found.get_mut(&key) {
                        known.weight = known.weight.max(share * rivalry);
                        known.models.insert(place);
                        return;
                    }
                    let content = match (kind, &words) {
                        (Kind::Whole, Some(name)) => Content::of_whole(name, &part),
                        _ => Content::of(&part),
                    };
                    let candidate = Candidate {
                        kind,
                        device: device.clone(),
                        fingerprint,
                        models: BTreeSet::from([place]),
                        words: words.unwrap_or_else(|| predict::words(&content.to_json())),
                        constants: content.constants(),
                        content: content.to_json(),
                        half_width: None,
                        batches: 0,
                        left_out: device.is_quarantined(),
                        model,
                        identity: device.identity(),
                        operating_point: policy.settings().operating_point(device.info().kind),
                        weight: share * rivalry,
                        samples: 0,
                        stored: 0,
                    };
                    found.insert(key, candidate);
                };
            if options.wholes
                && let Some(part) = alone(graph, prices, index)
            {
                let part = cost_model::part_graph(graph, &part);
                let name = model
                    .path()
                    .file_stem()
                    .map(|name| name.to_string_lossy().into_owned());
                let structure = fingerprint::structure(&part);
                add(Kind::Whole, part, structure, model.clone(), name, 1.0);
            }
            let mut counts: BTreeMap<[u8; 32], f64> = BTreeMap::new();
            let structures: Vec<[u8; 32]> = runs
                .iter()
                .map(|(_, _, part)| fingerprint::structure(part))
                .collect();
            for structure in &structures {
                *counts.entry(*structure).or_default() += 1.0;
            }
            for ((kind, nodes, part), structure) in runs.iter().zip(structures) {
                if nodes
                    .iter()
                    .all(|node| prices.targets[index].supports(*node as usize))
                {
                    let share = nanoseconds(index, nodes) * counts[&structure] / totals[index];
                    let group = model.part("a fusion group", part.clone());
                    add(*kind, part.clone(), structure, group, None, share);
                }
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The whole model as one part of a device, as the planner would make it; none where the device cannot run it alone.
fn alone(graph: &Graph, prices: &cost_model::Prices, device: usize) -> Option<Part> {
    let nodes = 0..graph.node_count();
    if nodes.is_empty() || !nodes.clone().all(|node| prices.targets[device].supports(node)) {
        return None;
    }
    let options = polychip_partitioner::Options {
        pins: nodes.map(|node| (node, device)).collect(),
        ..Default::default()
    };
    let plan = polychip_partitioner::partition(prices.request(graph).with(&options));
    let parts = plan.ok()?.parts;
    match &parts[..] {
        [part] => Some(part.clone()),
        _ => None,
    }
}

/// The nodes of each segment, of what it shares with the next, and of each fusion group.
fn segments_and_groups(graph: &Graph) -> Vec<(Kind, Vec<u32>)> {
    let segments = segments(graph).into_iter();
    let segments = segments.flat_map(|(nodes, shared)| [Some(nodes), shared]);
    let segments = segments.flatten().map(|nodes| (Kind::Segment, nodes));
    let groups = fusion_groups(graph).into_iter();
    segments
        .chain(groups.map(|nodes| (Kind::FusionGroup, nodes)))
        .collect()
}

/// The parts of a plan that are not candidates yet.
pub(super) fn of_plan(planned: &Planned, policy: &Policy, known: &[Candidate]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let total = planned.plan().totals.time.picoseconds().max(1) as f64;
    for part in &planned.plan().parts {
        let device = &planned.devices()[part.device.index()];
        let graph = cost_model::part_graph(planned.graph(), part);
        let fingerprint = fingerprint::structure(&graph);
        let is_same =
            |other: &Candidate| other.fingerprint == fingerprint && other.device.name() == device.name();
        if known.iter().chain(&found).any(is_same) {
            continue;
        }
        found.push(of_part(
            planned.model(),
            device,
            part,
            graph,
            fingerprint,
            policy,
            total,
        ));
    }
    found
}

fn of_part(
    model: &Model,
    device: &Device,
    part: &Part,
    graph: Graph,
    fingerprint: [u8; 32],
    policy: &Policy,
    total: f64,
) -> Candidate {
    let content = Content::of(&graph);
    Candidate {
        kind: Kind::Part,
        device: device.clone(),
        fingerprint,
        models: BTreeSet::new(),
        words: format!("{} nodes of a plan", part.nodes.len()),
        constants: content.constants(),
        content: content.to_json(),
        half_width: None,
        batches: 0,
        left_out: false,
        model: model.part("a part of a plan", graph),
        identity: device.identity(),
        operating_point: policy.settings().operating_point(device.info().kind),
        weight: part.cost.time.picoseconds() as f64 / total,
        samples: 0,
        stored: 0,
    }
}

/// A candidate that is ready to run.
pub(super) struct Loaded {
    session: Session,
    inputs: Vec<crate::Input>,
    latencies: Vec<u64>,
    /// Runs of a turn, of which the last counts.
    each: usize,
    /// Longest that a run may take.
    patience: Duration,
}

impl Loaded {
    pub(super) fn new(runtime: &Runtime, policy: &Policy, candidate: &Candidate) -> Result<Loaded> {
        let is_back_to_back = policy.shortest_period().is_none();
        // an app runs a whole model again and again: it finds its constants where its own last run left them
        let each = if candidate.kind == Kind::Whole && is_back_to_back {
            2
        } else {
            1
        };
        Loaded::of(
            runtime,
            policy,
            &candidate.device,
            &candidate.model,
            each,
            PATIENCE,
        )
    }

    /// A model on a device alone, which is run `each` times in a turn.
    pub(super) fn of(
        runtime: &Runtime,
        policy: &Policy,
        device: &Device,
        model: &Model,
        each: usize,
        patience: Duration,
    ) -> Result<Loaded> {
        if runtime.0.host.clock().is_virtual() && !device.info().emulated {
            let words = format!("the clock is virtual, but {} runs in real time", device.name());
            return Err(Error::new(ErrorKind::DeviceFailed, words));
        }
        let policy = policy
            .clone()
            .devices([device.name()])
            .without_pins()
            .in_flight(1)
            .replan(false)
            .retry(0)
            .hang_timeout(patience);
        let session = runtime.session(model, policy)?;
        let parts = session.plan().map_or(0, |plan| plan.parts.len());
        if parts != 1 {
            let words = format!("{parts} parts on {} alone", device.name());
            return Err(Error::new(ErrorKind::BadPlan, words));
        }
        let names: Vec<(String, DType)> = session
            .inputs()
            .map(|spec| (spec.name.clone(), spec.dtype))
            .collect();
        let mut inputs = Vec::with_capacity(names.len());
        for (name, dtype) in names {
            let mut input = session.input(&name)?;
            let half = half(dtype);
            for value in input.bytes_mut()?.chunks_mut(half.len()) {
                value.copy_from_slice(&half[..value.len()]);
            }
            inputs.push(input);
        }
        Ok(Loaded {
            session,
            inputs,
            latencies: Vec::new(),
            each,
            patience,
        })
    }

    /// Forgets the runs so far: what follows counts, but for the first turn.
    pub(super) fn begin(&mut self) {
        self.latencies.clear();
        let plan = self
            .session
            .0
            .latest()
            .and_then(|inner| inner.current().plan.clone());
        if let Some(plan) = plan {
            drop(plan.forget());
        }
    }

    /// One turn.
    pub(super) fn run(&mut self) -> Result<()> {
        let inputs: Vec<&crate::Input> = self.inputs.iter().collect();
        for _ in 0..self.each {
            let start = Instant::now();
            drop(self.session.submit(&inputs)?.wait(self.patience)?);
            self.latencies
                .push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Calls `read` during an uncounted run.
    pub(super) fn run_while<T>(&mut self, read: impl FnOnce() -> T) -> T {
        let inputs: Vec<&crate::Input> = self.inputs.iter().collect();
        let run = self.session.submit(&inputs);
        let found = read();
        if let Ok(run) = run {
            // a run that fails now would have failed before
            drop(run.wait(self.patience));
        }
        found
    }

    /// Times and energies on the device of the runs that count.
    pub(super) fn measurements(&self) -> Vec<Measurement> {
        let plan = self
            .session
            .0
            .latest()
            .and_then(|inner| inner.current().plan.clone());
        let Some(plan) = plan else { return Vec::new() };
        let history = plan
            .history
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // the history leaves the first run out itself
        let times = history.part(0).skip(2 * self.each - 2).step_by(self.each);
        times
            .map(|(ns, energy_uj)| Measurement {
                time: Time::from_nanoseconds(ns),
                energy_uj,
            })
            .collect()
    }

    /// Times from submit to outputs in nanoseconds of the runs that count.
    pub(super) fn latencies(&self) -> Vec<u64> {
        let counted = self.latencies.iter().skip(2 * self.each - 1);
        counted.step_by(self.each).copied().collect()
    }

    /// Half the width of the interval of the median over the median.
    pub(super) fn half_width(&self) -> Option<f64> {
        let measured = self.measurements();
        let mut times: Vec<u64> = measured.iter().map(|one| one.time.nanoseconds()).collect();
        times.sort_unstable();
        median_interval(&times).map(|interval| interval.half_width())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // what is to be recorded was recorded under the candidate's key
        let plan = self
            .session
            .0
            .latest()
            .and_then(|inner| inner.current().plan.clone());
        if let Some(plan) = plan {
            drop(plan.forget());
        }
    }
}

/// A half in floats, so that no chain of products leaves the normal numbers; zero in integers, which is an index that
/// every table has.
fn half(dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => 0.5f32.to_le_bytes().to_vec(),
        DType::F64 => 0.5f64.to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f32(0.5).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f32(0.5).to_le_bytes().to_vec(),
        _ => vec![0],
    }
}
