//! `polychip energy`: what a run takes on each device and plan, read off the machine's own sensors.
//!
//! Each candidate is run again and again, in blocks, with so many runs in flight at once, while a thread reads the
//! sensors; before the first and after each one nothing runs. What a run takes is the sensors' energy over the runs of a
//! block (gross), less idle power over the same time (net), with an interval over the blocks.
//!
//! Invariants:
//! 1. A device without a sensor has no figure, and a candidate that uses one has no net energy, and as gross energy only
//!    what the other sensors say, marked as a lower bound.
//! 2. What is measured of a device that ran one part goes to the profile, from which plans of least energy are made.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polychip::telemetry::{EnergyFigures, EnergyMeter, Interval, Rules, Sampler, Sensors};
use polychip::{Planned, Policy, Runtime, Session};
use polychip_partitioner::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::Latency;
use crate::exit::usage;
use crate::input::InputArguments;
use crate::output::Output;
use crate::progress::Progress;
use crate::run::{PATIENCE, feed};
use crate::setup::{ModelArguments, PlanArguments, Precision};

/// How often sensors are read: several times between two changes of NVIDIA's, which change ten times a second.
const EVERY: Duration = Duration::from_millis(20);
/// Clocks and averages of sensors settle for so long before runs count, and before idle counts.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Seconds for which each candidate is run; sensors change ten times a second at best, so not less than ten for
    /// figures that are published
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds for which nothing runs, before and after each candidate
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = seconds)]
    idle: f64,
    /// Seconds that clocks and sensors are given before runs or idle count
    #[arg(long, value_name = "N", default_value_t = SETTLE.as_secs_f64(), value_parser = seconds)]
    settle: f64,
    /// Blocks that a candidate's time is split into, from which the interval is made
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    blocks: u32,
    /// Runs in flight at once, each number a candidate of its own
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4", value_parser = clap::value_parser!(u32).range(1..=64))]
    lanes: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plan: PlanArguments,
}

/// Reads a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=86_400.0).contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is no number of seconds up to a day")),
    }
}

/// What `energy --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Model file.
    model: String,
    /// Threads asked for; none where the plugins chose.
    threads: Option<u32>,
    /// Seconds for which each candidate was run.
    seconds: f64,
    /// The devices' sensors.
    sensors: Vec<SensorLine>,
    /// What was measured, in the order in which it was.
    candidates: Vec<Candidate>,
    /// What could not be run, with the reason.
    not_run: Vec<NotRun>,
    /// The best of what was measured.
    best: Best,
    /// What the planner chooses from the profile.
    plans: Vec<Choice>,
    /// Whether the planner's choices for least time and least energy differ; none where one of them could not be made.
    plans_differ: Option<bool>,
}

/// What a device says of its energy.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct SensorLine {
    /// Device, `plugin:index`.
    device: String,
    /// Sensor of energy or power; none where there is none.
    sensor: Option<String>,
    /// Why there is none.
    reason: Option<String>,
}

/// One way to run the model.
#[derive(Debug, Serialize, JsonSchema)]
struct Candidate {
    /// Name: devices, precision, runs in flight.
    name: String,
    /// Nodes by device.
    nodes: BTreeMap<String, usize>,
    /// How exactly was computed.
    precision: Precision,
    /// Runs in flight at once.
    lanes: u32,
    /// Time of a run from submit to outputs, in nanoseconds.
    latency_ns: Latency,
    /// Runs in a second.
    runs_per_second: f64,
    /// Each device with a sensor, used or not.
    devices: Vec<DeviceEnergy>,
    /// Energy of a run on the devices that it uses, less idle, in microjoules; none where one of them has no sensor.
    net_uj: Option<Interval>,
    /// Energy of a run with what all devices with a sensor take idle, in microjoules.
    gross_uj: Option<Interval>,
    /// Devices that it uses and that have no sensor: the gross energy is a lower bound then.
    unknown: Vec<String>,
}

/// Energy of a run on one device.
#[derive(Debug, Serialize, JsonSchema)]
struct DeviceEnergy {
    /// Device, `plugin:index`.
    device: String,
    /// Whether the candidate uses it.
    used: bool,
    /// The figures; none where the sensor gives none.
    figures: Option<EnergyFigures>,
    /// Why there are none.
    reason: Option<String>,
}

