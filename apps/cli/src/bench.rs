//! `polychip bench`: latency and throughput of warm runs, late runs, times of parts, and the start time.
//!
//! Invariants:
//! 1. A run's time is measured from submission to outputs. Inputs are written once, before the first run.
//! 2. The number of runs in flight per session is constant: each wait for the oldest run is followed by a submission.
//! 3. Each session has its own thread, and no run counts before all sessions are warm.

mod drawn;
mod output;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use polychip::{Input, Session};

use drawn::Counters;
use output::Start;
pub(crate) use output::{BenchOutput, Latency};

use crate::input::{InputArguments, InputData};
use crate::load::Load;
use crate::output::Output;
use crate::peak::peak_bytes;
use crate::per_op;
use crate::progress::Progress;
use crate::run::feed;
use crate::setup::{Aim, BucketArguments, ModelArguments, SessionArguments};
use crate::trace::Watched;

/// Runs that warm a session up at least.
const WARMUP: u64 = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    buckets: BucketArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Warm-up runs of each session; default: 5, and on a GPU also until its clock has settled: 0.5 s, or 6 s with
    /// `--period`
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
    /// Timed runs of each session
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    iters: u64,
    /// Run for this many seconds instead of a number of runs
    #[arg(long, value_name = "SECONDS", value_parser = crate::profile::seconds)]
    duration: Option<Duration>,
    /// Concurrent sessions of the model, each on its own thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    sessions: u32,
    /// Runs in flight per session; default: 1; with `--policy throughput`, for each replica the
    /// number of its devices plus one, at most 64 in total
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    in_flight: Option<u32>,
    /// Write a trace of the first session's parts and the sensors for Perfetto or Chrome; with `--per-op` also each
    /// kernel's time, from separate runs
    #[arg(long, value_name = "FILE")]
    trace: Option<std::path::PathBuf>,
    /// Also measure each kernel's time, in separate runs
    #[arg(long, conflicts_with_all = ["csv", "buckets"])]
    per_op: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print CSV: a header line and one line of figures
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    session: SessionArguments,
}

impl Arguments {
    /// How often runs are submitted; zero: back to back.
    fn period(&self) -> Duration {
        self.session.plan_arguments.period.unwrap_or_default()
    }

    /// How a session is warmed up: as many runs as were asked for, else until no clock is that of another load.
    fn warmup(&self, session: &Session) -> Warmup {
        let held = session
            .planned()
            .map_or(Duration::ZERO, |planned| planned.clock_hold(self.period()));
        match self.warmup {
            Some(runs) => Warmup {
                runs,
                least: Duration::ZERO,
            },
            None => Warmup {
                runs: WARMUP,
                least: held,
            },
        }
    }

    /// Runs in flight: as many as were asked for, else as many as the aim needs.
    fn in_flight(&self, planned: &polychip::Planned) -> usize {
        if let Some(runs) = self.in_flight {
            return runs as usize;
        }
        match self.session.plan_arguments.policy {
            // while one waits for its outputs, no device waits for the next
            Aim::Throughput => {
                let copies = planned.plan().copies();
                let runs: usize = copies.map(|copy| copy.used_devices().len() + 1).sum();
                runs.min(MOST_IN_FLIGHT)
            }
            _ => 1,
        }
    }
}

/// Runs of a session that may be in flight at most.
const MOST_IN_FLIGHT: usize = 64;

/// Runs whose steps are measured at most.
const MOST_MEASURED: u64 = 50;

/// Nanoseconds since then.
fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The sessions, and what they were made in.
struct Made {
    sessions: Vec<Session>,
    in_flight: usize,
    plan_ns: Option<u64>,
    compile_ns: u64,
}

