//! `--per-op` of several commands: the time of each kernel, measured by the devices in separate
//! runs that alternate with unmeasured ones.
//!
//! Invariants:
//! 1. Times are those that devices state; a part whose device states none of its steps is one row.
//! 2. If the plan changes meanwhile, only the steps of the newest plan are reported.
//! 3. A step that computes several nodes has one time, which is never spread over them.
//!
//! Not here: how a device measures (`polychip::Session::start_op_trace`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use polychip::{Input, Report, Session, TracedPart, TracedRun, TracedStep, Warning};
use polychip_graph::{Graph, NodeId};
use polychip_partitioner::Time;
use polychip_partitioner::report::count;
use polychip_profile::median;
use schemars::JsonSchema;
use serde::Serialize;

use crate::input::InputData;
use crate::progress::Progress;
use crate::run::feed;
use crate::setup::PATIENCE;

/// Rows that are printed; JSON has all.
const ROWS: usize = 20;

/// The kernel of a row whose device measures no steps.
const WHOLE_PART: &str = "whole part";

/// Runs of a turn: as many as fit in [`TURN`], between these.
const BLOCK: std::ops::RangeInclusive<usize> = 2..=10;

/// How long a turn may take. A machine that does other work is another one a second later.
const TURN: Duration = Duration::from_millis(20);

/// Nodes that are named in a row.
const NAMED: usize = 3;

/// Additional output of `--per-op`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PerOp {
    /// Runs with step measurement, alternating with as many runs without.
    runs: u64,
    /// Median of the runs with step measurement in nanoseconds.
    measured_run_ns: u64,
    /// Median of the runs between them, in nanoseconds.
    plain_run_ns: u64,
    /// Sum of the steps in nanoseconds; exceeds the run time if devices run concurrently.
    steps_ns: u64,
    /// Time of a run outside any step in nanoseconds: submission, starts and ends of parts, copies, waiting.
    outside_ns: u64,
    /// The steps, in plan order of their parts.
    steps: Vec<Row>,
    /// The newest runs whose steps were measured.
    #[serde(skip)]
    pub(crate) newest: Vec<TracedRun>,
    /// What these runs make one doubt of the plan: the suspects are named by their steps.
    #[serde(skip)]
    pub(crate) warnings: Vec<Warning>,
}

/// A step: one kernel.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Row {
    /// Device, `plugin:index`.
    device: String,
    /// Names of its nodes; empty if it serves the whole part.
    nodes: Vec<String>,
    /// Their operators.
    ops: Vec<String>,
    /// The kernel's name in the plugin; `whole part` if the device does not measure steps.
    kernel: String,
    /// Mean time in nanoseconds over the middle half of the runs with step measurement.
    time_ns: u64,
    /// Share of all steps.
    share: f64,
    /// Arithmetic operations per run, if the device states them.
    operations: Option<u64>,
    /// Thousand million operations a second.
    gflops: Option<f64>,
    /// Bytes read and written per run, if the device states them.
    moved_bytes: Option<u64>,
    /// Whether plain loops replace a kernel.
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
            ops: vec![count(part.nodes, "node")],
            kernel: WHOLE_PART.to_owned(),
            time_ns: 0,
            share: 0.0,
            operations: None,
            gflops: None,
            moved_bytes: None,
            is_reference: false,
            emulated: part.emulated,
        }
    }

    /// Whether it is a whole part, whose device measures no steps.
    fn is_part(&self) -> bool {
        self.kernel == WHOLE_PART
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

/// What steps call a node of a plan's graph: its name, or that of its first output where it has none.
pub(crate) fn name_in(graph: &Graph, node: u32) -> &str {
    let node = graph.node(NodeId::new(node as usize));
    match node.writes().next() {
        Some(output) if node.name.is_empty() => &graph.tensor(output).name,
        _ => &node.name,
    }
}

/// Measurement of one node.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct NodeSteps {
    /// Time of its steps in nanoseconds, shared with all nodes of these steps.
    time_ns: u64,
    /// Their kernels, in the plugin's words.
    kernels: Vec<String>,
    /// The other nodes that they compute: the time is for these, too, and is not spread over them.
    with: Vec<String>,
    /// Whether plain loops replace a kernel.
    is_reference: bool,
}

