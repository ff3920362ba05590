//! `polychip monitor`: sensor readings, alone or with a model under a governor.
//!
//! Prints a dashboard on a terminal, independent of standard error; with `--json`, a JSON line for each sample, each
//! plan change and a final summary; otherwise one line of text per second. With a model, runs are submitted as fast
//! as they finish (or at a rate), as the load for limits. It stops on `q`, a signal or the time limit, and prints a
//! summary.
//!
//! Invariants:
//! 1. A figure without a sensor is null, with the reason next to it.
//! 2. All times count from the first sample on the runtime's clock, for samples and plan changes.
//!
//! Start reading at [`run`].

mod limits;
mod line;
mod recent;
mod record;
mod runner;
mod sample;
mod shown;
mod totals;
mod view;
mod words;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polychip::settings::{celsius, milliseconds, watts};
use polychip::telemetry::{Rules, Sampler, Sensors, Subject};
use polychip::{ChangeReport, Learn, MilliCelsius, Milliwatts, Runtime};

use crate::energy::seconds;
use crate::exit::{usage, warn};
use crate::input::InputArguments;
use crate::output::Output;
use crate::setup::{ModelArguments, PlanArguments};
use limits::{LimitLine, Limits};
pub(crate) use line::Line;
use runner::Runner;
use sample::SensorLine;
use shown::{Shown, since};
use totals::Totals;

/// Text comes no more often.
const TEXT_EVERY_S: f64 = 1.0;
/// Interval of checks for the end of the command.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Samples that the dashboard draws.
const DRAWN: usize = 240;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// ONNX model to run; without one, only sensors are read
    model: Option<PathBuf>,
    /// Set the size of a named dimension
    #[arg(long = "dim", value_name = "NAME=N", value_parser = crate::setup::dimension, requires = "model")]
    dims: Vec<(String, usize)>,
    /// Set the shape of an input, and with it the model's open dimensions
    #[arg(long = "shape", value_name = "INPUT=1x3x48x192", value_parser = crate::setup::shape, requires = "model")]
    shapes: Vec<(String, Vec<usize>)>,
    #[command(flatten)]
    inputs: InputArguments,
    /// Stop after this many seconds; default: until stopped (`q` on the dashboard)
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Milliseconds between samples
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    interval: u64,
    /// Print one sample of every sensor and exit
    #[arg(long, conflicts_with_all = ["model", "seconds", "record"])]
    once: bool,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
    /// Maximum total power of the devices in watts, averaged over seconds (`300` or `300W`)
    #[arg(long, value_name = "WATTS", value_parser = watts, requires = "model", help_heading = "Governor")]
    max_power: Option<Milliwatts>,
    /// Maximum temperature of each device in degrees Celsius
    #[arg(long, value_name = "CELSIUS", value_parser = celsius, requires = "model", help_heading = "Governor")]
    max_temperature: Option<MilliCelsius>,
    /// Maximum surface (skin) temperature in degrees Celsius; needs a surface sensor
    #[arg(long, value_name = "CELSIUS", value_parser = celsius, requires = "model", help_heading = "Governor")]
    max_surface_temperature: Option<MilliCelsius>,
    #[arg(long = "max-surface", hide = true, value_parser = |_: &str| crate::limits::renamed("--max-surface-temperature"))]
    _max_surface: Option<std::convert::Infallible>,
    /// Deadline of a run in milliseconds (`33` or `33ms`)
    #[arg(long, value_name = "MS", value_parser = milliseconds, requires = "model", help_heading = "Governor")]
    deadline: Option<Duration>,
    /// Runs per second; default: as many as possible
    #[arg(long, value_name = "N", value_parser = rate, requires = "model", help_heading = "Governor")]
    fps: Option<f64>,
    /// Runs in flight
    #[arg(long, alias = "lanes", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Governor")]
    in_flight: u32,
    /// Treat the runs as background work
    #[arg(long, requires = "model", help_heading = "Governor")]
    background: bool,
    /// Put energy first
    #[arg(long, requires = "model", help_heading = "Governor")]
    battery_saver: bool,
    /// As for other commands; a governed session tries no plans, because the governor chooses them,
    /// and prints a warning
    #[arg(
        long,
        value_name = "no|watch|yes|2%…20%",
        requires = "model",
        help_heading = "Governor"
    )]
    learn: Option<Learn>,
    /// Write the governor's events and decisions, for replay
    #[arg(long, value_name = "FILE", requires = "model", help_heading = "Governor")]
    log: Option<PathBuf>,
    /// Read Linux sensors from the tree in this folder (with `sys` and `proc` as under `/`) or from a record
    #[arg(long, value_name = "DIR", help_heading = "Sensors")]
    sensors: Option<PathBuf>,
    /// Assign sensors, by name or pattern, to a device or kind of device, such as `thermal/tsens*=qnn:0`
    #[arg(long, value_name = "PATTERN=SUBJECT", value_parser = rule, help_heading = "Sensors")]
    sensor: Vec<(String, Subject)>,
    /// Record the contents of the sensor files in this folder, with one subfolder per sample
    #[arg(long, value_name = "DIR", help_heading = "Sensors")]
    record: Option<PathBuf>,
    #[command(flatten)]
    plan: PlanArguments,
}

