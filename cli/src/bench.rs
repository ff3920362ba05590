//! `polychip bench`: latency and throughput of warm runs, late ones counted, with what each part took.
//!
//! Invariants:
//! 1. A run's time is from submit to outputs; inputs are written once, before the first run.
//! 2. So many runs are in flight from the first to the last: the oldest is waited for, and the next one submitted.

use std::time::Instant;

use polychip::Report;
use polychip_partitioner::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::input::InputArguments;
use crate::load::Load;
use crate::output::Output;
use crate::progress::Progress;
use crate::run::feed;
use crate::setup::{Aim, BucketArguments, ModelArguments, SessionArguments};
use crate::trace::Watched;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    buckets: BucketArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Runs before the first that counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    warmup: u64,
    /// Runs that count
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    iters: u64,
    /// Runs in flight at once; without it 1, and with `--policy throughput` one more than the plan uses devices
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: Option<u32>,
    /// Write when each part ran, and what sensors said meanwhile, in the format that Perfetto and Chrome open
    #[arg(long, value_name = "FILE")]
    trace: Option<std::path::PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionArguments,
}

/// What `bench --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Model file.
    model: String,
    /// Runs before the first that counts.
    warmup: u64,
    /// Runs that count.
    iters: u64,
    /// Threads asked for; none where the plugin chose.
    threads: Option<u32>,
    /// How exactly was computed.
    precision: crate::setup::Precision,
    /// Runs in flight at once.
    in_flight: usize,
    /// Time of a run from submit to outputs, in nanoseconds.
    latency_ns: Latency,
    /// Runs that gave their outputs in a second, from the end of the warm-up to the last outputs.
    throughput_per_s: f64,
    /// What a run was to be done within, in nanoseconds.
    deadline_ns: Option<u64>,
    /// Runs that took longer from submit to the end of their last part; 0 without a deadline.
    late: u64,
    /// Most memory that the process ever held, in bytes; none where the system does not say.
    peak_bytes: Option<u64>,
    /// What ran where; times of parts are medians of the newest runs.
    report: Report,
}

/// Percentiles of the latency, in nanoseconds: each is the time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Latency {
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
    /// The percentiles of at least one time.
    pub(crate) fn of(mut times: Vec<u64>) -> Latency {
        times.sort_unstable();
        // nearest rank
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        Latency {
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

impl Arguments {
    /// Runs in flight: as many as were asked for, else as many as the aim needs.
    fn in_flight(&self, planned: &polychip::Planned) -> usize {
        if let Some(runs) = self.in_flight {
            return runs as usize;
        }
        match self.session.plan_arguments.policy {
            // while one waits for its outputs, no device waits for the next
            Aim::Throughput => {
                let mut devices: Vec<_> = planned.plan().parts.iter().map(|part| part.device).collect();
                devices.sort_unstable();
                devices.dedup();
                devices.len() + 1
            }
            _ => 1,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let runtime = arguments.session.runtime()?;
    let model = arguments.model.load(&runtime)?;
    let inputs = InputArguments {
        inputs: arguments.inputs.inputs.clone(),
        // what is measured needs values, and which ones seldom matters
        fill: Some(arguments.inputs.fill.unwrap_or(0)),
    };
    let (model, given) = inputs.read(&model)?;
    let (session, in_flight) = match arguments.buckets.buckets.is_empty() {
        true => arguments
            .session
            .session_of(&runtime, &model, |planned| arguments.in_flight(planned))?,
        false => {
            let runs = arguments.in_flight.map_or(1, |runs| runs as usize);
            let buckets = &arguments.buckets;
            let session = arguments
                .session
                .bucketed(&runtime, &arguments.model, buckets, &given, runs)?;
            (session, runs)
        }
    };
    let memory = feed(&session, &given)?;
    let inputs: Vec<&polychip::Input> = memory.iter().collect();
    let runs = arguments.warmup.saturating_add(arguments.iters);
    let progress = Progress::steps("measuring", runs);
    let mut load = Load::new(&session, inputs, in_flight).at_most(runs);
    for _ in 0..arguments.warmup {
        load.once()?;
        progress.step();
    }
    (load.late, load.times) = (0, Vec::with_capacity(usize::try_from(arguments.iters)?));
    let mut watched = arguments.trace.as_ref().map(|_| Watched::new(&runtime, &session));
    let start = Instant::now();
    for _ in 0..arguments.iters {
        load.once()?;
        progress.step();
        if let Some(watched) = &mut watched {
            watched.look();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let Load { times, late, .. } = load;
    let report = session.report();
    if let (Some(watched), Some(path)) = (watched, &arguments.trace) {
        watched.write(&arguments.model.model.display().to_string(), path)?;
    }
    drop(progress);
    let answer = Answer {
        model: arguments.model.model.display().to_string(),
        warmup: arguments.warmup,
        iters: arguments.iters,
        threads: arguments.session.plan_arguments.threads,
        precision: arguments.session.plan_arguments.precision,
        in_flight,
        latency_ns: Latency::of(times),
        throughput_per_s: arguments.iters as f64 / seconds.max(1e-9),
        deadline_ns: report.deadline_ns,
        late,
        peak_bytes: peak_bytes(),
        report,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Latency {
            min,
            p10,
            p50,
            p90,
            p95,
            p99,
            max,
        } = self.latency_ns;
        let time = |ns: u64| Nanos::from_nanoseconds(ns);
        writeln!(
            f,
            "latency: p50 {}, p10 {}, p90 {}, p95 {}, p99 {}, min {}, max {} over {} runs",
            time(p50),
            time(p10),
            time(p90),
            time(p95),
            time(p99),
            time(min),
            time(max),
            self.iters
        )?;
        writeln!(
            f,
            "throughput: {:.1} runs a second, {} in flight",
            self.throughput_per_s, self.in_flight
        )?;
        if let Some(deadline) = self.deadline_ns {
            let deadline = time(deadline);
            match self.late {
                0 => writeln!(f, "no run was late: all ended within {deadline}")?,
                1 => writeln!(
                    f,
                    "1 of {} runs was late: it took more than {deadline}",
                    self.iters
                )?,
                late => writeln!(
                    f,
                    "{late} of {} runs were late: they took more than {deadline}",
                    self.iters
                )?,
            }
        }
        if let Some(bytes) = self.peak_bytes {
            writeln!(
                f,
                "peak memory of the process: {:.1} MiB",
                bytes as f64 / f64::from(1 << 20)
            )?;
        }
        write!(f, "\n{}", self.report)
    }
}

/// Most memory that this process ever held: "VmHWM" of Linux.
pub(crate) fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
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

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_has_a_peak() {
        assert!(peak_bytes().unwrap() > 1 << 16);
    }
}
