//! `polychip monitor`: what the sensors say, by themselves or with a model that runs under a governor.
//!
//! On a terminal a dashboard; with `--json` a line of JSON for each sample, each change of plan and, at the end, a
//! summary; else a line of text for each sample. With a model, runs are submitted as fast as they end (or so many a
//! second), which is the load that limits are held against.
//!
//! Invariants:
//! 1. A figure that no sensor gives is null, with the reason beside it.
//! 2. Samples are taken by time, whatever the runs do; a share of samples is a share of time.

mod record;
mod runner;
mod view;

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use polychip::telemetry::{Reading, Rules, Sample, Sampler, Sensor, Sensors, Subject};
use polychip::words::{celsius, milliseconds, watts};
use polychip::{ChangeReport, GovernedReport, MilliCelsius, Milliwatts, Runtime};
use schemars::JsonSchema;
use serde::Serialize;

use crate::energy::seconds;
use crate::exit::usage;
use crate::input::InputArguments;
use crate::output::Output;
use crate::setup::{ModelArguments, PlanArguments};
use runner::Runner;

/// Samples that the dashboard draws.
const DRAWN: usize = 240;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// ONNX model to run meanwhile; without one only sensors are read
    model: Option<PathBuf>,
    /// Size of a dimension that the model only names
    #[arg(long = "dim", value_name = "NAME=N", value_parser = crate::setup::dimension, requires = "model")]
    dims: Vec<(String, usize)>,
    /// Shape of an input, which gives the dimensions that the model leaves open their sizes
    #[arg(long = "shape", value_name = "INPUT=1x3x48x192", value_parser = crate::setup::shape, requires = "model")]
    shapes: Vec<(String, Vec<usize>)>,
    #[command(flatten)]
    inputs: InputArguments,
    /// Seconds until it ends; without it, until it is stopped (`q` on the dashboard)
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Milliseconds between two samples
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    interval: u64,
    /// One sample of every sensor, then end
    #[arg(long, conflicts_with_all = ["model", "seconds", "record"])]
    once: bool,
    /// Print JSON, a line each
    #[arg(long)]
    json: bool,
    /// Highest power of the devices together in watts, averaged over seconds (`300` or `300W`)
    #[arg(long, value_name = "WATTS", value_parser = watts, requires = "model", help_heading = "Governor")]
    max_power: Option<Milliwatts>,
    /// Highest temperature of each device in degrees Celsius
    #[arg(long, value_name = "CELSIUS", value_parser = celsius, requires = "model", help_heading = "Governor")]
    max_temperature: Option<MilliCelsius>,
    /// Highest temperature of the surface that a hand touches in degrees Celsius, where a sensor says it
    #[arg(long, value_name = "CELSIUS", value_parser = celsius, requires = "model", help_heading = "Governor")]
    max_surface: Option<MilliCelsius>,
    /// A run that takes more milliseconds is late (`33` or `33ms`)
    #[arg(long, value_name = "MS", value_parser = milliseconds, requires = "model", help_heading = "Governor")]
    deadline: Option<Duration>,
    /// Runs in a second; without it, as many as there can be
    #[arg(long, value_name = "N", value_parser = rate, requires = "model", help_heading = "Governor")]
    fps: Option<f64>,
    /// Runs in flight at once
    #[arg(long, alias = "lanes", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Governor")]
    in_flight: u32,
    /// Nobody waits for the runs
    #[arg(long, requires = "model", help_heading = "Governor")]
    background: bool,
    /// Energy counts above all
    #[arg(long, requires = "model", help_heading = "Governor")]
    battery_saver: bool,
    /// Write the governor's events and decisions, from which they can be replayed
    #[arg(long, value_name = "FILE", requires = "model", help_heading = "Governor")]
    log: Option<PathBuf>,
    /// Read Linux's sensors from the tree in this folder (`sys` and `proc` as of `/`), or from a record
    #[arg(long, value_name = "DIR", help_heading = "Sensors")]
    sensors: Option<PathBuf>,
    /// Give the sensors of a name or pattern to a device or kind of device (`thermal/tsens*=qnn:0`)
    #[arg(long, value_name = "PATTERN=SUBJECT", value_parser = rule, help_heading = "Sensors")]
    sensor: Vec<(String, Subject)>,
    /// Write what the sensors' files hold into this folder, a folder for each sample
    #[arg(long, value_name = "DIR", help_heading = "Sensors")]
    record: Option<PathBuf>,
    #[command(flatten)]
    plan: PlanArguments,
}

