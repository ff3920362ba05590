//! The session report: plan, predicted and measured figures, for people (`Display`) and programs
//! (JSON).
//!
//! Invariant: every figure has a unit in its name and a provenance; emulated ones are labelled.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use polychip_partitioner::report::size;
use polychip_partitioner::{DeviceIndex, Energy, EnergyRange, Part};
use polychip_profile::Cadence;
use schemars::JsonSchema;
use serde::Serialize;

use crate::event::{Event, EventKind};
use crate::memory_account::{MemoryReport, mebibytes};
use crate::model::Model;
use crate::planned::Planned;
use crate::session::deadline_miss::{LatencyReport, LatenessReport};
use crate::session::govern::report::{GovernedReport, MissedLimit};
use crate::session::govern::state::Governing;
use crate::session::learn::report::LearningReport;
use crate::session::replicas::ReplicaReport;
use crate::session::specialization_report::ShapesReport;
use crate::session::specialization_state::Inner;
use crate::warning::{self, Warning};

/// The figures of a session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Model file.
    pub model: String,
    /// The plan's objective and limits, as text.
    pub objective: String,
    /// The cadence of the runs: the one the plan was made for, until runs deviate for some time.
    pub cadence: Cadence,
    /// Time between run starts in nanoseconds, as the policy states it or as measured; 0: back to
    /// back.
    pub period_ns: u64,
    /// Whether the placement is proved optimal.
    pub optimal: bool,
    /// Predicted time of a run in nanoseconds.
    pub predicted_ns: u64,
    /// Provenance of the prediction: measured, composed, predicted, estimated or roofline; none
    /// before planning.
    pub provenance: &'static str,
    /// Whether at least one figure is an emulated device's.
    pub emulated: bool,
    /// Predicted energy of a run, including launches and crossings; none before planning.
    pub energy: Option<EnergyFigure>,
    /// Predicted energy of a period, including the idle power of the plan's devices; none if runs
    /// are back to back, or the idle power is unknown.
    pub frame_energy: Option<EnergyFigure>,
    /// Measured median latency in nanoseconds, from submit to the end of the last part.
    pub measured_ns: Option<u64>,
    /// Runs of this session so far.
    pub runs: u64,
    /// The deadline of a run in nanoseconds; none if neither the policy nor a hint sets one. A run
    /// may have its own.
    pub deadline_ns: Option<u64>,
    /// Runs that took longer than their deadline.
    pub late: u64,
    /// Runs dropped before all of their parts were submitted to devices; `runs` does not include
    /// them.
    pub dropped: u64,
    /// Latency percentiles; none before the first run.
    pub latency: Option<LatencyReport>,
    /// Late runs by cause, most frequent first; at most 32 causes and parts.
    pub lateness: Vec<LatenessReport>,
    /// Temperature and power limits that the sensors of a governed session saw exceeded.
    pub missed_limits: Vec<MissedLimit>,
    /// Shared memory of the tensors between parts, in bytes.
    pub arena_bytes: u64,
    /// Memory of the same tensors without sharing, in bytes.
    pub unshared_bytes: u64,
    /// Explicit copies of tensors in the runs of this plan: between devices, and between the app's
    /// memory and devices that cannot use it in place.
    pub copies: u64,
    /// Size of these copies, in bytes.
    pub copied_bytes: u64,
    /// Bytes of tensors that devices read without a copy in memory that another device wrote, in the
    /// runs of this plan. A tensor that two devices read counts twice.
    pub shared_bytes: u64,
    /// Bytes of part inputs and outputs that plugins copied or converted instead of using in place,
    /// including those that crossed a link to a device's own memory. A plugin that does not report
    /// them counts as 0.
    pub device_copied_bytes: u64,
    /// What the session holds ([`Session::resident_bytes`](crate::Session::resident_bytes)), in bytes.
    pub resident_bytes: u64,
    /// Whether the session is parked: its next run loads the plan again.
    pub parked: bool,
    /// What all sessions of the runtime hold, and the limit.
    pub memory: MemoryReport,
    /// The parts in order.
    pub parts: Vec<PartReport>,
    /// Tensors that cross between devices or parts.
    pub crossings: Vec<CrossingReport>,
    /// Deviations from the plan: refusals, moves, losses, resets, retries.
    pub events: Vec<Event>,
    /// Number of events by kind, including those that are not listed.
    pub event_counts: Vec<EventCount>,
    /// Replicas of the model, each on its own devices; empty if there is only one. `parts` and
    /// `crossings` are those of the first.
    pub replicas: Vec<ReplicaReport>,
    /// Doubtful predictions: the runs contradict them, or the part was measured only at other
    /// settings.
    pub warnings: Vec<Warning>,
    /// Ready plans and switches between them; none if the session is not governed.
    pub governed: Option<GovernedReport>,
    /// Results of learning from the session's own runs; none if its plan is frozen, or there is no
    /// other device.
    pub learning: Option<LearningReport>,
    /// Cached sizes; none if the model leaves no size open.
    pub shapes: Option<ShapesReport>,
}

