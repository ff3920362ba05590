//! Plans for concurrent devices, compared with plans that use one device after another and with each device alone.
//!
//! Invariants:
//! 1. All sessions of a model alternate round by round; results are medians over all rounds.
//! 2. Every device has one thread unless more are requested, so two devices use two cores.
//! 3. Plans are made from measurements on this machine in the same process.
//!
//! Not here: correctness, except that all sessions of a model agree.

use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use polychip::{Input, Model, Policy, ProfileOptions, Runtime, Session};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Models
    #[arg(long = "model", value_name = "FILE", required = true, num_args = 1..)]
    models: Vec<PathBuf>,
    /// Plugin folder
    #[arg(long, value_name = "FOLDER")]
    plugins: PathBuf,
    /// The devices
    #[arg(long, num_args = 2.., default_values_t = ["cpu".to_owned(), "openvino".to_owned()])]
    devices: Vec<String>,
    /// Threads per device
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Processor list for each device, as for the plugin setting `cores`: `0 1`
    #[arg(long, num_args = 2..)]
    cores: Vec<String>,
    /// Profile database
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Maximum measuring time per model and kind of plan, in seconds
    #[arg(long, default_value_t = 40)]
    learn: u64,
    /// Rounds of all sessions
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Seconds per session and round
    #[arg(long, default_value_t = 0.4)]
    seconds: f64,
    /// Write the documentation page to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print the start and end of each part of a run
    #[arg(long)]
    trace: bool,
}

/// Runs of which `--trace` takes the medians.
const TRACED: usize = 40;
const LONGEST: Duration = Duration::from_secs(120);
/// The page's text above its figures.
const PAGE: &str = "# Concurrent devices

Written by `cargo xtask sessions --only at-once`. Two devices share one processor, with one thread and so one core each: our
CPU plugin (`cpu`) and Intel's OpenVINO. Each part is first measured alone, plans are made from these measurements, and then
all sessions of a model alternate.

Times are medians over rounds: from submission to outputs, or, with several runs in flight, between the ends of consecutive
runs. The last column is the ratio to the fastest plan that uses one device after the other, with one thread each.
`cpu, 2 threads` is one device with both cores, for comparison; no ratio refers to it. The bound below the table is the time of
two devices that could split the work in any proportion without loss.

";

/// One way to run a model.
struct Way {
    name: String,
    session: Session,
    inputs: Vec<Input>,
    /// Runs that are kept in flight.
    in_flight: usize,
    /// One run at a time, one device after another, one thread each: what others are held against.
    serial: bool,
    /// Per round: nanoseconds of a run, or from one run's end to the next one's where several are in flight.
    rounds: Vec<f64>,
}

impl Way {
    fn new(name: &str, runtime: &Runtime, model: &Model, policy: &Policy, in_flight: usize) -> Result<Way> {
        let policy = policy.clone().in_flight(in_flight);
        let session = runtime.session(model, policy).with_context(|| name.to_owned())?;
        let names: Vec<String> = session.inputs().map(|input| input.name.clone()).collect();
        let mut inputs = Vec::with_capacity(names.len());
        for name in &names {
            let mut input = session.input(name)?;
            let elements: usize = input.shape().iter().product();
            if input.dtype() == polychip::DType::I64 {
                // words, masks and kinds of words: what is an index of each
                let values: Vec<i64> = (0..elements).map(|i| (i % 2) as i64).collect();
                input.write(&values)?;
            } else {
                let values: Vec<f32> = (0..elements).map(|i| (i % 251) as f32 / 251.0).collect();
                input.write(&values)?;
            }
            inputs.push(input);
        }
        Ok(Way {
            name: name.to_owned(),
            session,
            inputs,
            in_flight,
            serial: in_flight == 1,
            rounds: Vec::new(),
        })
    }

    fn not_serial(self) -> Way {
        Way {
            serial: false,
            ..self
        }
    }

    fn given(&self) -> Vec<&Input> {
        self.inputs.iter().collect()
    }

    fn answer(&self) -> Result<Vec<f32>> {
        let outputs = self.session.submit(&self.given())?.wait(LONGEST)?;
        Ok(outputs.at(0)?.values::<f32>()?.into_owned())
    }