impl Arguments {
    /// The period of frames that the governor is told: of the rate that was asked for; without one, where a limit is
    /// to be held by skipping frames, so long as a run of the first plan takes.
    fn period(&self, first: Duration) -> Option<Duration> {
        let temperatures = [self.max_temperature, self.max_surface];
        let is_limited = self.max_power.is_some() || temperatures.iter().any(Option::is_some);
        match self.fps {
            Some(fps) => Some(Duration::from_secs_f64(1.0 / fps)),
            None => is_limited.then_some(first),
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err(format!("{text:?} is no rate; write how many in a second")),
    }
}

fn rule(text: &str) -> Result<(String, Subject), String> {
    match text.rsplit_once('=') {
        Some((pattern, subject)) if !pattern.is_empty() => Ok((pattern.to_owned(), subject.parse()?)),
        _ => Err("write PATTERN=SUBJECT".into()),
    }
}

/// A line of `monitor --json`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Every sensor of Linux, with `--once`.
    Sensors {
        /// The sensors.
        sensors: Vec<SensorLine>,
    },
    /// What was said at one moment.
    Sample(Box<SampleLine>),
    /// The governor changed the plan or the pace.
    Change(ChangeReport),
    /// The whole time.
    Summary(Box<Summary>),
}

/// One sensor of Linux.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SensorLine {
    /// Name.
    name: String,
    /// What it measures, and so the unit.
    quantity: polychip::telemetry::Quantity,
    /// What it measures that of: cpu, gpu, npu, memory, battery, skin, system, other or a device.
    subject: String,
    /// The reading, in thousandths of a degree Celsius, mW, µJ, kHz, mV, mA or thousandths.
    value: Option<i64>,
    /// Why there is none.
    reason: Option<String>,
    /// Limits of a thermal zone.
    trips: Vec<polychip::telemetry::Trip>,
    /// What sets a clock.
    governor: Option<String>,
}

/// What was said at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SampleLine {
    /// Seconds since the first sample.
    seconds: f64,
    /// Devices and battery.
    sample: Sample,
    /// Sum of the devices' powers in milliwatts; none where no device says it.
    power_mw: Option<i64>,
    /// The plan that the next run takes.
    plan: Option<String>,
    /// So many of a thousand frames are to run.
    pace_permille: Option<u32>,
    /// Runs that have ended.
    runs: Option<u64>,
    /// Runs in a second since the last sample.
    runs_per_second: Option<f64>,
}

/// What the whole time was like.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Seconds from the first to the last sample.
    seconds: f64,
    /// Samples.
    samples: usize,
    /// Mean of the devices' power in milliwatts.
    mean_power_mw: Option<f64>,
    /// Highest sample in milliwatts.
    highest_power_mw: Option<i64>,
    /// The limit in milliwatts.
    limit_mw: Option<u64>,
    /// Share of the samples above the limit.
    share_above: Option<f64>,
    /// Share of the samples whose mean of the last five seconds is above the limit, after the first ten seconds.
    share_above_5s: Option<f64>,
    /// Hottest temperature in thousandths of a degree Celsius, by device.
    hottest_mc: std::collections::BTreeMap<String, i64>,
    /// Runs that have ended.
    runs: Option<u64>,
    /// Runs in a second.
    runs_per_second: Option<f64>,
    /// Runs that took longer than the deadline.
    late: Option<u64>,
    /// Frames that were skipped to keep a limit.
    skipped: Option<u64>,
    /// Samples for which each plan was in place.
    samples_of_plans: std::collections::BTreeMap<String, usize>,
    /// What the governor did.
    governed: Option<GovernedReport>,
    /// Decisions in its log, and whether they were the same when it was replayed.
    replayed: Option<usize>,
}