/// A predicted energy. Limits apply to the upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EnergyFigure {
    /// Expected energy in nanojoules.
    pub expected_nj: u64,
    /// Lower bound in nanojoules.
    pub low_nj: u64,
    /// Upper bound in nanojoules.
    pub high_nj: u64,
    /// Weakest provenance of its figures: measured, fitted (to measured energies of other runs),
    /// vendor (stated by the plugin), family (the nearest known chip), default (a device of its
    /// class).
    pub provenance: &'static str,
}

impl EnergyFigure {
    /// Adds the idle energy of the plan's devices over a period, which the energy of a run
    /// excludes.
    fn with_rest(self, planned: &Planned, period_ns: u64) -> Option<EnergyFigure> {
        let targets = planned.targets();
        let used = planned.used_devices().into_iter();
        let idle = used.map(|device| {
            let target = &targets[device.index()];
            let stated = target.power.map(|power| power.idle.milliwatts());
            target.idle.map(|idle| idle.milliwatts()).or(stated)
        });
        // without an idle power for each device the sum is unknown, not 0
        let idle_mw = idle.sum::<Option<u64>>()?;
        if idle_mw == 0 || period_ns == 0 {
            return None;
        }
        // a milliwatt for a nanosecond is a picojoule
        let rest_nj = u128::from(idle_mw) * u128::from(period_ns) / 1_000;
        let rest_nj = u64::try_from(rest_nj).unwrap_or(u64::MAX);
        Some(EnergyFigure {
            expected_nj: self.expected_nj.saturating_add(rest_nj),
            low_nj: self.low_nj.saturating_add(rest_nj),
            high_nj: self.high_nj.saturating_add(rest_nj),
            provenance: self.provenance,
        })
    }

    fn of(range: EnergyRange) -> EnergyFigure {
        EnergyFigure {
            expected_nj: range.expected.nanojoules(),
            low_nj: range.low.nanojoules(),
            high_nj: range.high.nanojoules(),
            provenance: range.provenance.word(),
        }
    }
}

impl fmt::Display for EnergyFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [expected, low, high] =
            [self.expected_nj, self.low_nj, self.high_nj].map(Energy::from_nanojoules);
        if low == high {
            write!(f, "{expected} ({})", self.provenance)
        } else {
            write!(f, "{expected} ({}, {low} to {high})", self.provenance)
        }
    }
}

/// The number of events of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventCount {
    /// The kind.
    pub kind: EventKind,
    /// The number.
    pub count: u64,
}

/// The figures of one part.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartReport {
    /// Stable id.
    pub id: String,
    /// Device, `plugin:index`.
    pub device: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Predicted time in nanoseconds, without the launch.
    pub predicted_ns: u64,
    /// Provenance of the prediction.
    pub provenance: &'static str,
    /// Whether the figures are an emulated device's.
    pub emulated: bool,
    /// Predicted energy, without the launch; none if unknown.
    pub energy: Option<EnergyFigure>,
    /// Measured median time on the device in nanoseconds.
    pub measured_ns: Option<u64>,
    /// Device memory of constants and code, in bytes.
    pub constant_bytes: u64,
    /// Device memory of intermediate tensors, in bytes.
    pub intermediate_bytes: u64,
    /// Whether the compiled part came from the cache.
    pub cached: bool,
}

/// A tensor that crosses between devices or parts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CrossingReport {
    /// Name of the tensor.
    pub tensor: String,
    /// The device that writes it.
    pub from: String,
    /// The device that reads it.
    pub to: String,
    /// Size in bytes, if known before the run.
    pub bytes: Option<u64>,
    /// How it travels: native, imported or copy.
    pub mode: &'static str,
    /// Predicted time of the transfer in nanoseconds.
    pub predicted_ns: u64,
    /// Provenance of the prediction.
    pub provenance: &'static str,
}