    /// A turn: one run after another, or as many in flight as there may be.
    fn turn(&mut self, length: Duration) -> Result<()> {
        let given = self.given();
        let figure = if self.in_flight == 1 {
            let mut times = Vec::new();
            let start = Instant::now();
            while start.elapsed() < length || times.is_empty() {
                let one = Instant::now();
                drop(self.session.submit(&given)?.wait(LONGEST)?);
                times.push(one.elapsed().as_nanos() as f64);
            }
            median(&times)
        } else {
            let mut runs = VecDeque::new();
            for _ in 0..self.in_flight {
                runs.push_back(self.session.submit(&given)?);
            }
            // the first ones fill the devices
            drop(runs.pop_front().context("no run")?.wait(LONGEST)?);
            let (start, mut count) = (Instant::now(), 0u32);
            while start.elapsed() < length || count == 0 {
                runs.push_back(self.session.submit(&given)?);
                drop(runs.pop_front().context("no run")?.wait(LONGEST)?);
                count += 1;
            }
            let figure = start.elapsed().as_nanos() as f64 / f64::from(count);
            for run in runs {
                drop(run.wait(LONGEST)?);
            }
            figure
        };
        self.rounds.push(figure);
        Ok(())
    }

    /// What the plan predicts of what is measured, in nanoseconds.
    fn predicted(&self) -> Option<f64> {
        let plan = self.session.plan()?;
        let time = if self.in_flight == 1 {
            plan.time()
        } else {
            plan.interval()
        };
        Some(time.nanoseconds() as f64)
    }