/// Everything that is shown.
pub(crate) struct Shown {
    pub(crate) lines: VecDeque<SampleLine>,
    pub(crate) governed: Option<GovernedReport>,
    pub(crate) limit_mw: Option<u64>,
    pub(crate) model: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let rules = arguments
        .sensor
        .iter()
        .fold(Rules::default(), |rules, (pattern, subject)| {
            rules.with(pattern, subject.clone())
        });
    let mut replay = record::Replay::open(arguments.sensors.as_deref())?;
    let sensors = Sensors::at(replay.root(), &rules);
    let runtime = arguments.plan.runtime_reading(sensors.clone())?;
    let mut sampler = Sampler::new(&runtime, sensors);
    if arguments.once {
        return once(&mut sampler, arguments, out);
    }
    let mut recorder = arguments
        .record
        .as_deref()
        .map(record::Recorder::new)
        .transpose()?;
    let mut runner = match &arguments.model {
        None => None,
        Some(path) => Some(start(&runtime, path, arguments)?),
    };
    let mut screen = match !arguments.json && std::io::stderr().is_terminal() && arguments.seconds.is_none() {
        true => Some(view::Screen::open()?),
        false => None,
    };
    let mut shown = Shown {
        lines: VecDeque::new(),
        governed: None,
        limit_mw: arguments.max_power.map(Milliwatts::milliwatts),
        model: arguments.model.as_ref().map(|path| path.display().to_string()),
    };
    let mut totals = Totals::new(shown.limit_mw);
    let start = Instant::now();
    let every = Duration::from_millis(arguments.interval);
    let mut told = 0;
    for tick in 1.. {
        if !replay.step(sampler.sensors_mut()) {
            break;
        }
        let sample = sampler.sample();
        if let Some(recorder) = &mut recorder {
            recorder.add(sampler.sensors(), start.elapsed())?;
        }
        let governed = runner.as_ref().and_then(Runner::governed);
        let line = totals.line(sample, governed.as_ref(), runner.as_ref());
        let changes = governed.as_ref().map_or(&[][..], |governed| &governed.changes);
        for change in changes.iter().filter(|change| change.time_ns > told) {
            match (arguments.json, &screen) {
                (true, _) => out.json_line(&Line::Change(change.clone()))?,
                (false, None) => out.text(&format!("→ {}: {}", change.plan, change.words))?,
                (false, Some(_)) => {}
            }
        }
        told = changes.last().map_or(told, |change| change.time_ns);
        match (arguments.json, &screen) {
            (true, _) => out.json_line(&Line::Sample(Box::new(line.clone())))?,
            (false, None) => out.text(&line.to_string())?,
            (false, Some(_)) => {}
        }
        shown.lines.push_back(line);
        if shown.lines.len() > DRAWN {
            shown.lines.pop_front();
        }
        shown.governed = governed;
        if let Some(runner) = &mut runner {
            runner.check()?;
        }
        if arguments
            .seconds
            .is_some_and(|seconds| start.elapsed().as_secs_f64() >= seconds)
        {
            break;
        }
        let next = start + every * tick;
        match &mut screen {
            Some(screen) => {
                screen.draw(&shown)?;
                if screen.is_left(next)? {
                    break;
                }
            }
            None => std::thread::sleep(next.saturating_duration_since(Instant::now())),
        }
    }
    drop(screen);
    let summary = totals.summary(runner, arguments.log.as_deref())?;
    if arguments.json {
        out.json_line(&Line::Summary(Box::new(summary)))
    } else {
        out.text(&summary.to_string())
    }
}

fn start(runtime: &Runtime, path: &std::path::Path, arguments: &Arguments) -> anyhow::Result<Runner> {
    let model = ModelArguments {
        model: path.to_owned(),
        dims: arguments.dims.clone(),
        shapes: arguments.shapes.clone(),
    };
    let model = model.load(runtime)?;
    let inputs = InputArguments {
        inputs: arguments.inputs.inputs.clone(),
        fill: Some(arguments.inputs.fill.unwrap_or(0)),
    };
    let (model, given) = inputs.read(&model)?;
    let mut policy = arguments
        .plan
        .policy()
        .governed()
        .in_flight(arguments.in_flight as usize);
    if let Some(limit) = arguments.max_power {
        policy = policy.max_power(limit);
    }
    if let Some(limit) = arguments.max_temperature {
        policy = policy.max_temperature(limit);
    }
    if let Some(limit) = arguments.max_surface {
        policy = policy.max_surface_temperature(limit);
    }
    if let Some(deadline) = arguments.deadline {
        policy = policy.deadline(deadline);
    }
    if arguments.background {
        policy = policy.background();
    }
    if arguments.battery_saver {
        policy = policy.battery_saver();
    }
    let planned = runtime.plan(&model, &policy)?;
    let first = Duration::from_nanos(planned.plan().time().nanoseconds().max(1));
    if let Some(period) = arguments.period(first) {
        policy = policy.frame_period(period);
    }
    let session = runtime.session_of(planned, policy)?;
    if session.governed().is_none() {
        return Err(usage("the session is not governed".to_owned()));
    }
    Runner::start(session, &given, arguments.in_flight as usize, arguments.fps)
}

