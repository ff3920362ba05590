//! The output of `polychip bench`: JSON, CSV and text.

use polychip::Report;
use polychip_partitioner::{Energy, Time};
use polychip_profile::percentile;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::drawn::Drawn;
use crate::per_op::PerOp;

/// Output of `bench --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BenchOutput {
    /// Model file.
    pub(super) model: String,
    /// Runs of each session before the first that counts.
    pub(super) warmup: u64,
    /// Runs that count, of all sessions together.
    pub(super) iters: u64,
    /// Requested threads; null if the plugin chose.
    pub(super) threads: Option<u32>,
    /// How exactly was computed.
    pub(super) precision: crate::setup::Precision,
    /// From submit to submit, in nanoseconds; 0: back to back.
    pub(super) period_ns: u64,
    /// Runs in flight per session.
    pub(super) in_flight: usize,
    /// Concurrent sessions of the model.
    pub(super) sessions: usize,
    /// Time until the first outputs.
    pub(super) start: Start,
    /// Time of a run from submit to outputs, in nanoseconds.
    pub(super) latency_ns: Latency,
    /// Runs of all sessions that gave their outputs in a second, from the end of the warm-up to the last outputs.
    pub(super) throughput_per_s: f64,
    /// The same of one session as its plan predicts it, all replicas together; none for plans that do not aim at
    /// throughput.
    pub(super) predicted_throughput_per_s: Option<f64>,
    /// Deadline of a run in nanoseconds.
    pub(super) deadline_ns: Option<u64>,
    /// Runs whose last part ended after the deadline; 0 without a deadline.
    pub(super) late: u64,
    /// Peak memory of the process in bytes; null if the system does not report it.
    pub(super) peak_bytes: Option<u64>,
    /// Energy of the first session's devices during the timed runs, by their own counters.
    pub(super) drawn: Vec<Drawn>,
    /// Devices of the parts in the first session; part times are medians of the newest runs.
    pub(super) report: Report,
    /// Time of each kernel, if requested.
    pub(super) per_op: Option<PerOp>,
}

/// Time until the first outputs in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct Start {
    /// Plugins were loaded and devices opened.
    pub(super) runtime_ns: u64,
    /// The model was read.
    pub(super) model_ns: u64,
    /// Planning of the model; null with buckets, which are planned when compiled.
    pub(super) plan_ns: Option<u64>,
    /// The first session's parts were compiled and loaded.
    pub(super) compile_ns: u64,
    /// The first run, from submit to outputs.
    pub(super) first_run_ns: u64,
}

/// Mean and percentiles of the latency, in nanoseconds: each percentile is the time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Latency {
    /// Mean of all runs.
    pub(crate) mean: u64,
    /// Shortest run.
    pub(crate) min: u64,
    /// Tenth percentile.
    pub(crate) p10: u64,
    /// Median.
    pub(crate) p50: u64,
    /// Ninetieth percentile.
    p90: u64,
    /// Ninety-fifth percentile.
    p95: u64,
    /// Ninety-ninth percentile.
    pub(crate) p99: u64,
    /// Longest run.
    pub(crate) max: u64,
}

impl Latency {
    /// Mean and percentiles of at least one time.
    pub(crate) fn of(mut times: Vec<u64>) -> Latency {
        times.sort_unstable();
        let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
        let at = |percent| percentile(&times, percent).expect("invariant: there are times");
        Latency {
            mean: u64::try_from(sum / times.len().max(1) as u128).unwrap_or(u64::MAX),
            min: at(0),
            p10: at(10),
            p50: at(50),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            max: at(100),
        }
    }
}

/// A line of `bench --csv`; a figure that is not there is empty.
#[derive(Debug, Serialize)]
struct Row<'a> {
    model: &'a str,
    sessions: usize,
    in_flight: usize,
    threads: Option<u32>,
    precision: crate::setup::Precision,
    period_ns: u64,
    runs: u64,
    mean_ns: u64,
    min_ns: u64,
    p10_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    throughput_per_s: f64,
    deadline_ns: Option<u64>,
    late: u64,
    runtime_ns: u64,
    model_ns: u64,
    plan_ns: Option<u64>,
    compile_ns: u64,
    first_run_ns: u64,
    peak_bytes: Option<u64>,
}

