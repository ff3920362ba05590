//! A report: each item on each board type in the newest snapshot, with its history over all snapshots.
//!
//! A snapshot holds the measurements of one time: one run, or the alternating runs of a build.
//!
//! Invariants:
//! 1. The figures of a cell come from one named snapshot; snapshots are never averaged.
//! 2. Without pairs against a baseline a cell shows only measurements; the trend is only drawn.
//!
//! Not here: rendering (`page`, `junit`).

mod csv;
mod junit;
mod page;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use polychip_farm_record::{
    EnergyOutcome, Item, Job, Measured, Outcome, PlannedPart, Record, RefusedOps, printable,
};
use polychip_profile::{Interval, median_interval};
use schemars::JsonSchema;
use serde::Serialize;

use crate::batch::{batch_median, measured, sources};
use crate::compare::{Comparison, Row, with_places};
use crate::kind::{Kind, Kinds};
use crate::selection::{Selection, Source, build_words};

/// What was measured at one time.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// What it is called.
    pub name: String,
    /// Its runs.
    pub runs: Selection,
}

/// Contents of a report.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotLine>,
    /// Items on board types.
    pub cells: Vec<Cell>,
    /// Cut lines, missing items and silent boards of the newest snapshot, a line each.
    pub troubles: Vec<String>,
    /// The comparison with a baseline, if there is one.
    pub comparison: Option<Comparison>,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SnapshotLine {
    /// What it is called.
    pub name: String,
    /// When its first run began: seconds since 1970 in UTC.
    pub started_s: u64,
    /// Names of its runs.
    pub runs: Vec<String>,
    /// Commits under test, if given.
    pub commits: Vec<String>,
    /// Builds that measured, as text.
    pub builds: Vec<String>,
    /// Records.
    pub records: usize,
}

/// An item on a board type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Cell {
    /// The item, as text.
    pub item: String,
    /// What was done.
    pub job: Job,
    /// The board type.
    pub kind: String,
    /// Figures are of an emulated board or device.
    pub emulated: bool,
    /// How it ended in the newest snapshot that has it.
    pub ended: Status,
    /// Why it was refused, failed or skipped.
    pub reason: Option<String>,
    /// By snapshot, oldest first, omitting those without a time.
    pub history: Vec<Point>,
    /// Energy of a run of the model.
    pub energy: Option<EnergyLine>,
    /// Parts of the plan.
    pub plan: Vec<PartLine>,
    /// Share of the plan's time by device, in thousandths.
    pub shares: Vec<Share>,
    /// Predicted time of the plan, in nanoseconds.
    pub predicted_ns: Option<u64>,
    /// Time to import, plan, compile and load, in nanoseconds.
    pub load_ns: Option<u64>,
    /// Most memory that the process had resident, in bytes.
    pub peak_bytes: Option<u64>,
    /// Refusals of devices.
    pub refused: Vec<RefusedLine>,
    /// Windows of a soak: end in milliseconds, median in nanoseconds.
    pub windows: Vec<(u64, u64)>,
    /// Cases of a suite that passed.
    pub passed: Option<u32>,
    /// Cases of a suite that failed.
    pub failed: Vec<String>,
    /// Time that measuring took in the newest snapshot that has it, with preparation, in milliseconds.
    pub took_ms: u64,
    /// What the figures are of.
    pub sources: Vec<Source>,
}

/// Outcome of an item; of several records, the last in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// No board did it.
    NotDone,
    /// It ran.
    Measured,
    /// Its devices do not run it.
    Refused,
    /// It failed by itself.
    Failed,
}

/// A snapshot's time of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Point {
    /// The snapshot.
    pub snapshot: String,
    /// Median of the batches' medians, in nanoseconds.
    pub median_ns: u64,
    /// 95 % confidence interval of that median; absent for fewer than six batches.
    pub interval: Option<Interval>,
    /// Batches.
    pub batches: usize,
}

/// Energy of a run of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EnergyLine {
    /// In nanojoules.
    pub nanojoules: u64,
    /// How it came about.
    pub provenance: String,
}

/// A part of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartLine {
    /// Device.
    pub device: String,
    /// Nodes.
    pub nodes: u64,
    /// Time, in nanoseconds.
    pub ns: u64,
    /// How the time came about.
    pub provenance: String,
}

/// A device's share of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// Device.
    pub device: String,
    /// Share of the time, in thousandths.
    pub permille: u64,
    /// Nodes.
    pub nodes: u64,
}

/// Refusals of a device for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedLine {
    /// Device.
    pub device: String,
    /// Op.
    pub op: String,
    /// Nodes.
    pub nodes: u64,
    /// Why.
    pub reason: String,
}