fn once(sampler: &mut Sampler, arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    // rates need two readings
    sampler.sample();
    std::thread::sleep(Duration::from_millis(arguments.interval));
    let sample = sampler.sample();
    std::thread::sleep(Duration::from_millis(arguments.interval));
    let readings = sampler.sensors_mut().read();
    let lines: Vec<SensorLine> = sampler
        .sensors()
        .all()
        .iter()
        .zip(&readings)
        .map(SensorLine::new)
        .collect();
    let line = Totals::new(None).line(sample, None, None);
    if arguments.json {
        out.json_line(&Line::Sensors { sensors: lines })?;
        return out.json_line(&Line::Sample(Box::new(line)));
    }
    let mut text = String::new();
    for line in &lines {
        let value = match (line.value, &line.reason) {
            (Some(value), _) => format!("{value} {}", line.quantity.unit()),
            (None, reason) => format!("unknown: {}", reason.as_deref().unwrap_or_default()),
        };
        text.push_str(&format!("{} ({}): {value}\n", line.name, line.subject));
    }
    if lines.is_empty() {
        text.push_str("Linux shows no sensors here\n");
    }
    text.push_str(&line.in_full());
    out.text(&text)
}

impl SensorLine {
    fn new((sensor, reading): (&Sensor, &Reading)) -> SensorLine {
        SensorLine {
            name: sensor.name.clone(),
            quantity: sensor.quantity,
            subject: sensor.subject.to_string(),
            value: reading.value.as_ref().ok().copied(),
            reason: reading.value.as_ref().err().map(ToString::to_string),
            trips: sensor.trips.clone(),
            governor: sensor.governor.clone(),
        }
    }
}

/// What is summed up over the time.
struct Totals {
    limit_mw: Option<u64>,
    first_ns: Option<u64>,
    last_ns: u64,
    last_runs: u64,
    /// Seconds and power of each sample that has one.
    powers: Vec<(f64, i64)>,
    samples: usize,
    hottest: std::collections::BTreeMap<String, i64>,
    plans: std::collections::BTreeMap<String, usize>,
}

impl Totals {
    fn new(limit_mw: Option<u64>) -> Totals {
        Totals {
            limit_mw,
            first_ns: None,
            last_ns: 0,
            last_runs: 0,
            powers: Vec::new(),
            samples: 0,
            hottest: Default::default(),
            plans: Default::default(),
        }
    }

    fn line(
        &mut self,
        sample: Sample,
        governed: Option<&GovernedReport>,
        runner: Option<&Runner>,
    ) -> SampleLine {
        let now = sample.time_ns;
        let first = *self.first_ns.get_or_insert(now);
        let seconds = now.saturating_sub(first) as f64 / 1e9;
        let known: Vec<i64> = sample
            .devices
            .iter()
            .filter_map(|state| state.power_mw.value)
            .collect();
        let power_mw = (!known.is_empty()).then(|| known.iter().sum());
        self.powers.extend(power_mw.map(|power| (seconds, power)));
        self.samples += 1;
        for state in &sample.devices {
            if let Some(mc) = state.temperature_mc.value {
                let hottest = self.hottest.entry(state.device.clone()).or_insert(mc);
                *hottest = mc.max(*hottest);
            }
        }
        if let Some(governed) = governed {
            *self.plans.entry(governed.plan.clone()).or_default() += 1;
        }
        let runs = runner.map(Runner::runs);
        let passed = now.saturating_sub(self.last_ns) as f64 / 1e9;
        let rate = runs.filter(|_| self.samples > 1 && passed > 0.0);
        let runs_per_second = rate.map(|runs| (runs - self.last_runs) as f64 / passed);
        self.last_ns = now;
        self.last_runs = runs.unwrap_or(0);
        SampleLine {
            seconds,
            sample,
            power_mw,
            plan: governed.map(|governed| governed.plan.clone()),
            pace_permille: governed.map(|governed| governed.pace_permille),
            runs,
            runs_per_second,
        }
    }