impl Made {
    /// As many sessions as were asked for, of one plan.
    fn new(
        arguments: &Arguments,
        runtime: &polychip::Runtime,
        model: &polychip::Model,
        given: &[InputData],
    ) -> anyhow::Result<Made> {
        let start = Instant::now();
        // what is measured here is planned for, whatever is known of an app
        let mut session = arguments.session.clone();
        session.plan_arguments.period = Some(arguments.period());
        if !arguments.buckets.buckets.is_empty() {
            let in_flight = arguments.in_flight.map_or(1, |runs| runs as usize);
            let one = || {
                let (model, buckets) = (&arguments.model, &arguments.buckets);
                session.bucketed(runtime, model, buckets, given, in_flight)
            };
            let mut sessions = vec![one()?];
            let compile_ns = since(start);
            for _ in 1..arguments.sessions {
                sessions.push(one()?);
            }
            return Ok(Made {
                sessions,
                in_flight,
                plan_ns: None,
                compile_ns,
            });
        }
        let planned = session.planned(runtime, model)?;
        let plan_ns = since(start);
        let in_flight = arguments.in_flight(&planned);
        let policy = session.policy_for(&planned).in_flight(in_flight);
        let _progress = Progress::of("compiling");
        let start = Instant::now();
        let mut sessions = vec![runtime.session_of(planned.clone(), policy.clone())?];
        let compile_ns = since(start);
        for _ in 1..arguments.sessions {
            sessions.push(runtime.session_of(planned.clone(), policy.clone())?);
        }
        Ok(Made {
            sessions,
            in_flight,
            plan_ns: Some(plan_ns),
            compile_ns,
        })
    }
}

/// Runs before those that count.
#[derive(Clone, Copy)]
struct Warmup {
    runs: u64,
    /// For so long at least.
    least: Duration,
}

/// Where a session is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A run of the warm-up is done.
    Warm,
    /// The session is warm; others may not be yet.
    Warmed,
    /// All sessions are warm.
    Ready,
    /// A run that counts is done.
    Counted,
}

/// What the runs of one session took.
struct Counted {
    times: Vec<u64>,
    late: u64,
    first_run_ns: u64,
    warmup_runs: u64,
    start: Instant,
    end: Instant,
}