impl Report {
    /// The number of events of this kind.
    #[must_use]
    pub fn count(&self, kind: EventKind) -> u64 {
        let line = self.event_counts.iter().find(|line| line.kind == kind);
        line.map_or(0, |line| line.count)
    }

    pub(crate) fn new(inner: &Inner) -> Report {
        let (planned, loaded, settings) = {
            let current = inner.current();
            let settings = current.policy.settings();
            (Arc::clone(&current.planned), current.plan.clone(), settings)
        };
        let mut log = inner
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(words) = inner.shared.profile.trouble() {
            log.extend([Event::new(EventKind::ProfileUnused, "profile", 0, words)]);
        }
        log.extend(inner.lateness.events());
        // before the figures are locked, which the governor locks within its own lock
        let governed = inner.governing.as_ref().map(Governing::report);
        let missed_limits = inner.governing.as_ref().map(Governing::missed_limits);
        // runs wait for the history at their end, and what follows may wait for the profile
        let (latency_median, part_medians) = match &loaded {
            Some(loaded) => {
                let history = loaded.history.lock().unwrap_or_else(PoisonError::into_inner);
                let parts = 0..loaded.wiring.parts.len();
                (
                    history.latency_median(),
                    parts.map(|part| history.part_median(part)).collect(),
                )
            }
            None => (None, Vec::new()),
        };
        let part_median = |part: usize| part_medians.get(part).copied().flatten();
        let footprint = loaded.as_ref().map(|loaded| loaded.footprint).unwrap_or_default();
        // of all copies of the model
        let plans = loaded
            .iter()
            .flat_map(|first| std::iter::once(first).chain(first.others()));
        let (mut copies, mut copied_bytes, mut shared_bytes, mut device_copied_bytes) = (0, 0, 0, 0);
        for plan in plans {
            let copied = &plan.wiring.copied;
            copies += copied.copies();
            copied_bytes += copied.bytes();
            shared_bytes += copied.shared_bytes();
            device_copied_bytes += copied.bytes_in_devices();
        }
        let plan = planned.plan();
        let device = |index: DeviceIndex| planned.devices()[index.index()].name().to_owned();
        let part = |(index, part): (usize, &Part)| {
            let info = loaded
                .as_ref()
                .map(|loaded| loaded.wiring.parts[index].executable.info());
            PartReport {
                id: part.id.clone(),
                device: device(part.device),
                nodes: part.nodes.len(),
                predicted_ns: part.cost.time.nanoseconds(),
                provenance: part.cost.provenance.word(),
                emulated: part.cost.emulated,
                energy: part.cost.range().map(EnergyFigure::of),
                measured_ns: part_median(index),
                constant_bytes: info.map_or(0, |info| info.constant_bytes),
                intermediate_bytes: info.map_or(0, |info| info.arena_bytes),
                cached: loaded.as_ref().is_some_and(|loaded| loaded.is_cached(index)),
            }
        };
        let energy = plan.totals.range().map(EnergyFigure::of);
        let period = inner.policy.stated_period().or(inner.pace.period());
        let period_ns = u64::try_from(period.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
        let priced = planned.priced(&inner.shared.profile, settings);
        let steps = loaded.as_ref().map(|loaded| inner.tracer.step_times(loaded));
        let mut warnings = warning::of_runs(priced, part_median, &steps.unwrap_or_default());
        warnings.extend(planned.warnings().iter().cloned());
        Report {
            model: planned.model().path().display().to_string(),
            objective: plan.objective.description(),
            cadence: inner.pace.cadence(),
            period_ns,
            optimal: plan.certificate.is_optimal(),
            predicted_ns: plan.totals.time.nanoseconds(),
            provenance: plan.totals.provenance.word(),
            emulated: plan.totals.emulated,
            energy,
            frame_energy: energy.and_then(|run| run.with_rest(&planned, period_ns)),
            measured_ns: latency_median,
            runs: inner.runs.load(Ordering::Relaxed),
            deadline_ns: inner.lateness.deadline_ns(),
            late: inner.lateness.late_runs(),
            dropped: log.count(EventKind::Dropped),
            latency: inner.lateness.latency(),
            lateness: inner.lateness.report(),
            missed_limits: missed_limits.unwrap_or_default(),
            arena_bytes: footprint.arena_bytes,
            unshared_bytes: footprint.unshared_bytes,
            copies,
            copied_bytes,
            shared_bytes,
            device_copied_bytes,
            resident_bytes: 0,
            parked: false,
            memory: MemoryReport::default(),
            parts: plan.parts.iter().enumerate().map(part).collect(),
            crossings: plan
                .crossings
                .iter()
                .map(|crossing| {
                    let id = polychip_graph::TensorId::new(crossing.tensor as usize);
                    CrossingReport {
                        tensor: planned.graph().tensor(id).name.clone(),
                        from: device(crossing.from_device),
                        to: device(crossing.to_device),
                        bytes: crossing.bytes,
                        mode: crossing.mode.word(),
                        predicted_ns: crossing.time.nanoseconds(),
                        provenance: crossing.provenance.word(),
                    }
                })
                .collect(),
            events: log.events().to_vec(),
            event_counts: EventKind::ALL
                .iter()
                .map(|&kind| EventCount {
                    kind,
                    count: log.count(kind),
                })
                .filter(|line| line.count > 0)
                .collect(),
            replicas: loaded
                .as_ref()
                .and_then(|loaded| loaded.replicas())
                .map_or_else(Vec::new, |replicas| replicas.report()),
            warnings,
            governed,
            learning: inner.learning.as_ref().map(|learning| learning.report()),
            shapes: None,
        }
    }

    /// The report of a session without a plan.
    pub(crate) fn unplanned(model: Option<&Model>) -> Report {
        Report {
            model: model.map_or_else(String::new, |model| model.path().display().to_string()),
            objective: String::new(),
            cadence: Cadence::BackToBack,
            period_ns: 0,
            optimal: false,
            predicted_ns: 0,
            provenance: "none",
            emulated: false,
            energy: None,
            frame_energy: None,
            measured_ns: None,
            runs: 0,
            deadline_ns: None,
            late: 0,
            dropped: 0,
            latency: None,
            lateness: Vec::new(),
            missed_limits: Vec::new(),
            arena_bytes: 0,
            unshared_bytes: 0,
            copies: 0,
            copied_bytes: 0,
            shared_bytes: 0,
            device_copied_bytes: 0,
            resident_bytes: 0,
            parked: false,
            memory: MemoryReport::default(),
            parts: Vec::new(),
            crossings: Vec::new(),
            events: Vec::new(),
            event_counts: Vec::new(),
            replicas: Vec::new(),
            warnings: Vec::new(),
            governed: None,
            learning: None,
            shapes: None,
        }
    }
}

impl Report {
    /// Writes what the session and all sessions hold.
    fn fmt_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parked = if self.parked { ", parked" } else { "" };
        let own = mebibytes(self.resident_bytes);
        writeln!(
            f,
            "memory: {own} in this session{parked}; all sessions: {}",
            self.memory
        )
    }