impl BenchOutput {
    /// Names of the columns, and a line of figures.
    pub(super) fn csv(&self) -> anyhow::Result<String> {
        let (latency, start) = (self.latency_ns, self.start);
        let mut lines = csv::Writer::from_writer(Vec::new());
        lines.serialize(Row {
            model: &self.model,
            sessions: self.sessions,
            in_flight: self.in_flight,
            period_ns: self.period_ns,
            threads: self.threads,
            precision: self.precision,
            runs: self.iters,
            mean_ns: latency.mean,
            min_ns: latency.min,
            p10_ns: latency.p10,
            p50_ns: latency.p50,
            p90_ns: latency.p90,
            p95_ns: latency.p95,
            p99_ns: latency.p99,
            max_ns: latency.max,
            throughput_per_s: self.throughput_per_s,
            deadline_ns: self.deadline_ns,
            late: self.late,
            runtime_ns: start.runtime_ns,
            model_ns: start.model_ns,
            plan_ns: start.plan_ns,
            compile_ns: start.compile_ns,
            first_run_ns: start.first_run_ns,
            peak_bytes: self.peak_bytes,
        })?;
        Ok(String::from_utf8(lines.into_inner()?)?)
    }
}

impl std::fmt::Display for BenchOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Latency {
            mean,
            min,
            p10,
            p50,
            p90,
            p95,
            p99,
            max,
        } = self.latency_ns;
        let time = |ns: u64| Time::from_nanoseconds(ns);
        writeln!(
            f,
            "latency: p50 {}, mean {}, p10 {}, p90 {}, p95 {}, p99 {}, min {}, max {} over {} runs",
            time(p50),
            time(mean),
            time(p10),
            time(p90),
            time(p95),
            time(p99),
            time(min),
            time(max),
            self.iters
        )?;
        if self.period_ns > 0 {
            let cadence = self.report.cadence;
            writeln!(f, "one run each {} (cadence {cadence})", time(self.period_ns))?;
        }
        for drawn in &self.drawn {
            if let (Some(nj), Some(mw)) = (drawn.energy_nj, drawn.power_mw) {
                let emulated = if drawn.emulated { ", emulated" } else { "" };
                writeln!(
                    f,
                    "energy: {} a run on {}, {:.1} W including idle power ({}{emulated})",
                    Energy::from_nanojoules(nj),
                    drawn.device,
                    mw as f64 / 1e3,
                    drawn.from
                )?;
            }
        }
        writeln!(
            f,
            "throughput: {:.1} runs a second, {} in flight{}",
            self.throughput_per_s,
            self.in_flight,
            match self.sessions {
                1 => String::new(),
                sessions => format!(" in each of {sessions} sessions"),
            }
        )?;
        if let Some(predicted) = self.predicted_throughput_per_s {
            let report = &self.report;
            let emulated = report.emulated || report.replicas.iter().any(|replica| replica.emulated);
            let emulated = if emulated { ", emulated" } else { "" };
            writeln!(
                f,
                "predicted: {predicted:.1} runs a second of a session{emulated}"
            )?;
        }
        let Start {
            runtime_ns,
            model_ns,
            plan_ns,
            compile_ns,
            first_run_ns,
        } = self.start;
        writeln!(
            f,
            "start: plugins loaded in {}, model read in {}, {}, first run in {}",
            time(runtime_ns),
            time(model_ns),
            match plan_ns {
                Some(plan) => format!("planned in {}, compiled in {}", time(plan), time(compile_ns)),
                None => format!("planned and compiled in {}", time(compile_ns)),
            },
            time(first_run_ns)
        )?;
        if let Some(deadline) = self.deadline_ns {
            let deadline = time(deadline);
            match self.late {
                0 => writeln!(
                    f,
                    "no run was late: all finished within the deadline of {deadline}"
                )?,
                1 => writeln!(
                    f,
                    "1 of {} runs was late: it exceeded the deadline of {deadline}",
                    self.iters
                )?,
                late => writeln!(
                    f,
                    "{late} of {} runs were late: they exceeded the deadline of {deadline}",
                    self.iters
                )?,
            }
        }
        if let Some(bytes) = self.peak_bytes {
            writeln!(
                f,
                "peak process memory: {:.1} MiB",
                bytes as f64 / f64::from(1 << 20)
            )?;
        }
        write!(f, "\n{}", self.report)?;
        match &self.per_op {
            Some(per_op) => write!(f, "\n{per_op}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_of_runs() {
        let latency = Latency::of((1..=100).rev().collect());
        assert_eq!(
            latency,
            Latency {
                mean: 50,
                min: 1,
                p10: 10,
                p50: 50,
                p90: 90,
                p95: 95,
                p99: 99,
                max: 100
            }
        );
        assert_eq!(
            Latency::of(vec![7]),
            Latency {
                mean: 7,
                min: 7,
                p10: 7,
                p50: 7,
                p90: 7,
                p95: 7,
                p99: 7,
                max: 7
            }
        );
        assert_eq!(Latency::of(vec![3, 1]).p50, 1);
    }
}