/// Something that could not be run.
#[derive(Debug, Serialize, JsonSchema)]
struct NotRun {
    name: String,
    reason: String,
}

/// The best of what was measured, by candidates' names.
#[derive(Debug, Serialize, JsonSchema)]
struct Best {
    /// Shortest median time of a run.
    latency: Option<String>,
    /// Least net energy among those that have one.
    net: Option<String>,
    /// Least gross energy among those of which no device is unknown.
    gross: Option<String>,
    /// Whether the first two differ; none where there is no energy.
    differ: Option<bool>,
    /// Whether the intervals of the net energies of both have nothing in common.
    apart: Option<bool>,
    /// Candidates of which some device has no sensor, which therefore take no part in the best energy.
    unknown: Vec<String>,
}

/// A plan that the planner chooses.
#[derive(Debug, Serialize, JsonSchema)]
struct Choice {
    /// What was minimised.
    aim: &'static str,
    /// Nodes by device; none where no plan was made.
    nodes: Option<BTreeMap<String, usize>>,
    /// Predicted time of a run in nanoseconds.
    time_ns: Option<u64>,
    /// Predicted energy of a run in microjoules, where it is known.
    energy_uj: Option<u64>,
    /// The weakest source of the figures: measured, composed, estimated, roofline.
    provenance: Option<&'static str>,
    /// Why there is no plan.
    reason: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let runtime = arguments.plan.runtime(None)?;
    let model = arguments.model.load(&runtime)?;
    let inputs = InputArguments {
        inputs: arguments.inputs.inputs.clone(),
        fill: Some(arguments.inputs.fill.unwrap_or(0)),
    };
    let (model, given) = inputs.read(&model)?;
    let sampler = Sampler::new(&runtime, Sensors::of_this_machine(&Rules::default()));
    let mut bench = Bench {
        sampler: Mutex::new(sampler),
        idle: Vec::new(),
        arguments,
    };
    let sensors = bench.sensors();
    let (mut found, mut alone) = (Vec::new(), Vec::new());
    let mut not_run = Vec::new();
    let ways = ways(&runtime, &model, arguments, &mut not_run)?;
    if ways.is_empty() {
        return Err(usage(
            "none of the devices asked for can run the model".to_owned(),
        ));
    }
    bench.rest();
    for way in ways {
        let session = match runtime.session_of(way.planned.clone(), way.policy.clone()) {
            Ok(session) => session,
            Err(error) => {
                not_run.push(NotRun {
                    name: way.name,
                    reason: error.to_string(),
                });
                continue;
            }
        };
        let memory = feed(&session, &given)?;
        let measured = bench.measure(&way, &session, &memory)?;
        session.record()?;
        drop(session);
        found.push(measured);
        if way.lanes == 1 {
            alone.push((way, found.len() - 1));
        }
    }
    // after the times of all sessions, of which only so many are kept
    for (way, index) in &alone {
        record(&runtime, way, &found[*index])?;
    }
    let policy = |aim: polychip::Aim| match aim {
        polychip::Aim::Energy => arguments.plan.policy_of(Policy::energy()),
        _ => arguments.plan.policy_of(Policy::latency()),
    };
    let plans: Vec<Choice> = [polychip::Aim::Latency, polychip::Aim::Energy]
        .into_iter()
        .map(|aim| choice(aim, runtime.plan(&model, &policy(aim))))
        .collect();
    let plans_differ = match (&plans[0].nodes, &plans[1].nodes) {
        (Some(fast), Some(frugal)) => Some(fast != frugal),
        _ => None,
    };
    let answer = Answer {
        model: arguments.model.model.display().to_string(),
        threads: arguments.plan.threads,
        seconds: arguments.seconds,
        sensors,
        best: best(&found),
        candidates: found,
        not_run,
        plans,
        plans_differ,
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

/// A candidate before it is measured.
struct Way {
    name: String,
    planned: Planned,
    policy: Policy,
    precision: Precision,
    lanes: u32,
}

/// Each device alone, and the planner's choice of several, in each precision and number of runs in flight.
fn ways(
    runtime: &Runtime,
    model: &polychip::Model,
    arguments: &Arguments,
    not_run: &mut Vec<NotRun>,
) -> anyhow::Result<Vec<Way>> {
    let asked = &arguments.plan.devices;
    let is_asked = |name: &str| {
        let plugin = name.split(':').next().unwrap_or(name);
        asked.is_empty() || asked.iter().any(|one| one == name || one == plugin)
    };
    let names: Vec<&str> = runtime.devices().iter().map(polychip::Device::name).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| is_asked(name)).collect();
    let precisions: &[Precision] = match arguments.plan.precision {
        Precision::Exact => &[Precision::Exact],
        Precision::Reduced => &[Precision::Exact, Precision::Reduced],
    };
    let mut ways: Vec<Way> = Vec::new();
    for &precision in precisions {
        let base = arguments
            .plan
            .policy_of(Policy::latency())
            .precision(precision.of_library());
        let mut plans: Vec<(String, Policy)> = names
            .iter()
            .map(|name| ((*name).to_owned(), base.clone().devices([*name])))
            .collect();
        if names.len() > 1 {
            let all = base.clone().devices(names.iter().copied());
            plans.push(("planned".to_owned(), all.clone()));
        }
        for (name, policy) in plans {
            let planned = match runtime.plan(model, &policy) {
                Ok(planned) => planned,
                Err(error) => {
                    not_run.push(NotRun {
                        name,
                        reason: error.to_string(),
                    });
                    continue;
                }
            };
            let alike = |way: &&Way| way.precision == precision && nodes(&way.planned) == nodes(&planned);
            if ways.iter().any(|way| alike(&way)) {
                continue;
            }
            for &lanes in &arguments.lanes {
                let word = match precision {
                    Precision::Exact => "exact",
                    Precision::Reduced => "reduced",
                };
                ways.push(Way {
                    name: format!("{name} {word} x{lanes}"),
                    planned: planned.clone(),
                    policy: policy.clone().in_flight(lanes as usize).patience(PATIENCE),
                    precision,
                    lanes,
                });
            }
        }
    }
    Ok(ways)
}

/// Number of nodes of each device.
fn nodes(planned: &Planned) -> BTreeMap<String, usize> {
    let plan = planned.plan();
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    for part in &plan.parts {
        *nodes
            .entry(plan.devices[part.device as usize].clone())
            .or_default() += part.nodes.len();
    }
    nodes
}

struct Bench<'a> {
    sampler: Mutex<Sampler>,
    /// The idle time before the next candidate: its samples, from when to when.
    idle: Vec<(Vec<polychip::telemetry::Sample>, u64, u64)>,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Sampler> {
        self.sampler
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn sensors(&self) -> Vec<SensorLine> {
        let mut sampler = self.lock();
        sampler.sample();
        let sample = sampler.sample();
        let lines = sample.devices.into_iter().map(|state| {
            let known = [&state.energy_uj, &state.power_mw]
                .into_iter()
                .find(|figure| figure.value.is_some());
            let kind = if state.energy_uj.value.is_some() {
                "energy"
            } else {
                "power"
            };
            SensorLine {
                device: state.device,
                sensor: known.map(|figure| format!("{kind} of {}", figure.from)),
                reason: match known {
                    Some(_) => None,
                    None => Some(state.energy_uj.from),
                },
            }
        });
        lines.collect()
    }

    /// Nothing runs, for as long as it was asked for.
    fn rest(&mut self) {
        let _progress = Progress::of("idle");
        std::thread::sleep(Duration::from_secs_f64(self.arguments.settle));
        let (samples, from, to) = {
            let mut sampler = self.lock();
            let from = sampler.now_ns();
            let end = Instant::now() + Duration::from_secs_f64(self.arguments.idle);
            let mut samples = Vec::new();
            while Instant::now() < end {
                samples.push(sampler.sample());
                std::thread::sleep(EVERY);
            }
            (samples, from, sampler.now_ns())
        };
        self.idle.push((samples, from, to));
    }

    /// Runs a candidate in blocks, and rests after it.
    fn measure(
        &mut self,
        way: &Way,
        session: &Session,
        inputs: &[polychip::Input],
    ) -> anyhow::Result<Candidate> {
        let inputs: Vec<&polychip::Input> = inputs.iter().collect();
        let mut load = Load::new(session, inputs, way.lanes as usize);
        let progress = Progress::steps("measuring", u64::from(self.arguments.blocks));
        // clocks rise, caches fill
        load.run_for(Duration::from_secs_f64(self.arguments.settle.max(0.2)))?;
        load.times.clear();
        let block = Duration::from_secs_f64(self.arguments.seconds / f64::from(self.arguments.blocks));
        let stop = AtomicBool::new(false);
        let sampler = &self.sampler;
        let (samples, blocks) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut samples = Vec::new();
                let mut sampler = sampler.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                while !stop.load(Ordering::Acquire) {
                    samples.push(sampler.sample());
                    std::thread::sleep(EVERY);
                }
                samples
            });
            let mut blocks = Vec::new();
            let mut failed = None;
            for _ in 0..self.arguments.blocks {
                let from = session.now_ns();
                match load.run_for(block) {
                    Ok(runs) => blocks.push((from, session.now_ns(), runs)),
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
                progress.step();
            }
            stop.store(true, Ordering::Release);
            let samples = reader.join().unwrap_or_default();
            match failed {
                None => Ok((samples, blocks)),
                Some(error) => Err(error),
            }
        })?;
        let times = std::mem::take(&mut load.times);
        load.end()?;
        drop(progress);
        self.rest();
        let planned = session.planned();
        Ok(candidate(
            way,
            &planned,
            times,
            &samples,
            &blocks,
            &self.idle[self.idle.len() - 2..],
        ))
    }
}

