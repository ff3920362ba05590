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

mod arguments;
mod candidates;
mod measure;
mod output;
mod text;

use polychip::telemetry::{Rules, Sampler, Sensors};
use polychip::{Planned, Policy, Runtime};

use crate::exit::usage;
use crate::input::InputArguments;
use crate::output::Output;
use crate::run::feed;
use candidates::{PlannedCandidate, nodes, ways};
use measure::Bench;
use output::{Best, Candidate, Choice, NotRun, SensorLine};

pub(crate) use arguments::Arguments;
#[cfg(feature = "monitor")]
pub(crate) use arguments::seconds;
pub(crate) use output::EnergyOutput;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let runtime = arguments.plan.timed_runtime(None)?;
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