impl std::fmt::Display for NodeSteps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = Time::from_nanoseconds(self.time_ns);
        write!(f, "measured: {time}, {}", self.kernels.join(" + "))?;
        match &self.with[..] {
            [] => {}
            [one] => write!(f, ", in one step with {one}")?,
            [first, others @ ..] => write!(f, ", in one step with {first} and {} more", others.len())?,
        }
        if self.is_reference {
            f.write_str(", plain loops instead of a kernel")?;
        }
        Ok(())
    }
}

/// Nodes of one op that plain loops compute on a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct OnReference {
    /// The device.
    pub(crate) device: String,
    /// The op, or several ops of one step.
    pub(crate) op: String,
    /// Names of the nodes.
    pub(crate) nodes: Vec<String>,
    /// Share of the measured time of all steps.
    pub(crate) share: f64,
}

/// What one run took.
struct Sample {
    run_ns: u64,
    outside_ns: u64,
    /// Of each row.
    times: Vec<u64>,
}

/// The steps of a run, and what it took.
fn rows_of(run: &TracedRun, run_ns: u64) -> (Vec<Row>, Sample) {
    let (mut rows, mut times) = (Vec::new(), Vec::new());
    // between the steps of a part
    let mut outside_ns = 0;
    for part in &run.parts {
        let span = part.end_ns - part.start_ns;
        if part.steps.is_empty() {
            rows.push(Row::of_part(part));
            times.push(span);
            continue;
        }
        rows.extend(part.steps.iter().map(|step| Row::of_step(part, step)));
        times.extend(part.steps.iter().map(|step| step.time_ns));
        outside_ns += span.saturating_sub(part.steps.iter().map(|step| step.time_ns).sum());
    }
    outside_ns += run_ns.saturating_sub(busy_ns(run));
    let sample = Sample {
        run_ns,
        outside_ns,
        times,
    };
    (rows, sample)
}

/// How long any part of a run was at work.
fn busy_ns(run: &TracedRun) -> u64 {
    let mut spans: Vec<(u64, u64)> = run
        .parts
        .iter()
        .map(|part| (part.start_ns, part.end_ns))
        .collect();
    spans.sort_unstable();
    let (mut busy, mut seen) = (0, 0);
    for (start, end) in spans {
        busy += end.saturating_sub(start.max(seen));
        seen = seen.max(end);
    }
    busy
}

/// Half of the samples: those between the quarter of the shortest runs and that of the longest. A mean over whole runs keeps
/// their parts in proportion, which the medians of the parts do not: something interrupts every run, and each median leaves
/// its own out.
fn typical(samples: &mut [Sample]) -> &[Sample] {
    samples.sort_by_key(|sample| sample.run_ns);
    let quarter = samples.len() / 4;
    &samples[quarter..samples.len() - quarter]
}

fn mean(values: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = u64::try_from(values.len()).unwrap_or(u64::MAX).max(1);
    (values.sum::<u64>() + count / 2) / count
}

