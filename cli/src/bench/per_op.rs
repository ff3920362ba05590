//! `polychip bench --per-op`: what each kernel takes, measured by the devices in runs of their own, in turns with runs that are
//! not measured so.
//!
//! Invariants:
//! 1. Times are those that devices state; a part whose device states none of its steps is one row.
//! 2. Where the plan changes meanwhile, steps of the newest plan alone are told.
//!
//! Not here: how a device measures (`polychip::Session::start_op_trace`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use polychip::{Input, Session, TracedPart, TracedRun, TracedStep};
use polychip_partitioner::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::run::PATIENCE;

/// Rows that are printed; JSON has all.
const ROWS: usize = 20;

/// Runs of a turn.
const BLOCK: usize = 10;

/// Nodes that are named in a row.
const NAMED: usize = 3;

/// What `bench --per-op` adds.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PerOp {
    /// Runs whose steps were measured, and as many whose steps were not, in turns of ten.
    runs: u64,
    /// Median of the runs whose steps were measured, in nanoseconds.
    measured_run_ns: u64,
    /// Median of the runs between them, in nanoseconds.
    plain_run_ns: u64,
    /// Sum of the steps' medians, in nanoseconds.
    steps_ns: u64,
    /// The steps, in the order in which their parts stand in the plan and they stand in their part.
    steps: Vec<Row>,
}

/// A step: one kernel.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Row {
    /// Device, `plugin:index`.
    device: String,
    /// Nodes that it computes, by name; none where it serves its whole part.
    nodes: Vec<String>,
    /// Their operators.
    ops: Vec<String>,
    /// The kernel, in the plugin's words; `whole part` where its device measures no steps.
    kernel: String,
    /// Median time, in nanoseconds.
    time_ns: u64,
    /// Share of all steps.
    share: f64,
    /// Arithmetic operations of a run, where the device says so.
    operations: Option<u64>,
    /// Thousand million operations a second.
    gflops: Option<f64>,
    /// Bytes read and written in a run, where the device says so.
    moved_bytes: Option<u64>,
    /// Plain loops stand in for a kernel.
    is_reference: bool,
    /// The device is emulated: its times are those of the computer that emulates it.
    emulated: bool,
}

impl Row {
    fn of_step(part: &TracedPart, step: &TracedStep) -> Row {
        Row {
            device: part.device.clone(),
            nodes: step.nodes.iter().map(|node| node.name.clone()).collect(),
            ops: step.nodes.iter().map(|node| node.op.clone()).collect(),
            kernel: step.kernel.clone(),
            time_ns: 0,
            share: 0.0,
            operations: step.operations,
            gflops: None,
            moved_bytes: step.moved_bytes,
            is_reference: step.is_reference,
            emulated: part.emulated,
        }
    }

    /// A part whose device measures no steps.
    fn of_part(part: &TracedPart) -> Row {
        Row {
            device: part.device.clone(),
            nodes: vec![part.id.clone()],
            ops: vec![format!("{} nodes", part.nodes)],
            kernel: "whole part".to_owned(),
            time_ns: 0,
            share: 0.0,
            operations: None,
            gflops: None,
            moved_bytes: None,
            is_reference: false,
            emulated: part.emulated,
        }
    }

    /// Whether another run's row is of the same kernel for the same nodes.
    fn is_like(&self, other: &Row) -> bool {
        self.device == other.device && self.kernel == other.kernel && self.nodes == other.nodes
    }

    /// The operators as a person reads them: each once.
    fn ops(&self) -> String {
        let mut seen: Vec<&str> = Vec::new();
        for op in &self.ops {
            if !seen.contains(&op.as_str()) {
                seen.push(op);
            }
        }
        if seen.is_empty() {
            return "-".to_owned();
        }
        seen.join("+")
    }

    fn names(&self) -> String {
        let mut names = self
            .nodes
            .iter()
            .take(NAMED)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if let Some(more) = self.nodes.len().checked_sub(NAMED).filter(|more| *more > 0) {
            let _ = write!(names, " and {more} more");
        }
        names
    }
}

fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// The steps of a run, and their times.
fn rows_of(run: &TracedRun) -> Vec<(Row, u64)> {
    let mut rows = Vec::new();
    for part in &run.parts {
        if part.steps.is_empty() {
            rows.push((Row::of_part(part), part.end_ns - part.start_ns));
        }
        let steps = part.steps.iter();
        rows.extend(steps.map(|step| (Row::of_step(part, step), step.time_ns)));
    }
    rows
}