impl Report {
    /// The report of some snapshots, with a comparison where one was made.
    #[must_use]
    pub fn new(snapshots: &[Snapshot], comparison: Option<Comparison>) -> Report {
        let mut snapshots: Vec<&Snapshot> = snapshots.iter().collect();
        snapshots.sort_by(|a, b| a.order().cmp(&b.order()));
        let all = snapshots.iter().flat_map(|snapshot| snapshot.runs.records());
        let kinds = Kinds::of(all);
        let mut groups: BTreeMap<(&Item, Kind), BTreeMap<usize, Vec<&Record>>> = BTreeMap::new();
        for (at, snapshot) in snapshots.iter().enumerate() {
            for record in snapshot.runs.records() {
                let of_item = groups.entry((&record.item, kinds.kind(record))).or_default();
                of_item.entry(at).or_default().push(record);
            }
        }
        let cells = groups.into_iter().filter_map(|((item, kind), found)| {
            let found = found
                .into_iter()
                .map(|(at, records)| (snapshots[at].name.as_str(), records));
            cell(item, kind, &found.collect::<Vec<_>>())
        });
        let newest = snapshots.last();
        Report {
            cells: cells.collect(),
            troubles: newest
                .map(|snapshot| troubles(&snapshot.runs))
                .unwrap_or_default(),
            snapshots: snapshots.iter().map(|snapshot| snapshot.line()).collect(),
            comparison,
        }
    }

    /// How much it shows, in a sentence.
    pub(crate) fn summary(&self) -> String {
        let boards: BTreeSet<String> = self.cells.iter().map(Cell::board).collect();
        let items: BTreeSet<&str> = self.cells.iter().map(|cell| cell.item.as_str()).collect();
        let counts = match &self.comparison {
            Some(comparison) => format!("; against the baseline: {}", comparison.counts()),
            None => String::new(),
        };
        format!(
            "items: {}, board types: {}, snapshots: {}{counts}",
            items.len(),
            boards.len(),
            self.snapshots.len()
        )
    }

    /// The row of the comparison that a cell has.
    pub(crate) fn row(&self, cell: &Cell) -> Option<&Row> {
        let mut rows = self.comparison.as_ref()?.rows.iter();
        rows.find(|row| (&row.item, &row.kind) == (&cell.item, &cell.kind) && row.emulated == cell.emulated)
    }
}

impl Cell {
    /// The newest time.
    #[must_use]
    pub fn newest(&self) -> Option<&Point> {
        self.history.last()
    }

    /// The board type, with the label of emulated figures.
    #[must_use]
    pub fn board(&self) -> String {
        let name = printable(&self.kind).into_owned();
        if self.emulated { name + " (emulated)" } else { name }
    }
}

impl Cell {
    /// Names of the boards that measured it in the newest snapshot that has it.
    #[must_use]
    pub fn places(&self) -> Vec<String> {
        let places: BTreeSet<&String> = self.sources.iter().map(|source| &source.place).collect();
        places.into_iter().cloned().collect()
    }

    /// The board type with the names of its boards.
    pub(crate) fn on(&self) -> String {
        with_places(self.board(), &self.kind, &self.places())
    }
}

impl Snapshot {
    /// When its first run began, in seconds since 1970.
    #[must_use]
    pub fn started_s(&self) -> u64 {
        let starts = self.runs.runs().map(|run| run.header.started_s);
        starts.min().unwrap_or(0)
    }

    /// By what snapshots are put in the order of time.
    #[must_use]
    pub fn order(&self) -> (u64, &str) {
        (self.started_s(), &self.name)
    }

    fn line(&self) -> SnapshotLine {
        let commits: BTreeSet<&String> = self
            .runs
            .runs()
            .filter_map(|run| run.header.commit.as_ref())
            .collect();
        SnapshotLine {
            name: self.name.clone(),
            started_s: self.started_s(),
            runs: self.runs.runs().map(|run| run.header.id.clone()).collect(),
            commits: commits.into_iter().cloned().collect(),
            builds: self.runs.builds().iter().map(build_words).collect(),
            records: self.runs.records().count(),
        }
    }
}

fn troubles(runs: &Selection) -> Vec<String> {
    let torn = runs.torn().into_iter().map(|torn| torn.to_string());
    let missing = runs.missing().into_iter().map(|missing| missing.to_string());
    let silent = runs.silent().into_iter().map(|silent| silent.to_string());
    torn.chain(missing).chain(silent).collect()
}