/// Runs a session in turns with and without measuring its steps.
pub(crate) fn measure(session: &Session, inputs: &[&Input], runs: u64) -> anyhow::Result<PerOp> {
    let once = || -> anyhow::Result<u64> {
        let start = Instant::now();
        drop(session.submit(inputs)?.wait(PATIENCE)?);
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    };
    let (mut plain, mut measured) = (Vec::new(), Vec::new());
    let mut rows: Vec<Row> = Vec::new();
    let mut samples: Vec<Sample> = Vec::new();
    let mut newest = Vec::new();
    let mut left = usize::try_from(runs).unwrap_or(usize::MAX);
    while left > 0 {
        // reading the steps of a block leaves the caches to others: a run that does not count sets them right
        session.start_trace(0);
        let warm = once()?;
        let fit = TURN.as_nanos() / u128::from(warm.max(1));
        let fit = usize::try_from(fit).unwrap_or(usize::MAX);
        let block = fit.clamp(*BLOCK.start(), *BLOCK.end()).min(left);
        left -= block;
        for _ in 0..block {
            plain.push(once()?);
        }
        session.start_op_trace(block + 1);
        once()?;
        let mut walls = Vec::with_capacity(block);
        for _ in 0..block {
            walls.push(once()?);
        }
        newest = session.trace().0.into_iter().skip(1).collect();
        for (run, wall) in newest.iter().zip(&walls) {
            let (seen, sample) = rows_of(run, *wall);
            if rows.len() != seen.len() || rows.iter().zip(&seen).any(|(row, new)| !row.is_like(new)) {
                // the first run, or the plan is another now
                rows = seen;
                samples.clear();
            }
            samples.push(sample);
        }
        measured.extend(walls);
    }
    let warnings = session.report().warnings;
    session.start_trace(0);
    let typical = typical(&mut samples);
    for (index, row) in rows.iter_mut().enumerate() {
        row.time_ns = mean(typical.iter().map(|sample| sample.times[index]));
        let operations = row.operations.filter(|_| row.time_ns > 0);
        row.gflops = operations.map(|operations| operations as f64 / row.time_ns as f64);
    }
    let steps_ns: u64 = rows.iter().map(|row| row.time_ns).sum();
    for row in &mut rows {
        row.share = row.time_ns as f64 / steps_ns.max(1) as f64;
    }
    Ok(PerOp {
        runs,
        measured_run_ns: median(&mut measured, u64::cmp).unwrap_or(0),
        plain_run_ns: median(&mut plain, u64::cmp).unwrap_or(0),
        steps_ns,
        outside_ns: mean(typical.iter().map(|sample| sample.outside_ns)),
        steps: rows,
        newest,
        warnings,
    })
}

/// Runs of [`of_session`].
const FEW: u64 = 20;

/// Runs a session with these inputs, first to warm it up, and measures its steps.
pub(crate) fn of_session(session: &Session, given: &[InputData]) -> anyhow::Result<PerOp> {
    let inputs = feed(session, given)?;
    let inputs: Vec<&Input> = inputs.iter().collect();
    let _progress = Progress::of("measuring");
    drop(session.submit(&inputs)?.wait(PATIENCE)?);
    measure(session, &inputs, FEW)
}

impl PerOp {
    /// Names the suspects of a report's warnings by the measured steps, where the device measures them.
    pub(crate) fn blame(&self, report: &mut Report) {
        for warning in &mut report.warnings {
            let Warning::Mispredicted {
                part, device, nodes, ..
            } = warning
            else {
                continue;
            };
            let by_steps = self.warnings.iter().find_map(|other| match other {
                Warning::Mispredicted {
                    part: other_part,
                    device: other_device,
                    nodes,
                    ..
                } if other_part == part && other_device == device => Some(nodes),
                _ => None,
            });
            if let Some(by_steps) = by_steps {
                nodes.clone_from(by_steps);
            }
        }
    }

    /// What was measured of the node of this name on a device; none where the device measures whole parts only, or no step
    /// computes it.
    pub(crate) fn of_node(&self, device: &str, name: &str) -> Option<NodeSteps> {
        let is_of = |row: &&Row| row.device == device && row.nodes.iter().any(|node| node == name);
        let rows: Vec<&Row> = self
            .steps
            .iter()
            .filter(|row| !row.is_part())
            .filter(is_of)
            .collect();
        if rows.is_empty() {
            return None;
        }
        let mut with: Vec<String> = Vec::new();
        for node in rows.iter().flat_map(|row| &row.nodes) {
            if node != name && !with.contains(node) {
                with.push(node.clone());
            }
        }
        Some(NodeSteps {
            time_ns: rows.iter().map(|row| row.time_ns).sum(),
            kernels: rows.iter().map(|row| row.kernel.clone()).collect(),
            with,
            is_reference: rows.iter().any(|row| row.is_reference),
        })
    }