/// Runs a session in turns with and without measuring its steps.
pub(super) fn measure(session: &Session, inputs: &[&Input], runs: u64) -> anyhow::Result<PerOp> {
    let once = || -> anyhow::Result<u64> {
        let start = Instant::now();
        drop(session.submit(inputs)?.wait(PATIENCE)?);
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    };
    let (mut plain, mut measured) = (Vec::new(), Vec::new());
    let mut rows: Vec<Row> = Vec::new();
    let mut times: Vec<Vec<u64>> = Vec::new();
    let mut left = usize::try_from(runs).unwrap_or(usize::MAX);
    while left > 0 {
        let block = left.min(BLOCK);
        left -= block;
        // reading the steps of a block leaves the caches to others: a run that does not count sets them right
        session.start_trace(0);
        once()?;
        for _ in 0..block {
            plain.push(once()?);
        }
        session.start_op_trace(block + 1);
        once()?;
        for _ in 0..block {
            measured.push(once()?);
        }
        for run in session.trace().0.iter().skip(1) {
            let seen = rows_of(run);
            if rows.len() != seen.len() || rows.iter().zip(&seen).any(|(row, (new, _))| !row.is_like(new)) {
                // the first run, or the plan is another now
                rows = seen.iter().map(|(row, _)| row.clone()).collect();
                times = vec![Vec::new(); rows.len()];
            }
            for (times, (_, time)) in times.iter_mut().zip(seen) {
                times.push(time);
            }
        }
    }
    session.start_trace(0);
    for (row, times) in rows.iter_mut().zip(&mut times) {
        row.time_ns = median(times);
        let operations = row.operations.filter(|_| row.time_ns > 0);
        row.gflops = operations.map(|operations| operations as f64 / row.time_ns as f64);
    }
    let steps_ns: u64 = rows.iter().map(|row| row.time_ns).sum();
    for row in &mut rows {
        row.share = row.time_ns as f64 / steps_ns.max(1) as f64;
    }
    Ok(PerOp {
        runs,
        measured_run_ns: median(&mut measured),
        plain_run_ns: median(&mut plain),
        steps_ns,
        steps: rows,
    })
}

impl std::fmt::Display for PerOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = |ns: u64| Nanos::from_nanoseconds(ns);
        let mut order: Vec<&Row> = self.steps.iter().collect();
        order.sort_by_key(|row| std::cmp::Reverse(row.time_ns));
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header([
            "time", "share", "op", "kernel", "GFLOP/s", "GB/s", "device", "nodes",
        ]);
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        for row in order.iter().take(ROWS) {
            let bytes = row.moved_bytes.filter(|_| row.time_ns > 0);
            let rate = bytes.map(|bytes| bytes as f64 / row.time_ns as f64);
            let path = if row.is_reference { " (reference)" } else { "" };
            table.add_row([
                time(row.time_ns).to_string(),
                format!("{:.1} %", 100.0 * row.share),
                row.ops(),
                format!("{}{path}", row.kernel),
                figure(row.gflops),
                figure(rate),
                if row.emulated {
                    format!("{}, emulated", row.device)
                } else {
                    row.device.clone()
                },
                row.names(),
            ]);
        }
        for line in table.to_string().lines() {
            writeln!(f, "{}", line.trim_end())?;
        }
        let rest = order.iter().skip(ROWS);
        let (count, share) = rest.fold((0, 0.0), |(count, share), row| (count + 1, share + row.share));
        if count > 0 {
            writeln!(
                f,
                "{count} more steps take {:.1} %; --json has them",
                100.0 * share
            )?;
        }
        let mut by_op: BTreeMap<String, u64> = BTreeMap::new();
        for row in &self.steps {
            *by_op.entry(row.ops()).or_default() += row.time_ns;
        }
        let mut by_op: Vec<(String, u64)> = by_op.into_iter().collect();
        by_op.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let words: Vec<String> = by_op
            .iter()
            .take(8)
            .map(|(op, ns)| format!("{op} {:.1} %", 100.0 * *ns as f64 / self.steps_ns.max(1) as f64))
            .collect();
        if self.steps.is_empty() {
            writeln!(f, "no device says what its parts or steps took")?;
        } else {
            writeln!(f, "by operator: {}", words.join(", "))?;
        }
        writeln!(
            f,
            "steps sum up to {}; a run took {} with its steps measured and {} without (medians of {} runs each)",
            time(self.steps_ns),
            time(self.measured_run_ns),
            time(self.plain_run_ns),
            self.runs
        )
    }
}