impl Arguments {
    /// Warms a session up by so many runs, waits until all are, and runs it.
    fn count(
        &self,
        session: &Session,
        warmup: Warmup,
        inputs: Vec<&Input>,
        in_flight: usize,
        warm: &Barrier,
        mut each: impl FnMut(Step),
    ) -> anyhow::Result<Counted> {
        let mut load = Load::new(session, inputs, in_flight).every(self.period());
        if warmup.least.is_zero() {
            load.end_after(warmup.runs);
        }
        let begun = Instant::now();
        let mut warmup_runs = 0;
        let mut warm_up = || -> anyhow::Result<()> {
            while warmup_runs < warmup.runs || begun.elapsed() < warmup.least {
                load.once()?;
                warmup_runs += 1;
                each(Step::Warm);
            }
            Ok(())
        };
        // what is in flight still would be counted with what happens before the count
        let warmed = warm_up().and_then(|()| load.end());
        each(Step::Warmed);
        load.end_after(self.duration.map_or(self.iters, |_| u64::MAX));
        // not before the others come, who would wait for ever
        warm.wait();
        warmed?;
        each(Step::Ready);
        let first_run_ns = load.times.first().copied();
        (load.late, load.times) = (0, Vec::new());
        let start = Instant::now();
        let goes_on = |runs: u64| match self.duration {
            Some(duration) => runs == 0 || start.elapsed() < duration,
            None => runs < self.iters,
        };
        let mut runs = 0;
        while goes_on(runs) {
            load.once()?;
            runs += 1;
            each(Step::Counted);
        }
        let end = Instant::now();
        let first_run_ns = first_run_ns.or(load.times.first().copied()).unwrap_or(0);
        let (times, late) = (std::mem::take(&mut load.times), load.late);
        load.end()?;
        Ok(Counted {
            times,
            late,
            first_run_ns,
            warmup_runs,
            start,
            end,
        })
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let start = Instant::now();
    let runtime = arguments.session.timed_runtime()?;
    let runtime_ns = since(start);
    let start = Instant::now();
    let model = arguments.model.load(&runtime)?;
    let model_ns = since(start);
    let inputs = InputArguments {
        inputs: arguments.inputs.inputs.clone(),
        // what is measured needs values, and which ones seldom matters
        fill: Some(arguments.inputs.fill.unwrap_or(0)),
    };
    let (model, given) = inputs.read(&model)?;
    let made = Made::new(arguments, &runtime, &model, &given)?;
    let (sessions, in_flight) = (&made.sessions, made.in_flight);
    let memory = sessions.iter().map(|session| feed(session, &given));
    let memory = memory.collect::<anyhow::Result<Vec<Vec<Input>>>>()?;
    let warmup = arguments.warmup(&sessions[0]);
    let progress = match arguments.duration {
        None if warmup.least.is_zero() => {
            let runs = warmup.runs.saturating_add(arguments.iters);
            Progress::steps("measuring", runs.saturating_mul(sessions.len() as u64))
        }
        _ => Progress::of("measuring"),
    };
    let (mut watched, mut counters) = (None, Counters::new(&runtime));
    let warm = Barrier::new(sessions.len());
    let counted = std::thread::scope(|scope| {
        let others = sessions.iter().zip(&memory).skip(1).map(|(session, inputs)| {
            let (warm, progress) = (&warm, &progress);
            scope.spawn(move || {
                let each = |step| {
                    if matches!(step, Step::Warm | Step::Counted) {
                        progress.step();
                    }
                };
                arguments.count(session, warmup, inputs.iter().collect(), in_flight, warm, each)
            })
        });
        let others: Vec<_> = others.collect();
        let each = |step| match step {
            // what warms up is not watched
            Step::Ready => {
                if arguments.trace.is_some() {
                    watched = Some(Watched::new(&runtime, &sessions[0], false));
                }
            }
            Step::Warmed => counters.begin(),
            Step::Warm | Step::Counted => {
                progress.step();
                if let Some(watched) = &mut watched {
                    watched.look();
                }
            }
        };
        let first = arguments.count(
            &sessions[0],
            warmup,
            memory[0].iter().collect(),
            in_flight,
            &warm,
            each,
        );
        let others = others.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        // all are waited for, also behind one that failed
        let all: Vec<anyhow::Result<Counted>> = std::iter::once(first).chain(others).collect();
        all.into_iter().collect::<anyhow::Result<Vec<Counted>>>()
    })?;
    let plan = sessions[0].plan();
    let runs = counted.iter().map(|one| one.times.len() as u64).sum();
    let drawn = counters.end(runs, plan.as_ref());
    let mut report = sessions[0].report();
    let predicted_throughput_per_s = plan
        .filter(|plan| plan.objective.goal == polychip_partitioner::Goal::Throughput)
        .map(|plan| 1e12 / plan.interval().picoseconds().max(1) as f64);
    let seen = watched.map(Watched::end);
    let per_op = if arguments.per_op {
        let inputs: Vec<&Input> = memory[0].iter().collect();
        let runs = arguments.iters.clamp(1, MOST_MEASURED);
        let per_op = per_op::measure(&sessions[0], &inputs, runs)?;
        per_op.blame(&mut report);
        Some(per_op)
    } else {
        None
    };
    drop(progress);
    if let (Some(mut seen), Some(path)) = (seen, &arguments.trace) {
        seen.add(per_op.iter().flat_map(|per_op| &per_op.newest));
        seen.write(&arguments.model.model.display().to_string(), path)?;
    }
    let began = counted.iter().map(|one| one.start).min();
    let ended = counted.iter().map(|one| one.end).max();
    let seconds = began
        .zip(ended)
        .map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
    let late = counted.iter().map(|one| one.late).sum();
    let (first_run_ns, warmup) = (counted[0].first_run_ns, counted[0].warmup_runs);
    let times: Vec<u64> = counted.into_iter().flat_map(|one| one.times).collect();
    let answer = BenchOutput {
        model: arguments.model.model.display().to_string(),
        warmup,
        iters: times.len() as u64,
        threads: arguments.session.plan_arguments.threads,
        precision: arguments.session.plan_arguments.precision.resolved(),
        period_ns: u64::try_from(arguments.period().as_nanos()).unwrap_or(u64::MAX),
        in_flight,
        sessions: sessions.len(),
        start: Start {
            runtime_ns,
            model_ns,
            plan_ns: made.plan_ns,
            compile_ns: made.compile_ns,
            first_run_ns,
        },
        throughput_per_s: times.len() as f64 / seconds.max(1e-9),
        predicted_throughput_per_s,
        latency_ns: Latency::of(times),
        deadline_ns: report.deadline_ns,
        late,
        peak_bytes: peak_bytes(),
        drawn,
        report,
        per_op,
    };
    if arguments.json {
        out.json(&answer)
    } else if arguments.csv {
        out.text(&answer.csv()?)
    } else {
        out.text(&answer.to_string())
    }
}