    /// Parts by device.
    fn parts(&self) -> String {
        let Some(plan) = self.session.plan() else {
            return String::new();
        };
        let counts = plan.devices.iter().enumerate().map(|(index, name)| {
            let own = plan.parts.iter().filter(|part| part.device.index() == index);
            (name, own.count())
        });
        let words = counts.filter(|(_, count)| *count > 0);
        words
            .map(|(name, count)| format!("{count} on {name}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn median(values: &[f64]) -> f64 {
    polychip_profile::median(&mut values.to_vec(), f64::total_cmp).unwrap_or(f64::NAN)
}

fn stem(file: &Path) -> String {
    file.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// All devices with so many threads each; what is measured with the threads that the arguments give is kept where these say.
fn runtime_of(arguments: &Arguments, threads: u32) -> Result<Runtime> {
    let mut builder = Runtime::builder()
        .plugins(&arguments.plugins)
        .only_given_folders();
    for device in &arguments.devices {
        builder = builder.configure(device, "threads", threads.to_string());
    }
    if threads == arguments.threads {
        for (device, cores) in arguments.devices.iter().zip(&arguments.cores) {
            builder = builder.configure(device, "cores", cores.clone());
        }
    }
    if let Some(profile) = arguments
        .profile
        .as_ref()
        .filter(|_| threads == arguments.threads)
    {
        builder = builder.profiles(profile);
    }
    Ok(builder.build()?)
}

/// Measures, and returns the results as text.
///
/// # Errors
/// Whatever a user of the crate would get, or sessions whose answers differ.
pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let runtime = runtime_of(arguments, arguments.threads)?;
    let mut text = String::new();
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "model",
        "plan",
        "parts",
        "predicted ms",
        "measured ms",
        "of the best serial plan",
    ]);
    for file in &arguments.models {
        let model = runtime.load(file)?;
        let name = stem(file);
        let ways = measure(&runtime, &model, arguments, &mut text, file)?;
        let best = ways
            .iter()
            .filter(|way| way.serial)
            .map(|way| median(&way.rounds))
            .fold(f64::INFINITY, f64::min);
        for way in &ways {
            let measured = median(&way.rounds);
            let predicted = way
                .predicted()
                .map_or_else(String::new, |ns| format!("{:.2}", ns / 1e6));
            table.add_row([
                name.clone(),
                way.name.clone(),
                way.parts(),
                predicted,
                format!("{:.2}", measured / 1e6),
                format!("{:.2}", measured / best),
            ]);
        }
    }
    if let Some(page) = &arguments.page {
        let lines: Vec<String> = text.lines().map(|line| format!("- {line}")).collect();
        let page_text = format!("{PAGE}{table}\n\n{}\n", lines.join("\n"));
        std::fs::write(page, page_text).with_context(|| page.display().to_string())?;
    }
    Ok(format!("{text}{table}"))
}

/// Learns what parts take, then measures all ways to run a model in turns.
fn measure(
    runtime: &Runtime,
    model: &Model,
    arguments: &Arguments,
    text: &mut String,
    file: &Path,
) -> Result<Vec<Way>> {
    let name = stem(file);
    let of = |policy: Policy| {
        policy
            .threads(arguments.threads)
            .devices(arguments.devices.iter().cloned())
    };
    let (serial, makespan, throughput) = (
        of(Policy::latency()),
        of(Policy::makespan()),
        of(Policy::throughput()),
    );
    runtime.measure_links(&serial)?;
    for (policy, ops) in [(&serial, true), (&makespan, false), (&throughput, false)] {
        let options = ProfileOptions {
            ops,
            time: Some(Duration::from_secs(arguments.learn)),
            ..ProfileOptions::default()
        };
        let mut watch = |_: &polychip::ProfileProgress<'_>| ControlFlow::Continue(());
        runtime.profile_models(std::slice::from_ref(model), policy, &options, &mut watch)?;
    }
    let mut ways = Vec::new();
    for device in &arguments.devices {
        let alone = Policy::latency()
            .threads(arguments.threads)
            .devices([device.as_str()]);
        for in_flight in [1, 2] {
            let words = match in_flight {
                1 => format!("{device} alone"),
                _ => format!("{device} alone, 2 in flight"),
            };
            ways.push(Way::new(&words, runtime, model, &alone, in_flight)?);
        }
    }
    ways.push(Way::new("serial", runtime, model, &serial, 1)?);
    ways.push(Way::new("makespan", runtime, model, &makespan, 1)?.not_serial());
    ways.push(Way::new(
        "throughput, 3 in flight",
        runtime,
        model,
        &throughput,
        3,
    )?);
    if let Some(first) = arguments.devices.first() {
        let threads = arguments.threads * u32::try_from(arguments.devices.len()).context("devices")?;
        let both = runtime_of(arguments, threads)?;
        let alone = Policy::latency().threads(threads).devices([first.as_str()]);
        let words = format!("{first}, {threads} threads");
        ways.push(Way::new(&words, &both, &both.load(file)?, &alone, 1)?.not_serial());
    }
    let wanted = ways[0].answer()?;
    let largest = wanted.iter().fold(0f32, |most, value| most.max(value.abs()));
    for way in &ways[1..] {
        let found = way.answer()?;
        let mut pairs = found.iter().zip(&wanted);
        let close = pairs.all(|(a, b)| (a - b).abs() <= 1e-3 * largest.max(f32::MIN_POSITIVE));
        ensure!(
            found.len() == wanted.len() && close,
            "{name}: the outputs of {} differ",
            way.name
        );
    }
    let length = Duration::from_secs_f64(arguments.seconds);
    for round in 0..=arguments.rounds {
        for way in &mut ways {
            way.turn(length)?;
            if round == 0 {
                way.rounds.clear();
            }
        }
    }
    let alone: Vec<f64> = arguments
        .devices
        .iter()
        .filter_map(|device| ways.iter().find(|way| way.name == format!("{device} alone")))
        .map(|way| median(&way.rounds))
        .collect();
    let bound = 1.0 / alone.iter().map(|ns| 1.0 / ns).sum::<f64>();
    let least = alone.iter().copied().fold(f64::INFINITY, f64::min);
    writeln!(
        text,
        "{name}: bound {:.2} ms, {:.2} of the faster device alone",
        bound / 1e6,
        bound / least
    )?;
    let factors = contention(&ways, arguments)?;
    for (device, factor) in arguments.devices.iter().zip(factors) {
        writeln!(
            text,
            "{name}: {device} takes {factor:.2} times as long while the other device is busy"
        )?;
    }
    if arguments.trace {
        let several = |way: &&mut Way| way.parts().contains(", ");
        for way in ways.iter_mut().filter(several) {
            trace(way, text, &name)?;
        }
    }
    Ok(ways)
}

/// What each device's time becomes while another is busy with the same model: the median of runs beside it over the median
/// of runs alone, in turns.
fn contention(ways: &[Way], arguments: &Arguments) -> Result<Vec<f64>> {
    let alone = |device: &String| ways.iter().find(|way| way.name == format!("{device} alone"));
    let ways: Vec<&Way> = arguments.devices.iter().filter_map(alone).collect();
    let length = Duration::from_secs_f64(arguments.seconds);
    let times = |way: &Way| -> Result<Vec<f64>> {
        let (given, start, mut times) = (way.given(), Instant::now(), Vec::new());
        while start.elapsed() < length || times.is_empty() {
            let one = Instant::now();
            drop(way.session.submit(&given)?.wait(LONGEST)?);
            times.push(one.elapsed().as_nanos() as f64);
        }
        Ok(times)
    };
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    for _ in 0..arguments.rounds {
        let mut before = Vec::new();
        for way in &ways {
            before.push(median(&times(way)?));
        }
        let beside = std::thread::scope(|scope| -> Result<Vec<Vec<f64>>> {
            let threads: Vec<_> = ways.iter().map(|way| scope.spawn(|| times(way))).collect();
            let joined = threads.into_iter();
            joined
                .map(|thread| thread.join().ok().context("a thread panicked")?)
                .collect()
        })?;
        for ((ratios, beside), before) in ratios.iter_mut().zip(beside).zip(before) {
            ratios.push(median(&beside) / before);
        }
    }
    Ok(ratios.iter().map(|ratios| median(ratios)).collect())
}

/// When parts began and ended, with what was predicted: of runs one after another the medians, from the first part's begin on;
/// of several in flight three times as many as these, one by one.
fn trace(way: &mut Way, text: &mut String, name: &str) -> Result<()> {
    let count = if way.in_flight == 1 {
        TRACED
    } else {
        way.in_flight * 3
    };
    way.turn(Duration::ZERO)?;
    way.rounds.pop();
    way.session.start_trace(count);
    let given = way.given();
    let mut runs = VecDeque::<polychip::Run>::new();
    for _ in 0..count {
        if runs.len() == way.in_flight {
            drop(runs.pop_front().context("no run")?.wait(LONGEST)?);
        }
        runs.push_back(way.session.submit(&given)?);
    }
    for run in runs {
        drop(run.wait(LONGEST)?);
    }
    let (runs, _) = way.session.trace();
    let Some(plan) = way.session.plan() else {
        return Ok(());
    };
    let begin = |run: &polychip::TracedRun| run.parts.iter().map(|part| part.start_ns).min().unwrap_or(0);
    let zero = runs.iter().map(begin).min().unwrap_or(0);
    let mut lines: Vec<(f64, String)> = Vec::new();
    for (at, part) in plan.parts.iter().enumerate() {
        let of_run = |run: &polychip::TracedRun| {
            let timing = run.parts.iter().find(|timing| timing.id == part.id)?;
            let zero = if way.in_flight == 1 { begin(run) } else { zero };
            Some((
                (timing.start_ns - zero) as f64 / 1e6,
                (timing.end_ns - zero) as f64 / 1e6,
            ))
        };
        let timings: Vec<(f64, f64)> = runs.iter().filter_map(of_run).collect();
        let planned = plan
            .schedule
            .as_ref()
            .map(|schedule| schedule.starts[at].nanoseconds() as f64 / 1e6);
        let takes = part.cost.time.nanoseconds() as f64 / 1e6;
        let device = &plan.devices[part.device.index()];
        let mut line = |run: String, start: f64, takes_ms: f64| {
            lines.push((start, format!(
                "{name} {}{run}: {} on {device}: from {start:.2} ms for {takes_ms:.2} ms; planned from {:.2} ms for {takes:.2} ms",
                way.name,
                part.id,
                planned.unwrap_or(f64::NAN),
            )));
        };
        if way.in_flight == 1 {
            let starts: Vec<f64> = timings.iter().map(|timing| timing.0).collect();
            let lengths: Vec<f64> = timings.iter().map(|timing| timing.1 - timing.0).collect();
            line(String::new(), median(&starts), median(&lengths));
        } else {
            for (run, timing) in timings.iter().enumerate() {
                line(format!(": run {run}"), timing.0, timing.1 - timing.0);
            }
        }
    }
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, line) in lines {
        writeln!(text, "{line}")?;
    }
    Ok(())
}