    fn summary(self, runner: Option<Runner>, log: Option<&std::path::Path>) -> anyhow::Result<Summary> {
        let seconds = self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9;
        let mean = |powers: &[(f64, i64)]| {
            (!powers.is_empty())
                .then(|| powers.iter().map(|(_, power)| *power as f64).sum::<f64>() / powers.len() as f64)
        };
        let above = |limit: u64| {
            let count = self
                .powers
                .iter()
                .filter(|(_, power)| *power > limit as i64)
                .count();
            count as f64 / self.powers.len() as f64
        };
        let above_5s = |limit: u64| {
            let settled: Vec<usize> = (0..self.powers.len())
                .filter(|&index| self.powers[index].0 >= 10.0)
                .collect();
            let over = settled.iter().filter(|&&index| {
                let now = self.powers[index].0;
                let from = self.powers.partition_point(|(at, _)| *at < now - 5.0);
                mean(&self.powers[from..=index]).is_some_and(|mean| mean > limit as f64)
            });
            (!settled.is_empty()).then(|| over.count() as f64 / settled.len() as f64)
        };
        let limit = self.limit_mw.filter(|_| !self.powers.is_empty());
        let mut summary = Summary {
            seconds,
            samples: self.samples,
            mean_power_mw: mean(&self.powers),
            highest_power_mw: self.powers.iter().map(|(_, power)| *power).max(),
            limit_mw: self.limit_mw,
            share_above: limit.map(above),
            share_above_5s: limit.and_then(above_5s),
            hottest_mc: self.hottest.clone(),
            runs: None,
            runs_per_second: None,
            late: None,
            skipped: None,
            samples_of_plans: self.plans.clone(),
            governed: None,
            replayed: None,
        };
        if let Some(runner) = runner {
            let runs = runner.runs();
            summary.runs = Some(runs);
            summary.runs_per_second = (seconds > 0.0).then(|| runs as f64 / seconds);
            summary.late = Some(runner.late());
            summary.skipped = Some(runner.skipped());
            summary.governed = runner.governed();
            let decisions = runner.finish()?;
            if let Some(decisions) = decisions {
                summary.replayed = Some(decisions.replay()?);
                if let Some(path) = log {
                    crate::file::write(path, decisions.to_json_lines().as_bytes())?;
                }
            }
        }
        Ok(summary)
    }
}

/// Milliwatts as watts.
fn in_watts(mw: i64) -> String {
    format!("{:.1} W", mw as f64 / 1e3)
}

impl SampleLine {
    /// Each device on its own line, with the reasons of what is unknown.
    fn in_full(&self) -> String {
        let mut text = String::new();
        for state in &self.sample.devices {
            text.push_str(&format!(
                "{}{}\n",
                state.device,
                if state.emulated { " (emulated)" } else { "" }
            ));
            let mut figure =
                |word: &str, figure: &polychip::telemetry::Figure, shown: &dyn Fn(i64) -> String| {
                    let words = figure.value.map_or_else(|| "unknown".to_owned(), shown);
                    text.push_str(&format!("  {word}: {words} ({})\n", figure.from));
                };
            figure("temperature", &state.temperature_mc, &|mc| {
                format!("{:.1} °C", mc as f64 / 1e3)
            });
            figure("power", &state.power_mw, &in_watts);
            figure("energy", &state.energy_uj, &|uj| {
                format!("{:.3} J", uj as f64 / 1e6)
            });
            figure("clock", &state.frequency_khz, &|khz| {
                format!("{:.2} GHz", khz as f64 / 1e6)
            });
            figure("allowed clock", &state.allowed_khz, &|khz| {
                format!("{:.2} GHz", khz as f64 / 1e6)
            });
            figure("load", &state.load_permille, &|permille| {
                format!("{:.1} %", permille as f64 / 10.0)
            });
            figure("throttle", &state.throttle, &|bits| {
                if bits == 0 {
                    "no".to_owned()
                } else {
                    format!("bits {bits:#x}")
                }
            });
        }
        if let Some(battery) = &self.sample.battery {
            let charge = battery.capacity_permille.value.map_or_else(
                || "unknown".to_owned(),
                |permille| format!("{:.1} %", permille as f64 / 10.0),
            );
            text.push_str(&format!(
                "battery: {charge} ({})\n",
                battery.capacity_permille.from
            ));
        }
        for (place, figure) in [
            ("surface", &self.sample.surface_mc),
            ("package", &self.sample.package_mc),
        ] {
            let words = figure
                .value
                .map_or_else(|| "unknown".to_owned(), |mc| format!("{:.1} °C", mc as f64 / 1e3));
            text.push_str(&format!("{place}: {words} ({})\n", figure.from));
        }
        let heat = &self.sample.heat;
        let used = heat.headroom_permille.value;
        let words = used.map_or_else(
            || "unknown".to_owned(),
            |permille| {
                format!(
                    "{:.1} % of the way to severe slowing down",
                    permille as f64 / 10.0
                )
            },
        );
        text.push_str(&format!("heat: {words} ({})\n", heat.headroom_permille.from));
        text
    }
}