impl Arguments {
    fn limits(&self) -> Limits {
        Limits {
            power: self.max_power,
            temperature: self.max_temperature,
            surface: self.max_surface_temperature,
        }
    }

    /// Runs in a second, by `--fps` or `--period`.
    fn fps(&self) -> Option<f64> {
        let period = self.plan.period.filter(|period| !period.is_zero());
        self.fps.or(period.map(|period| 1.0 / period.as_secs_f64()))
    }

    /// Frame period for the governor: that of the requested rate. Without one, a limit that needs
    /// skipped frames uses the time of a run under the first plan.
    fn period(&self, first: Duration) -> Option<Duration> {
        let temperatures = [self.max_temperature, self.max_surface_temperature];
        let is_limited = self.max_power.is_some() || temperatures.iter().any(Option::is_some);
        match self.fps() {
            Some(fps) => Some(Duration::from_secs_f64(1.0 / fps)),
            None => is_limited.then_some(first),
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err(format!("invalid rate {text:?}: expected a number per second")),
    }
}

fn rule(text: &str) -> Result<(String, Subject), String> {
    match text.rsplit_once('=') {
        Some((pattern, subject)) if !pattern.is_empty() => Ok((pattern.to_owned(), subject.parse()?)),
        _ => Err("write PATTERN=SUBJECT".into()),
    }
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
    let stop = Arc::new(AtomicBool::new(false));
    crate::stop::on_signals(&stop)?;
    let mut runner = match &arguments.model {
        None => None,
        Some(path) => Some(start(&runtime, path, arguments)?),
    };
    let mut screen = match out
        .terminal()?
        .filter(|_| !arguments.json && arguments.seconds.is_none())
    {
        Some(terminal) => Some(view::Screen::open(terminal)?),
        None => None,
    };
    let mut shown = Shown {
        lines: VecDeque::new(),
        governed: None,
        limit_mw: arguments.max_power.map(Milliwatts::milliwatts),
        deadline: arguments.deadline,
        model: arguments.model.as_ref().map(|path| path.display().to_string()),
        start_ns: 0,
        notes: Vec::new(),
    };
    let mut totals = Totals::new(shown.limit_mw);
    let start = Instant::now();
    let every = Duration::from_millis(arguments.interval);
    let (mut told, mut said) = (0, None);
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
        if tick == 1 {
            shown.start_ns = totals.start_ns();
            let limits = arguments.limits().judge(&line.sample);
            shown.notes = limits.iter().filter_map(LimitLine::words).collect();
            if arguments.json && !limits.is_empty() {
                out.json_line(&Line::Limits {
                    limits: limits.clone(),
                })?;
            }
            if !arguments.json && screen.is_none() && !shown.notes.is_empty() {
                out.text(&shown.notes.join("\n"))?;
            }
            totals.note(limits);
        }
        let changes = governed.as_ref().map_or(&[][..], |governed| &governed.changes);
        for change in changes.iter().filter(|change| change.time_ns > told) {
            match (arguments.json, &screen) {
                (true, _) => out.json_line(&Line::Change(change.clone()))?,
                (false, None) => out.text(&changed(shown.start_ns, change))?,
                (false, Some(_)) => {}
            }
        }
        told = changes.last().map_or(told, |change| change.time_ns);
        match (arguments.json, &screen) {
            (true, _) => out.json_line(&Line::Sample(Box::new(line.clone())))?,
            // half an interval of grace: samples are not taken to the millisecond
            (false, None)
                if said
                    .is_none_or(|said| line.seconds - said + every.as_secs_f64() / 2.0 >= TEXT_EVERY_S) =>
            {
                said = Some(line.seconds);
                out.text(&line.to_string())?;
            }
            (false, _) => {}
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
        if let Some(screen) = &mut screen {
            screen.draw(&shown)?;
        }
        if is_left(screen.as_mut(), start + every * tick, &stop)? {
            break;
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

/// Waits until then; whether the person left, or somebody ended the command.
fn is_left(mut screen: Option<&mut view::Screen>, until: Instant, stop: &AtomicBool) -> anyhow::Result<bool> {
    loop {
        if stop.load(Ordering::Acquire) {
            return Ok(true);
        }
        let left = until.saturating_duration_since(Instant::now());
        let next = Instant::now() + left.min(LOOK_EVERY);
        match &mut screen {
            Some(screen) => {
                if screen.is_left(next)? {
                    return Ok(true);
                }
            }
            None => std::thread::sleep(left.min(LOOK_EVERY)),
        }
        if left <= LOOK_EVERY {
            return Ok(stop.load(Ordering::Acquire));
        }
    }
}

/// A change of plan or pace as a line of text.
fn changed(start_ns: u64, change: &ChangeReport) -> String {
    format!(
        "{:8.1} s  → {}: {}",
        since(start_ns, change.time_ns),
        change.plan,
        change.words
    )
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
    if let Some(learn) = arguments.learn {
        policy = policy.learn(learn);
        if learn != Learn::No {
            warn(
                "--learn has no effect: the governor chooses this session's plans, and nothing else is tried",
            );
        }
    }
    if let Some(limit) = arguments.max_power {
        policy = policy.max_power(limit);
    }
    if let Some(limit) = arguments.max_temperature {
        policy = policy.max_temperature(limit);
    }
    if let Some(limit) = arguments.max_surface_temperature {
        policy = policy.max_surface_temperature(limit);
    }
    if let Some(fps) = arguments.fps() {
        policy = policy.period(Duration::from_secs_f64(1.0 / fps));
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
    Runner::start(session, &given, arguments.in_flight as usize, arguments.fps())
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
        text.push_str("Linux provides no sensors here\n");
    }
    text.push_str(&line.in_full());
    out.text(&text)
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
    fn limits_set_a_period_so_frames_can_be_skipped() {
        let first = Duration::from_millis(7);
        let period = |words: &[&str]| {
            let words = ["monitor", "model.onnx"].iter().chain(words);
            <Told as clap::Parser>::parse_from(words).arguments.period(first)
        };
        assert_eq!(period(&[]), None);
        assert_eq!(period(&["--max-power", "300W"]), Some(first));
        assert_eq!(period(&["--max-temperature", "80C"]), Some(first));
        assert_eq!(period(&["--max-surface-temperature", "42C"]), Some(first));
        let asked = period(&["--max-temperature", "80C", "--fps", "50"]);
        assert_eq!(asked, Some(Duration::from_millis(20)));
    }

    #[test]
    fn plan_change_time_uses_the_sample_clock() {
        let change = |time_ns| ChangeReport {
            time_ns,
            plan: "frugal".to_owned(),
            pace_permille: 1000,
            words: "it is hot".to_owned(),
        };
        let start_ns = 7_000_000_000;
        assert_eq!(
            changed(start_ns, &change(9_500_000_000)),
            "     2.5 s  → frugal: it is hot"
        );
        // what the governor did before the first sample
        assert_eq!(
            changed(start_ns, &change(6_000_000_000)),
            "     0.0 s  → frugal: it is hot"
        );
    }

    #[test]
    fn wait_ends_when_the_command_stops() {
        let stop = AtomicBool::new(true);
        let hour = Instant::now() + Duration::from_secs(3600);
        assert!(is_left(None, hour, &stop).unwrap());
        stop.store(false, Ordering::Release);
        assert!(!is_left(None, Instant::now(), &stop).unwrap());
    }
}