/// Keeps so many runs in flight.
pub(crate) struct Load<'a> {
    session: &'a Session,
    inputs: Vec<&'a polychip::Input>,
    lanes: usize,
    flying: VecDeque<(Instant, polychip::Run)>,
    pub(crate) times: Vec<u64>,
}

impl<'a> Load<'a> {
    pub(crate) fn new(session: &'a Session, inputs: Vec<&'a polychip::Input>, lanes: usize) -> Load<'a> {
        Load {
            session,
            inputs,
            lanes,
            flying: VecDeque::with_capacity(lanes),
            times: Vec::new(),
        }
    }

    /// Runs for a while; how many ended.
    pub(crate) fn run_for(&mut self, time: Duration) -> anyhow::Result<u64> {
        let end = Instant::now() + time;
        let mut runs = 0;
        while Instant::now() < end {
            self.once()?;
            runs += 1;
        }
        Ok(runs)
    }

    /// Fills the lanes and waits for the oldest run.
    pub(crate) fn once(&mut self) -> anyhow::Result<()> {
        while self.flying.len() < self.lanes {
            self.flying
                .push_back((Instant::now(), self.session.submit(&self.inputs)?));
        }
        if let Some((start, run)) = self.flying.pop_front() {
            drop(run.wait(PATIENCE)?);
            self.times
                .push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Waits for what is in flight.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        while let Some((_, run)) = self.flying.pop_front() {
            drop(run.wait(PATIENCE)?);
        }
        Ok(())
    }
}

