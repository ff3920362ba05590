//! `polychip energy`: energy of a run on each device and plan, from the machine's own sensors.
//!
//! Each candidate runs repeatedly in blocks, with a fixed number of runs in flight, while a thread reads the sensors.
//! Nothing runs before the first and after each candidate. The energy of a run is the sensors' energy over the runs
//! of a block (gross), minus idle power over the same time (net), with an interval over the blocks.
//!
//! Invariants:
//! 1. A device without a sensor has no figure. A candidate that uses such a device has no net energy, and its gross
//!    energy covers only the other sensors, marked as a lower bound.
//! 2. Measurements of a device that ran one part go to the profile, for minimum-energy plans.

mod measure;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use polychip::telemetry::{EnergyFigures, Interval, Rules, Sampler, Sensors};
use polychip::{Planned, Policy, Runtime};
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::Latency;
use crate::exit::usage;
use crate::input::InputArguments;
use crate::output::Output;
use crate::run::feed;
use crate::setup::{ModelArguments, PATIENCE, PlanArguments, Precision};
use measure::Bench;

/// Clocks and averages of sensors settle for so long before runs count, and before idle counts.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Seconds to run each candidate; use at least 10 for published figures, because sensors update at most ten times
    /// a second
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Idle seconds before and after each candidate
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = seconds)]
    idle: f64,
    /// Seconds for clocks and sensors to settle before runs or idle time count
    #[arg(long, value_name = "N", default_value_t = SETTLE.as_secs_f64(), value_parser = seconds)]
    settle: f64,
    /// Blocks that a candidate's time is split into to compute the interval
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=100))]
    blocks: u32,
    /// Runs in flight; each number is a separate candidate
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
        _ => Err(format!("invalid time {text:?}: expected seconds from 0 to 86400")),
    }
}

/// Output of `energy --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnergyOutput {
    /// Model file.
    model: String,
    /// Requested threads; null if the plugins chose.
    threads: Option<u32>,
    /// Seconds of each candidate.
    seconds: f64,
    /// The devices' sensors.
    sensors: Vec<SensorLine>,
    /// Measurements in order.
    candidates: Vec<Candidate>,
    /// Candidates that could not run, with the reason.
    not_run: Vec<NotRun>,
    /// The best measured candidates.
    best: Best,
    /// The planner's choices from the profile.
    plans: Vec<Choice>,
    /// Whether the plans for minimum time and minimum energy differ; null if one of them is missing.
    plans_differ: Option<bool>,
}

/// A device's energy readings.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct SensorLine {
    /// Device, `plugin:index`.
    device: String,
    /// Energy or power sensor, if there is one.
    sensor: Option<String>,
    /// Reason for a missing sensor.
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
    /// Energy of a run on its devices in microjoules, minus idle energy; null if one has no sensor.
    net_uj: Option<Interval>,
    /// Energy of a run in microjoules, including idle energy of all devices with a sensor.
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
    /// The figures; null if the sensor has none.
    figures: Option<EnergyFigures>,
    /// Reason for missing figures.
    reason: Option<String>,
}

/// Something that could not be run.
#[derive(Debug, Serialize, JsonSchema)]
struct NotRun {
    name: String,
    reason: String,
}

/// The best measured candidates, by name.
#[derive(Debug, Serialize, JsonSchema)]
struct Best {
    /// Shortest median time of a run.
    latency: Option<String>,
    /// Least net energy among those that have one.
    net: Option<String>,
    /// Lowest gross energy among candidates without an unknown device.
    gross: Option<String>,
    /// Whether the first two differ; null without energy.
    differ: Option<bool>,
    /// Whether the intervals of the net energies of both have nothing in common.
    apart: Option<bool>,
    /// Candidates with a device without a sensor, excluded from the energy comparison.
    unknown: Vec<String>,
}

/// A plan that the planner chooses.
#[derive(Debug, Serialize, JsonSchema)]
struct Choice {
    /// The objective.
    aim: &'static str,
    /// Nodes by device; null without a plan.
    nodes: Option<BTreeMap<String, usize>>,
    /// Predicted time of a run in nanoseconds.
    time_ns: Option<u64>,
    /// Predicted energy of a run in microjoules, if known.
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
    let mut bench = Bench::new(sampler, arguments);
    let sensors = bench.sensors();
    let (mut found, mut alone) = (Vec::new(), Vec::new());
    let mut not_run = Vec::new();
    let ways = ways(&runtime, &model, arguments, &mut not_run)?;
    if ways.is_empty() {
        return Err(usage(
            "none of the requested devices can run the model".to_owned(),
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
        record(&runtime, way, &found[*index], &sensors)?;
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
    let answer = EnergyOutput {
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
struct PlannedCandidate {
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
) -> anyhow::Result<Vec<PlannedCandidate>> {
    let names = arguments.plan.names_of_devices(runtime);
    let precisions: &[Precision] = match arguments.plan.precision {
        Precision::Exact => &[Precision::Exact],
        Precision::Reduced => &[Precision::Exact, Precision::Reduced],
    };
    let mut ways: Vec<PlannedCandidate> = Vec::new();
    for &precision in precisions {
        let base = arguments
            .plan
            .policy_of(Policy::latency())
            .precision(precision.of_library());
        let mut plans: Vec<(String, Policy)> = names
            .iter()
            .map(|name| (name.clone(), base.clone().devices([name.as_str()])))
            .collect();
        if names.len() > 1 {
            let all = base.clone().devices(names.iter().map(String::as_str));
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
            let alike = |way: &&PlannedCandidate| {
                way.precision == precision && nodes(&way.planned) == nodes(&planned)
            };
            if ways.iter().any(|way| alike(&way)) {
                continue;
            }
            for &lanes in &arguments.lanes {
                let word = match precision {
                    Precision::Exact => "exact",
                    Precision::Reduced => "reduced",
                };
                ways.push(PlannedCandidate {
                    name: format!("{name} {word} x{lanes}"),
                    planned: planned.clone(),
                    policy: policy.clone().in_flight(lanes as usize).hang_timeout(PATIENCE),
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
            .entry(plan.devices[part.device.index()].clone())
            .or_default() += part.nodes.len();
    }
    nodes
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
fn record(
    runtime: &Runtime,
    way: &PlannedCandidate,
    measured: &Candidate,
    sensors: &[SensorLine],
) -> anyhow::Result<()> {
    for line in measured.devices.iter().filter(|line| line.used) {
        if let Some(net) = line.figures.as_ref().and_then(|figures| figures.net_uj) {
            let sensor = sensors.iter().find(|sensor| sensor.device == line.device);
            let sensor = sensor
                .and_then(|sensor| sensor.sensor.as_deref())
                .unwrap_or_default();
            runtime.record_energy(&way.planned, &way.policy, &line.device, sensor, &net)?;
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