    /// Nodes that plain loops compute, by device and op, and devices that measure whole parts only, of which that is not known.
    pub(crate) fn on_reference(&self) -> (Vec<OnReference>, Vec<String>) {
        let mut found: BTreeMap<(String, String), OnReference> = BTreeMap::new();
        let mut unknown: Vec<String> = Vec::new();
        for row in &self.steps {
            if row.is_part() && !unknown.contains(&row.device) {
                unknown.push(row.device.clone());
            }
            if !row.is_reference {
                continue;
            }
            let key = (row.device.clone(), row.ops());
            let line = found.entry(key).or_insert_with(|| OnReference {
                device: row.device.clone(),
                op: row.ops(),
                nodes: Vec::new(),
                share: 0.0,
            });
            line.share += row.share;
            for node in &row.nodes {
                if !line.nodes.contains(node) {
                    line.nodes.push(node.clone());
                }
            }
        }
        (found.into_values().collect(), unknown)
    }

    /// A line of the steps that plain loops compute, where there are any.
    fn fmt_reference(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps: Vec<&Row> = self.steps.iter().filter(|row| row.is_reference).collect();
        if steps.is_empty() {
            return Ok(());
        }
        let mut ops: Vec<String> = steps.iter().map(|row| row.ops()).collect();
        ops.sort_unstable();
        ops.dedup();
        let time: u64 = steps.iter().map(|row| row.time_ns).sum();
        writeln!(
            f,
            "plain loops instead of a kernel in {} of {} steps, {:.1} % of their time: {}",
            steps.len(),
            self.steps.len(),
            100.0 * time as f64 / self.steps_ns.max(1) as f64,
            ops.join(", ")
        )
    }
}