impl std::fmt::Display for SampleLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:8.1} s", self.seconds)?;
        for state in &self.sample.devices {
            write!(f, "  {}", state.device)?;
            if state.lost {
                write!(f, " lost")?;
            }
            if let Some(mc) = state.temperature_mc.value {
                write!(f, " {:.1} °C", mc as f64 / 1e3)?;
            }
            if let Some(mw) = state.power_mw.value {
                write!(f, " {}", in_watts(mw))?;
            }
            if let Some(khz) = state.frequency_khz.value {
                write!(f, " {:.2} GHz", khz as f64 / 1e6)?;
            }
        }
        if let Some(plan) = &self.plan {
            write!(f, "  [{plan}]")?;
        }
        if let Some(pace) = self.pace_permille.filter(|pace| *pace < 1000) {
            write!(f, " at {pace} ‰")?;
        }
        if let Some(rate) = self.runs_per_second {
            write!(f, "  {rate:.1} runs/s")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} s, {} samples", self.seconds, self.samples)?;
        if let (Some(mean), Some(highest)) = (self.mean_power_mw, self.highest_power_mw) {
            write!(
                f,
                "; power: mean {:.1} W, highest {}",
                mean / 1e3,
                in_watts(highest)
            )?;
        }
        if let Some(limit) = self.limit_mw {
            write!(
                f,
                "; limit {}",
                in_watts(i64::try_from(limit).unwrap_or(i64::MAX))
            )?;
        }
        if let Some(share) = self.share_above {
            write!(f, ": {:.1} % of the samples above", share * 100.0)?;
        }
        if let Some(share) = self.share_above_5s {
            write!(
                f,
                ", {:.1} % of the means over 5 s after the first 10 s",
                share * 100.0
            )?;
        }
        if let (Some(runs), Some(rate)) = (self.runs, self.runs_per_second) {
            write!(
                f,
                "\n{runs} runs, {rate:.1}/s, {} late, {} frames skipped",
                self.late.unwrap_or(0),
                self.skipped.unwrap_or(0)
            )?;
        }
        if let Some(governed) = &self.governed {
            write!(f, "\n{} changes of plan; samples of each:", governed.switches)?;
            for (plan, samples) in &self.samples_of_plans {
                write!(f, " {plan} {samples}")?;
            }
        }
        if let Some(replayed) = self.replayed {
            write!(f, "\n{replayed} decisions, the same when replayed")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Told {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn each_limit_has_a_period_so_that_frames_can_be_skipped() {
        let first = Duration::from_millis(7);
        let period = |words: &[&str]| {
            let words = ["monitor", "model.onnx"].iter().chain(words);
            <Told as clap::Parser>::parse_from(words).arguments.period(first)
        };
        assert_eq!(period(&[]), None);
        assert_eq!(period(&["--max-power", "300W"]), Some(first));
        assert_eq!(period(&["--max-temperature", "80C"]), Some(first));
        assert_eq!(period(&["--max-surface", "42C"]), Some(first));
        let asked = period(&["--max-temperature", "80C", "--fps", "50"]);
        assert_eq!(asked, Some(Duration::from_millis(20)));
    }
}