type Idle = (Vec<polychip::telemetry::Sample>, u64, u64);

fn candidate(
    way: &Way,
    planned: &Planned,
    times: Vec<u64>,
    samples: &[polychip::telemetry::Sample],
    blocks: &[(u64, u64, u64)],
    idle: &[Idle],
) -> Candidate {
    let nodes = nodes(planned);
    let names: Vec<String> = samples.first().map_or_else(Vec::new, |sample| {
        sample.devices.iter().map(|state| state.device.clone()).collect()
    });
    let mut devices = Vec::new();
    for (index, device) in names.iter().enumerate() {
        let mut meter = EnergyMeter::default();
        let all = idle[..1].iter().flat_map(|(samples, ..)| samples).chain(samples);
        let all = all.chain(idle[1..].iter().flat_map(|(samples, ..)| samples));
        for sample in all {
            let state = &sample.devices[index];
            meter.sample(sample.time_ns, state.power_mw.value, state.energy_uj.value);
        }
        idle.iter().for_each(|(_, from, to)| meter.idle(*from, *to));
        blocks
            .iter()
            .for_each(|(from, to, runs)| meter.block(*from, *to, *runs));
        let (figures, reason) = match meter.figures() {
            Ok(figures) => (Some(figures), None),
            Err(reason) => (None, Some(reason)),
        };
        devices.push(DeviceEnergy {
            used: nodes.contains_key(device),
            device: device.clone(),
            figures,
            reason,
        });
    }
    let unknown: Vec<String> = devices
        .iter()
        .filter(|line| line.used && line.figures.is_none())
        .map(|line| line.device.clone())
        .collect();
    let used = devices.iter().filter(|line| line.used);
    let net: Option<Vec<Interval>> = used.map(|line| line.figures?.net_uj).collect();
    let gross: Vec<Interval> = devices
        .iter()
        .filter_map(|line| Some(line.figures.as_ref()?.gross_uj))
        .collect();
    let seconds: f64 = blocks.iter().map(|(from, to, _)| (to - from) as f64 / 1e9).sum();
    let runs: u64 = blocks.iter().map(|(_, _, runs)| runs).sum();
    Candidate {
        name: way.name.clone(),
        nodes,
        precision: way.precision,
        lanes: way.lanes,
        latency_ns: Latency::of(times),
        runs_per_second: runs as f64 / seconds,
        net_uj: net.and_then(|all| sum(&all)),
        gross_uj: sum(&gross),
        devices,
        unknown,
    }
}