    /// Writes how many bytes were shared and copied; nothing if one device works on the app's memory.
    fn fmt_transfers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crosses = self.crossings.iter().any(|crossing| crossing.from != crossing.to);
        if !crosses && self.copied_bytes == 0 && self.device_copied_bytes == 0 {
            return Ok(());
        }
        let copies = if self.copies == 1 { "copy" } else { "copies" };
        writeln!(
            f,
            "all runs of this plan: {} shared between devices, {} copied in {} {copies}, {} copied within plugins",
            size(self.shared_bytes),
            size(self.copied_bytes),
            self.copies,
            size(self.device_copied_bytes)
        )
    }

    /// Writes latency percentiles and the number of late runs.
    fn fmt_latency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(latency) = &self.latency {
            writeln!(
                f,
                "runs took: p50 {}, p90 {}, p95 {}, p99 {}, worst {}",
                time(latency.p50_ns),
                time(latency.p90_ns),
                time(latency.p95_ns),
                time(latency.p99_ns),
                time(latency.worst_ns)
            )?;
        }
        match self.deadline_ns {
            Some(deadline) => writeln!(
                f,
                "deadline {}: {} of {} runs late",
                time(deadline),
                self.late,
                self.runs
            )?,
            // of runs with deadlines of their own
            None if self.late > 0 => writeln!(f, "{} of {} runs late", self.late, self.runs)?,
            None => {}
        }
        if self.dropped > 0 {
            writeln!(f, "{} runs dropped", self.dropped)?;
        }
        Ok(())
    }
}