/// The cell of an item, by the records of each snapshot that has it, oldest first.
fn cell(item: &Item, kind: Kind, snapshots: &[(&str, Vec<&Record>)]) -> Option<Cell> {
    let (_, newest) = snapshots.last()?;
    let (ended, reason) = newest
        .iter()
        .map(|record| status_of(record))
        .max_by_key(|(ended, _)| *ended)?;
    let figures: Vec<&Measured> = newest.iter().filter_map(|record| measured(record)).collect();
    // of what does not change from batch to batch, what was said last
    let last = |has: &dyn Fn(&Measured) -> bool| figures.iter().rev().find(|one| has(one)).copied();
    let plan = last(&|one| !one.plan.is_empty()).map_or(&[][..], |one| &one.plan);
    let soak = last(&|one| !one.windows.is_empty()).map_or(&[][..], |one| &one.windows);
    let refused = last(&|one| !one.refused.is_empty()).map_or(&[][..], |one| &one.refused);
    let failed: BTreeSet<&String> = figures.iter().flat_map(|one| &one.failed).collect();
    Some(Cell {
        item: item.to_string(),
        job: item.job,
        kind: kind.name,
        emulated: kind.emulated || figures.iter().any(|one| one.emulated),
        ended,
        reason,
        history: snapshots
            .iter()
            .filter_map(|(name, records)| point(name, records))
            .collect(),
        energy: last(&|one| one.energy.is_some())
            .and_then(|one| one.energy.as_ref())
            .map(energy),
        shares: shares(plan),
        plan: plan.iter().map(part).collect(),
        predicted_ns: last(&|one| one.predicted_ns.is_some()).and_then(|one| one.predicted_ns),
        load_ns: last(&|one| one.load_ns.is_some()).and_then(|one| one.load_ns),
        peak_bytes: figures.iter().filter_map(|one| one.peak_bytes).max(),
        refused: refused.iter().map(refusal).collect(),
        windows: soak
            .iter()
            .map(|window| (window.end_ms, window.median_ns))
            .collect(),
        passed: figures.iter().filter_map(|one| one.passed).min(),
        failed: failed.into_iter().cloned().collect(),
        took_ms: newest.iter().map(|record| record.took_ms).sum(),
        sources: sources(newest.iter().copied()),
    })
}

fn status_of(record: &Record) -> (Status, Option<String>) {
    match &record.outcome {
        Outcome::Measured(_) => (Status::Measured, None),
        Outcome::Refused { reason } => (Status::Refused, Some(reason.clone())),
        Outcome::Failed(failure) if !failure.board => (Status::Failed, Some(failure.reason.clone())),
        // where another board has measured it, that one did not says nothing of the item
        Outcome::Failed(failure) => (Status::NotDone, Some(failure.reason.clone())),
        Outcome::Skipped { reason } => (Status::NotDone, Some(reason.clone())),
    }
}

/// A snapshot's time; none where nothing was timed.
fn point(snapshot: &str, records: &[&Record]) -> Option<Point> {
    let medians = records.iter().filter_map(|record| batch_median(record));
    let mut medians: Vec<u64> = medians.map(|median| median.round() as u64).collect();
    medians.sort_unstable();
    Some(Point {
        snapshot: snapshot.to_owned(),
        median_ns: *medians.get(medians.len() / 2)?,
        interval: median_interval(&medians),
        batches: medians.len(),
    })
}

fn energy(energy: &EnergyOutcome) -> EnergyLine {
    EnergyLine {
        nanojoules: energy.nanojoules,
        provenance: energy.provenance.clone(),
    }
}

fn part(part: &PlannedPart) -> PartLine {
    PartLine {
        device: part.device.clone(),
        nodes: part.nodes,
        ns: part.ns,
        provenance: part.provenance.clone(),
    }
}

fn refusal(refused: &RefusedOps) -> RefusedLine {
    RefusedLine {
        device: refused.device.clone(),
        op: refused.op.clone(),
        nodes: refused.nodes,
        reason: refused.reason.clone(),
    }
}

fn shares(plan: &[PlannedPart]) -> Vec<Share> {
    let all: u128 = plan.iter().map(|part| u128::from(part.ns)).sum();
    let mut devices: BTreeMap<&str, (u128, u64)> = BTreeMap::new();
    for part in plan {
        let of_device = devices.entry(&part.device).or_default();
        *of_device = (of_device.0 + u128::from(part.ns), of_device.1 + part.nodes);
    }
    let shares = devices.into_iter().map(|(device, (ns, nodes))| Share {
        device: device.to_owned(),
        permille: u64::try_from(ns * 1_000 / all.max(1)).unwrap_or(0),
        nodes,
    });
    shares.collect()
}