/// The sum of figures whose errors are independent.
fn sum(all: &[Interval]) -> Option<Interval> {
    let mean = all.iter().map(|one| one.mean).sum();
    let half = all.iter().map(|one| one.half().powi(2)).sum::<f64>().sqrt();
    (!all.is_empty()).then(|| Interval::around(mean, half))
}

fn best(candidates: &[Candidate]) -> Best {
    let name = |found: Option<&Candidate>| found.map(|candidate| candidate.name.clone());
    let fastest = candidates.iter().min_by_key(|candidate| candidate.latency_ns.p50);
    let least = |energy: &dyn Fn(&Candidate) -> Option<f64>| {
        let known = candidates
            .iter()
            .filter_map(|candidate| Some((candidate, energy(candidate)?)));
        known
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(candidate, _)| candidate)
    };
    let net = least(&|candidate| Some(candidate.net_uj?.mean));
    let gross = least(&|candidate| candidate.unknown.is_empty().then_some(candidate.gross_uj?.mean));
    let both = fastest.zip(net);
    Best {
        latency: name(fastest),
        net: name(net),
        gross: name(gross),
        differ: both.map(|(fastest, net)| fastest.name != net.name),
        apart: both.and_then(|(fastest, net)| Some(fastest.net_uj?.is_apart_from(&net.net_uj?))),
        unknown: candidates
            .iter()
            .filter(|candidate| !candidate.unknown.is_empty())
            .map(|candidate| candidate.name.clone())
            .collect(),
    }
}

/// Writes what a device took for its one part into the profile.
fn record(runtime: &Runtime, way: &Way, measured: &Candidate) -> anyhow::Result<()> {
    for line in measured.devices.iter().filter(|line| line.used) {
        if let Some(net) = line.figures.as_ref().and_then(|figures| figures.net_uj) {
            runtime.record_energy(&way.planned, &way.policy, &line.device, &net)?;
        }
    }
    Ok(())
}

fn choice(aim: polychip::Aim, planned: Result<Planned, polychip::Error>) -> Choice {
    let aim = match aim {
        polychip::Aim::Energy => "energy",
        _ => "latency",
    };
    match planned {
        Ok(planned) => {
            let totals = planned.plan().totals;
            Choice {
                aim,
                nodes: Some(nodes(&planned)),
                time_ns: Some(totals.time.nanoseconds()),
                energy_uj: totals.energy.map(|energy| energy.microjoules()),
                provenance: Some(totals.provenance.word()),
                reason: None,
            }
        }
        Err(error) => Choice {
            aim,
            nodes: None,
            time_ns: None,
            energy_uj: None,
            provenance: None,
            reason: Some(error.to_string()),
        },
    }
}