/// Nanoseconds as milliseconds or microseconds.
fn time(ns: u64) -> String {
    if ns >= 1_000_000 {
        format!("{:.2} ms", ns as f64 / 1e6)
    } else {
        format!("{:.1} µs", ns as f64 / 1e3)
    }
}

fn measured(ns: Option<u64>) -> String {
    ns.map_or_else(|| "not yet".into(), time)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |emulated: bool| if emulated { ", emulated" } else { "" };
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
        table.set_header([
            "part",
            "device",
            "nodes",
            "predicted",
            "from",
            "measured",
            "constants",
        ]);
        for part in &self.parts {
            table.add_row([
                part.id.clone(),
                part.device.clone(),
                part.nodes.to_string(),
                time(part.predicted_ns),
                format!("{}{}", part.provenance, label(part.emulated)),
                measured(part.measured_ns),
                format!("{:.1} MiB", part.constant_bytes as f64 / f64::from(1 << 20)),
            ]);
        }
        writeln!(f, "{table}")?;
        for crossing in &self.crossings {
            let bytes = crossing
                .bytes
                .map_or_else(|| "size known at run time".into(), size);
            writeln!(
                f,
                "{} → {}: {} ({bytes}, {}, {} {})",
                crossing.from,
                crossing.to,
                crossing.tensor,
                crossing.mode,
                time(crossing.predicted_ns),
                crossing.provenance
            )?;
        }
        if !self.replicas.is_empty() {
            let count = self.replicas.len();
            writeln!(
                f,
                "replicas: each run uses one of {count}; the parts above are the first one's"
            )?;
        }
        for replica in &self.replicas {
            writeln!(f, "{replica}")?;
        }
        self.fmt_transfers(f)?;
        for event in &self.events {
            writeln!(f, "{event}")?;
        }
        for missed in &self.missed_limits {
            writeln!(f, "{missed}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "{warning}")?;
        }
        let proof = if self.optimal {
            "optimal for these costs"
        } else {
            "not proved optimal"
        };
        if let Some(shapes) = &self.shapes {
            writeln!(
                f,
                "shapes: {} kept in {:.1} of {:.1} MiB, {} hits, {} misses, {} evicted",
                shapes.kept.len(),
                shapes.bytes as f64 / f64::from(1 << 20),
                shapes.limit_bytes as f64 / f64::from(1 << 20),
                shapes.hits,
                shapes.misses,
                shapes.dropped
            )?;
            if !shapes.buckets.is_empty() {
                writeln!(
                    f,
                    "buckets: {:?}, {} runs padded, {:.1} KiB copied",
                    shapes.buckets,
                    shapes.padded_runs,
                    shapes.padded_bytes as f64 / 1024.0
                )?;
            }
            if shapes.stand_in_runs > 0 || shapes.took_over > 0 {
                writeln!(
                    f,
                    "background planning: {} runs on CPU-only plans, {} plans took over, {} pending",
                    shapes.stand_in_runs, shapes.took_over, shapes.planning
                )?;
            }
        }
        self.fmt_memory(f)?;
        self.fmt_latency(f)?;
        if let Some(learning) = &self.learning {
            writeln!(f, "learning: {}", learning.words)?;
        }
        if let Some(energy) = &self.energy {
            writeln!(f, "predicted energy of a run: {energy}")?;
        }
        if let Some(energy) = &self.frame_energy {
            let period = time(self.period_ns);
            writeln!(
                f,
                "predicted energy of a {period} period, including idle power: {energy}"
            )?;
        }
        if self.period_ns > 0 {
            writeln!(
                f,
                "cadence: {}, a run every {}",
                self.cadence,
                time(self.period_ns)
            )?;
        }
        write!(
            f,
            "plan: {} ({}{}), {proof}, {}; ",
            time(self.predicted_ns),
            self.provenance,
            label(self.emulated),
            self.objective,
        )?;
        match self.measured_ns {
            Some(ns) => write!(f, "measured: {} over {} runs", time(ns), self.runs),
            None => f.write_str("not measured yet"),
        }
    }
}