impl std::fmt::Display for PerOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = |ns: u64| Time::from_nanoseconds(ns);
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
                "{count} more steps: {:.1} % of the time (--json lists them)",
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
        self.fmt_reference(f)?;
        if self.steps.is_empty() {
            writeln!(f, "no device reports the times of its parts or steps")?;
        } else {
            writeln!(f, "by operator: {}", words.join(", "))?;
        }
        writeln!(
            f,
            "the steps add up to {}, with {} of a run outside any step; a run took {} with step measurement and {} \
             without (medians of {} runs each)",
            time(self.steps_ns),
            time(self.outside_ns),
            time(self.measured_run_ns),
            time(self.plain_run_ns),
            self.runs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(nodes: &[&str], op: &str, kernel: &str, time_ns: u64, is_reference: bool) -> Row {
        Row {
            device: "cpu:0".to_owned(),
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            ops: nodes.iter().map(|_| op.to_owned()).collect(),
            kernel: kernel.to_owned(),
            time_ns,
            share: time_ns as f64 / 100.0,
            operations: None,
            gflops: None,
            moved_bytes: None,
            is_reference,
            emulated: false,
        }
    }

    fn steps() -> PerOp {
        PerOp {
            runs: 1,
            measured_run_ns: 100,
            plain_run_ns: 100,
            steps_ns: 100,
            outside_ns: 0,
            steps: vec![
                row(&["conv"], "Conv", "pad", 10, false),
                row(&["conv", "relu", "add"], "Conv", "conv", 50, false),
                row(&["u"], "Unique", "scan", 20, true),
                row(&["v"], "Unique", "scan", 15, true),
                Row {
                    device: "npu:0".to_owned(),
                    ..row(&["part"], "3 nodes", WHOLE_PART, 5, false)
                },
            ],
            newest: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_step_of_several_nodes_has_one_time() {
        let steps = steps();
        let words = |device: &str, name: &str| steps.of_node(device, name).map(|steps| steps.to_string());
        assert_eq!(
            words("cpu:0", "conv").unwrap(),
            "measured: 60.000 ns, pad + conv, in one step with relu and 1 more"
        );
        assert_eq!(
            words("cpu:0", "u").unwrap(),
            "measured: 20.000 ns, scan, plain loops instead of a kernel"
        );
        // of a part that was measured as a whole nothing is said node by node
        assert_eq!(words("npu:0", "part"), None);
        assert_eq!(words("npu:0", "conv"), None);
    }

    #[test]
    fn plain_loop_nodes_and_unknown_steps_are_reported() {
        let (found, unknown) = steps().on_reference();
        assert_eq!((found.len(), &unknown[..]), (1, &["npu:0".to_owned()][..]));
        assert_eq!(
            (&*found[0].op, &found[0].nodes),
            ("Unique", &vec!["u".into(), "v".into()])
        );
        assert!((found[0].share - 0.35).abs() < 1e-12);
        let text = steps().to_string();
        assert!(
            text.contains("plain loops instead of a kernel in 2 of 5 steps, 35.0 % of their time: Unique"),
            "{text}"
        );
    }

    fn sample(run_ns: u64, time: u64) -> Sample {
        Sample {
            run_ns,
            outside_ns: run_ns - time,
            times: vec![time],
        }
    }

    #[test]
    fn outlier_runs_are_ignored() {
        let mut samples: Vec<Sample> = [
            (90, 80),
            (10, 5),
            (30, 20),
            (20, 10),
            (900, 800),
            (40, 30),
            (50, 40),
            (1, 1),
        ]
        .into_iter()
        .map(|(run, time)| sample(run, time))
        .collect();
        let kept: Vec<u64> = typical(&mut samples).iter().map(|sample| sample.run_ns).collect();
        assert_eq!(kept, [20, 30, 40, 50]);
        // few runs: all of them
        for count in 1..4 {
            let mut few: Vec<Sample> = (0..count).map(|at| sample(10 + at, 5)).collect();
            assert_eq!(typical(&mut few).len(), usize::try_from(count).unwrap());
        }
        assert!(typical(&mut []).is_empty());
        assert_eq!(mean([1, 2].into_iter()), 2);
        assert_eq!(mean(std::iter::empty()), 0);
    }

    fn part(start_ns: u64, end_ns: u64, steps: &[u64]) -> TracedPart {
        TracedPart {
            id: format!("{start_ns}"),
            device: "cpu:0".to_owned(),
            emulated: false,
            nodes: 1,
            start_ns,
            end_ns,
            energy_uj: None,
            steps: steps
                .iter()
                .map(|&time_ns| TracedStep {
                    nodes: Vec::new(),
                    kernel: "k".to_owned(),
                    time_ns,
                    operations: None,
                    moved_bytes: None,
                    is_reference: false,
                })
                .collect(),
        }
    }

    #[test]
    fn steps_and_gaps_add_up_to_the_run_time() {
        let run = |parts: Vec<TracedPart>| TracedRun {
            parts,
            crossings: Vec::new(),
            submitted_ns: 0,
            latency_ns: 0,
            late_ns: None,
        };
        let one_behind_the_other = run(vec![
            part(10, 20, &[4, 5]),
            part(30, 70, &[]),
            part(80, 90, &[10]),
        ]);
        let (rows, sample) = rows_of(&one_behind_the_other, 100);
        assert_eq!(sample.times, [4, 5, 40, 10]);
        assert_eq!(rows.len(), 4);
        assert_eq!(sample.times.iter().sum::<u64>() + sample.outside_ns, 100);
        // while parts overlap there is no time outside of them
        let at_once = run(vec![part(10, 50, &[40]), part(20, 90, &[70]), part(30, 40, &[9])]);
        let (_, sample) = rows_of(&at_once, 100);
        assert_eq!(sample.outside_ns, 20 + 1);
    }
}