/// An energy in microjoules in words, with half of its interval.
fn energy(interval: &Interval) -> String {
    let (scale, unit) = match interval.mean.abs() {
        mean if mean >= 1e6 => (1e6, "J"),
        mean if mean >= 1e3 => (1e3, "mJ"),
        _ => (1.0, "µJ"),
    };
    format!(
        "{:.2} ± {:.2} {unit}",
        interval.mean / scale,
        interval.half() / scale
    )
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.sensors {
            match (&line.sensor, &line.reason) {
                (Some(sensor), _) => writeln!(f, "{}: {sensor}", line.device)?,
                (None, reason) => writeln!(
                    f,
                    "{}: its energy is unknown: {}",
                    line.device,
                    reason.as_deref().unwrap_or("no sensor")
                )?,
            }
        }
        let mut table = table();
        for candidate in &self.candidates {
            let interval =
                |found: &Option<Interval>| found.as_ref().map_or_else(|| "unknown".to_owned(), energy);
            let watts = |value: &dyn Fn(&EnergyFigures) -> Option<f64>| {
                let known: Vec<f64> = candidate
                    .devices
                    .iter()
                    .filter_map(|line| value(line.figures.as_ref()?))
                    .collect();
                match known.is_empty() {
                    true => "unknown".to_owned(),
                    false => format!("{:.1} W", known.iter().sum::<f64>() / 1e3),
                }
            };
            let is_whole = candidate.unknown.is_empty() || candidate.gross_uj.is_none();
            let at_least = if is_whole { "" } else { "≥ " };
            table.push([
                candidate.name.clone(),
                Nanos::from_nanoseconds(candidate.latency_ns.p50).to_string(),
                format!("{:.1}/s", candidate.runs_per_second),
                interval(&candidate.net_uj),
                format!("{at_least}{}", interval(&candidate.gross_uj)),
                watts(&|figures| Some(figures.power_mw)),
                watts(&|figures| figures.idle_mw),
            ]);
        }
        table.write(f)?;
        for one in &self.not_run {
            writeln!(f, "{}: not run: {}", one.name, one.reason)?;
        }
        let best = &self.best;
        let or_unknown = |name: &Option<String>| name.clone().unwrap_or_else(|| "unknown".to_owned());
        writeln!(
            f,
            "shortest: {}; least energy: {} (net), {} (gross)",
            or_unknown(&best.latency),
            or_unknown(&best.net),
            or_unknown(&best.gross)
        )?;
        if let Some(differ) = best.differ {
            let words = match (differ, best.apart) {
                (false, _) => "the shortest is also the one of least net energy",
                (true, Some(true)) => "they differ, and their net energies' intervals have nothing in common",
                (true, _) => "they differ, but their net energies' intervals overlap or one is unknown",
            };
            writeln!(f, "{words}")?;
        }
        if !best.unknown.is_empty() {
            writeln!(
                f,
                "no part in the best energy, because a device of theirs has no sensor: {}",
                best.unknown.join(", ")
            )?;
        }
        for plan in &self.plans {
            match (&plan.nodes, &plan.reason) {
                (Some(nodes), _) => {
                    let nodes: Vec<String> = nodes
                        .iter()
                        .map(|(device, nodes)| format!("{nodes} nodes on {device}"))
                        .collect();
                    writeln!(
                        f,
                        "planned for {}: {}, {}, {} ({})",
                        plan.aim,
                        nodes.join(", "),
                        Nanos::from_nanoseconds(plan.time_ns.unwrap_or(0)),
                        plan.energy_uj.map_or_else(
                            || "energy unknown".to_owned(),
                            |uj| energy(&Interval::around(uj as f64, 0.0))
                        ),
                        plan.provenance.unwrap_or("")
                    )?;
                }
                (None, reason) => writeln!(
                    f,
                    "planned for {}: no plan: {}",
                    plan.aim,
                    reason.as_deref().unwrap_or("")
                )?,
            }
        }
        match self.plans_differ {
            Some(true) => write!(f, "the plans differ"),
            Some(false) => write!(f, "the plans are the same"),
            None => write!(f, "the plans cannot be compared"),
        }
    }
}

/// Rows of text whose columns stand under each other.
struct Table(Vec<[String; 7]>);

fn table() -> Table {
    let head = [
        "candidate",
        "median",
        "runs",
        "net energy",
        "gross energy",
        "power",
        "idle",
    ];
    Table(vec![head.map(str::to_owned)])
}

impl Table {
    fn push(&mut self, row: [String; 7]) {
        self.0.push(row);
    }

    fn write(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells = self.0.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..7).map(width).collect();
        for row in &self.0 {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
