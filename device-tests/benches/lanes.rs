//! Waiting time of an urgent small model next to a batch model that saturates its device.
//!
//! Three interleaved modes: the small model alone; urgent next to the batch model; not urgent next to it (as on a
//! device with one queue). Times run from submission to outputs.
//!
//! `cargo bench -p polychip-device-tests --bench lanes -- --plugins DIR --device gpu:0 --batch RESNET --urgent KWS`

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use polychip::{Input, Policy, Priority, Runtime, Session};

#[derive(Parser)]
#[command(about = "Latency of an urgent small model beside a batch model that saturates the device")]
struct Arguments {
    /// Plugin folder
    #[arg(long, value_name = "DIR")]
    plugins: PathBuf,
    /// Device of both models
    #[arg(long, default_value = "gpu:0")]
    device: String,
    /// Model that saturates the device
    #[arg(long, value_name = "MODEL")]
    batch: PathBuf,
    /// Small model that is urgent
    #[arg(long, value_name = "MODEL")]
    urgent: PathBuf,
    /// Runs of the batch model in flight
    #[arg(long, default_value_t = 4)]
    in_flight: usize,
    /// Seconds per turn
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Time between two urgent runs, in milliseconds
    #[arg(long, default_value_t = 5.0)]
    period_ms: f64,
    /// Rounds of the three turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Set by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Longest that a run may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = Runtime::builder()
        .plugins(&arguments.plugins)
        .only_given_folders()
        .build()?;
    for refusal in runtime.refusals() {
        eprintln!("warning: not used: {refusal}");
    }
    let device = runtime
        .devices()
        .iter()
        .find(|device| device.name() == arguments.device);
    let described = device.map_or_else(String::new, |device| {
        format!("{}, {}", device.info().name, device.info().driver)
    });
    let session = |path: &PathBuf, priority: Priority, in_flight: usize| -> Result<Session> {
        let model = runtime.load(path)?;
        let policy = Policy::latency()
            .devices([&arguments.device])
            .priority(priority)
            .in_flight(in_flight);
        Ok(runtime.session(&model, policy)?)
    };
    let batch = session(&arguments.batch, Priority::Batch, arguments.in_flight)?;
    let urgent = session(&arguments.urgent, Priority::Urgent, 1)?;
    let patient = session(&arguments.urgent, Priority::Batch, 1)?;

    let turns: [(&str, &Session, bool); 3] = [
        ("alone", &urgent, false),
        ("urgent beside batch", &urgent, true),
        ("not urgent beside batch", &patient, true),
    ];
    let mut times: [Vec<u64>; 3] = Default::default();
    let mut batch_runs = [0u64; 3];
    for _ in 0..arguments.rounds {
        for (turn, (_, small, beside)) in turns.iter().enumerate() {
            let (mut new, runs) = one_turn(&arguments, small, beside.then_some(&batch))?;
            times[turn].append(&mut new);
            batch_runs[turn] += runs;
        }
    }
    let seconds = arguments.seconds * arguments.rounds as f64;
    let mut rows = Vec::new();
    for (turn, (name, _, _)) in turns.iter().enumerate() {
        let sorted = &mut times[turn];
        sorted.sort_unstable();
        ensure!(!sorted.is_empty(), "no run of the small model ended");
        let at = |permille: usize| sorted[(sorted.len() - 1) * permille / 1000] as f64 / 1e6;
        rows.push(serde_json::json!({
            "turn": name,
            "runs": sorted.len(),
            "p50_ms": at(500),
            "p90_ms": at(900),
            "p99_ms": at(990),
            "max_ms": at(1000),
            "batch_runs_per_s": batch_runs[turn] as f64 / seconds,
        }));
    }
    let answer = serde_json::json!({
        "device": arguments.device,
        "described": described,
        "batch": arguments.batch,
        "urgent": arguments.urgent,
        "in_flight": arguments.in_flight,
        "turns": rows,
    });
    if arguments.json {
        serde_json::to_writer_pretty(std::io::stdout(), &answer)?;
    } else {
        print(&answer);
    }
    Ok(())
}

#[allow(clippy::print_stdout)] // a benchmark's table is its output
fn print(answer: &serde_json::Value) {
    let text = |key: &str| answer[key].as_str().unwrap_or_default();
    println!("{}: {}", text("device"), text("described"));
    println!("turn                      runs   p50 ms   p90 ms   p99 ms   max ms   batch runs/s");
    for row in answer["turns"].as_array().into_iter().flatten() {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:24} {:>5} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>14.1}",
            row["turn"].as_str().unwrap_or_default(),
            row["runs"],
            number("p50_ms"),
            number("p90_ms"),
            number("p99_ms"),
            number("max_ms"),
            number("batch_runs_per_s"),
        );
    }
}

/// Times of the small model's runs, and how many runs of the batch model ended meanwhile.
fn one_turn(arguments: &Arguments, small: &Session, batch: Option<&Session>) -> Result<(Vec<u64>, u64)> {
    let stop = AtomicBool::new(false);
    let ended = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let load = batch.map(|batch| scope.spawn(|| saturate(batch, arguments.in_flight, &stop, &ended)));
        let times = timed(arguments, small);
        stop.store(true, Ordering::Relaxed);
        if let Some(load) = load {
            load.join().expect("invariant: the thread returns its error")?;
        }
        Ok((times?, ended.load(Ordering::Relaxed)))
    })
}

fn timed(arguments: &Arguments, small: &Session) -> Result<Vec<u64>> {
    let inputs = inputs(small)?;
    let inputs: Vec<&Input> = inputs.iter().collect();
    // the batch model fills its queue first
    let begin = Instant::now() + Duration::from_millis(300);
    let end = begin + Duration::from_secs_f64(arguments.seconds);
    let mut times = Vec::new();
    while Instant::now() < end {
        let start = Instant::now();
        small.submit(&inputs)?.wait(PATIENCE)?;
        let took = start.elapsed();
        if start >= begin {
            times.push(u64::try_from(took.as_nanos())?);
        }
        std::thread::sleep(Duration::from_secs_f64(arguments.period_ms / 1e3).saturating_sub(took));
    }
    Ok(times)
}

fn saturate(batch: &Session, in_flight: usize, stop: &AtomicBool, ended: &AtomicU64) -> Result<()> {
    let inputs = inputs(batch)?;
    let inputs: Vec<&Input> = inputs.iter().collect();
    let mut runs = std::collections::VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        while runs.len() < in_flight {
            runs.push_back(batch.submit(&inputs)?);
        }
        if let Some(run) = runs.pop_front() {
            run.wait(PATIENCE)?;
            ended.fetch_add(1, Ordering::Relaxed);
        }
    }
    for run in runs {
        run.wait(PATIENCE)?;
    }
    Ok(())
}

/// Inputs of zeros: what is computed takes the same time.
fn inputs(session: &Session) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for spec in session.inputs() {
        let mut input = session.input(&spec.name)?;
        input.bytes_mut()?.fill(0);
        inputs.push(input);
    }
    Ok(inputs)
}
