//! `polychip measure`: measures each device alone, then plans made from these measurements, until the plan no longer
//! changes.
//!
//! A plan with unmeasured parts rests on estimates. The planner's choice is therefore run and measured, and the
//! planner runs again until its choice is already measured.
//!
//! Links are measured first: launch costs and transfers. If the choice is a single device, the best multi-device plan
//! is measured last, to confirm that it is slower.
//!
//! Invariants:
//! 1. Candidates alternate in blocks at the app's cadence, each block after its own warm-up: other load affects all
//!    of them, and no block inherits clocks from another candidate.
//! 2. Measurements go to the profile, for `explain`, `partition` and `run` with the same `--profile`.

mod energy;
mod mixed;
mod runner;

use std::collections::BTreeMap;
use std::time::Duration;

use energy::{DeviceEnergy, SensorBench};
use polychip::{Cadence, Learn, LinkEnergyOptions, Policy, Runtime, Session};
use polychip_partitioner::Time;
use polychip_partitioner::report::count;
use runner::{Runner, placement};
use schemars::JsonSchema;
use serde::Serialize;

use crate::bench::Latency;
use crate::exit::usage;
use crate::input::InputArguments;
use crate::output::Output;
use crate::pace::Pacer;
use crate::progress::Progress;
use crate::run::{deviation, feed, run_once};
use crate::setup::{ModelArguments, PlanArguments, Precision};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    inputs: InputArguments,
    /// Timed runs of each candidate
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    iters: u64,
    /// Maximum number of plans tried in addition to the single devices
    #[arg(long, value_name = "N", default_value_t = 6)]
    rounds: usize,
    /// Maximum number of multi-device plans measured if the planner chooses a single device
    #[arg(long, value_name = "N", default_value_t = 2)]
    mixed: usize,
    /// Also measure the energy of transfers with the machine's sensors; takes 90 s for each pair and direction
    #[arg(long)]
    link_energy: bool,
    /// Also measure the energy of each candidate with the machine's sensors; takes 10 s for each
    #[arg(long)]
    energy: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plan: PlanArguments,
}

/// Output of `measure --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MeasureOutput {
    /// Model file.
    model: String,
    /// Requested threads; null if the plugins chose.
    threads: Option<u32>,
    /// How exactly was computed.
    precision: crate::setup::Precision,
    /// Runs of each candidate in the last round, in alternating blocks.
    iters: u64,
    /// From start to start of the runs of a block, in nanoseconds; 0: back to back.
    period_ns: u64,
    /// The cadence that the figures are of.
    cadence: Cadence,
    /// Times of transfers between devices and of launches.
    links: Vec<polychip::LinkMeasurement>,
    /// Links with estimated times, with the reason.
    links_not_measured: Vec<polychip::UnmeasuredLink>,
    /// Energy of transfers and launches (`--link-energy`).
    link_energies: Vec<polychip::LinkEnergy>,
    /// Links with estimated energies, with the reason.
    link_energies_not_measured: Vec<polychip::UnmeasuredLink>,
    /// Single devices, then the planner's choices in order.
    candidates: Vec<Candidate>,
    /// Devices that cannot run the model alone, with the reason.
    not_alone: Vec<NotAlone>,
    /// What the runs of the candidates contradict: predictions more than twice as long or short, with the nodes to blame;
    /// and parts measured at other settings only.
    warnings: Vec<CandidateWarning>,
    /// Whether the planner's last choice had been measured before: nothing is left to try.
    settled: bool,
}

/// A warning of a candidate.
#[derive(Debug, Serialize, JsonSchema)]
struct CandidateWarning {
    /// The candidate.
    candidate: String,
    /// Doubtful results.
    warning: polychip::Warning,
}

/// One way to run the model.
#[derive(Debug, Serialize, JsonSchema)]
struct Candidate {
    /// The device's name, `plan` and its number, or `mixed` and its number.
    name: String,
    /// For the best multi-device plan: the node that had to move, and its device.
    because: Option<String>,
    /// Nodes by device.
    nodes: BTreeMap<String, usize>,
    /// Number of parts.
    parts: usize,
    /// Time of a run from submit to outputs, in nanoseconds.
    latency_ns: Latency,
    /// Whether the planner chooses it, given all measurements.
    chosen: bool,
    /// Whether its median is the shortest.
    fastest: bool,
    /// With `--precision reduced`: largest output difference from exact precision, over the largest value.
    deviation: Option<f64>,
    /// Energy of a run on each device that it uses.
    energy: Vec<DeviceEnergy>,
}

/// A device that cannot run the whole model.
#[derive(Debug, Serialize, JsonSchema)]
struct NotAlone {
    device: String,
    reason: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    let runtime = arguments.plan.measuring_runtime()?;
    let model = arguments.model.load(&runtime)?;
    let inputs = InputArguments {
        inputs: arguments.inputs.inputs.clone(),
        fill: Some(arguments.inputs.fill.unwrap_or(0)),
    };
    let (model, given) = inputs.read(&model)?;
    let names = arguments.plan.names_of_devices(&runtime);
    if names.is_empty() {
        return Err(usage("none of the requested devices exists".to_owned()));
    }
    let policy = arguments.plan.policy().in_flight(1);
    let period = match arguments.plan.period {
        Some(period) => period,
        None => runtime.known_period(&model, &policy)?,
    };
    // the profile holds nothing of what this command does between runs
    let policy = policy.period(period).learn(Learn::No);
    let load = |name: String, session: Session| -> anyhow::Result<Runner> {
        let inputs = feed(&session, &given)?;
        Ok(Runner {
            name,
            because: None,
            session,
            inputs,
            times: Vec::new(),
            warnings: Vec::new(),
        })
    };
    let (links, links_not_measured) = if names.len() > 1 {
        let progress = Progress::steps("measuring links", 1);
        let found = runtime.measure_links(&policy)?;
        progress.step();
        found
    } else {
        (Vec::new(), Vec::new())
    };
    let (link_energies, link_energies_not_measured) = if arguments.link_energy {
        link_energies(&runtime, &policy)?
    } else {
        (Vec::new(), Vec::new())
    };
    let mut runners = Vec::new();
    let mut not_alone = Vec::new();
    for name in &names {
        let alone = policy.clone().devices([name.as_str()]);
        match runtime.session(&model, alone) {
            Ok(session) => runners.push(load(name.clone(), session)?),
            Err(error) => not_alone.push(NotAlone {
                device: name.clone(),
                reason: error.to_string(),
            }),
        }
    }
    let (mut tried, mut mixed) = (0, 0);
    let chosen = loop {
        turns(&mut runners, arguments.iters, period)?;
        let planned = runtime.plan(&model, &policy)?;
        let known = runners.iter().position(|runner| runner.runs(&planned));
        if known.is_none() {
            if tried == arguments.rounds {
                break None;
            }
            tried += 1;
            let session = runtime.session_of(planned, policy.clone())?;
            runners.push(load(format!("plan {tried}"), session)?);
            continue;
        }
        if mixed == arguments.mixed || !mixed::is_single(planned.plan()) {
            break known;
        }
        let Some(best) = mixed::cheapest(&planned) else {
            break known;
        };
        let planned = runtime.with_plan(&model, &policy, best.plan)?;
        if runners.iter().any(|runner| runner.runs(&planned)) {
            break known;
        }
        mixed += 1;
        let session = runtime.session_of(planned, policy.clone())?;
        runners.push(Runner {
            because: Some(format!("{} on {}", best.node, best.device)),
            ..load(format!("mixed {mixed}"), session)?
        });
    };
    let mut sensors = arguments.energy.then(|| SensorBench::new(&runtime, &policy));
    let mut energies = Vec::with_capacity(runners.len());
    for runner in &mut runners {
        let mut known = energy::stated(runner, period)?;
        if let (Some(sensors), Some(planned)) = (&mut sensors, runner.session.planned()) {
            sensors.measure(runner, &planned, &mut known)?;
        }
        energies.push(known);
    }
    drop(sensors);
    let exact = match arguments.plan.precision.resolved() {
        Precision::Exact => None,
        Precision::Reduced => {
            let session = runtime.session(&model, policy.precision(polychip::Precision::Exact))?;
            Some(run_once(&session, &given)?.outputs)
        }
    };
    let mut candidates = Vec::with_capacity(runners.len());
    let mut warnings = Vec::new();
    for ((index, runner), energy) in runners.into_iter().enumerate().zip(energies) {
        warnings.extend(runner.warnings.iter().map(|warning| CandidateWarning {
            candidate: runner.name.clone(),
            warning: warning.clone(),
        }));
        let apart = match &exact {
            Some(exact) => deviation(&run_once(&runner.session, &given)?.outputs, exact),
            None => None,
        };
        candidates.push(candidate(runner, Some(index) == chosen, apart, energy));
    }
    let shortest = candidates.iter().map(|candidate| candidate.latency_ns.p50).min();
    for candidate in &mut candidates {
        candidate.fastest = Some(candidate.latency_ns.p50) == shortest;
    }
    let answer = MeasureOutput {
        model: arguments.model.model.display().to_string(),
        threads: arguments.plan.threads,
        precision: arguments.plan.precision.resolved(),
        iters: arguments.iters,
        period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
        cadence: Cadence::of_period(period),
        links,
        links_not_measured,
        link_energies,
        link_energies_not_measured,
        candidates,
        not_alone,
        warnings,
        settled: chosen.is_some(),
    };
    if arguments.json {
        out.json(&answer)
    } else {
        out.text(&answer.to_string())
    }
}

/// Blocks of a round: between them the others' blocks run.
const BLOCKS: u64 = 3;

/// Runs each candidate this many times in interleaved blocks, each after a warm-up that does not
/// count.
fn turns(runners: &mut [Runner], iters: u64, period: Duration) -> anyhow::Result<()> {
    let progress = Progress::steps("measuring", iters.saturating_mul(runners.len() as u64));
    for runner in runners.iter_mut() {
        runner.times.clear();
    }
    let blocks = BLOCKS.min(iters);
    for block in 0..blocks {
        let runs = iters / blocks + u64::from(block < iters % blocks);
        for runner in runners.iter_mut() {
            let mut pacer = Pacer::new(period);
            // behind the first block, the others' blocks leave a device idle or as busy as this one does
            let held = if block == 0 || period.is_zero() {
                runner.session.planned().map(|plan| plan.clock_hold(period))
            } else {
                None
            };
            runner.warm_up(&mut pacer, held.unwrap_or_default())?;
            for _ in 0..runs {
                let took = runner.once(&mut pacer)?;
                runner.times.push(took);
                progress.step();
            }
            // what is recorded is forgotten
            runner.warnings = runner.session.report().warnings;
            runner.session.record()?;
        }
    }
    Ok(())
}

fn candidate(runner: Runner, chosen: bool, deviation: Option<f64>, energy: Vec<DeviceEnergy>) -> Candidate {
    let planned = runner.session.planned();
    let planned = planned.expect("invariant: the model's sizes are known");
    let plan = planned.plan();
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    for (device, part_nodes) in placement(&plan.devices, &plan.parts) {
        *nodes.entry(device).or_default() += part_nodes.len();
    }
    Candidate {
        name: runner.name,
        because: runner.because,
        nodes,
        parts: plan.parts.len(),
        latency_ns: Latency::of(runner.times),
        chosen,
        fastest: false,
        deviation,
        energy,
    }
}

fn link_energies(
    runtime: &Runtime,
    policy: &Policy,
) -> anyhow::Result<(Vec<polychip::LinkEnergy>, Vec<polychip::UnmeasuredLink>)> {
    let mut progress = None;
    let found = runtime.measure_link_energies(policy, &LinkEnergyOptions::default(), &mut |_, total| {
        progress
            .get_or_insert_with(|| Progress::steps("measuring link energy", total))
            .step();
    })?;
    Ok(found)
}

impl std::fmt::Display for MeasureOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = |ns: u64| Time::from_nanoseconds(ns).to_string();
        for link in &self.links {
            write!(f, "{} → {}: {}", link.from, link.to, time(link.latency_ns))?;
            if let Some(speed) = link.bytes_per_second {
                write!(f, " and {:.1} GB/s", speed as f64 / 1e9)?;
            }
            writeln!(
                f,
                " per transfer; launch {} and {} (measured)",
                time(link.from_launch_ns),
                time(link.to_launch_ns)
            )?;
        }
        for link in &self.links_not_measured {
            writeln!(f, "{} → {}: not measured: {}", link.from, link.to, link.reason)?;
        }
        for link in &self.link_energies {
            let uj =
                |figure: &polychip::telemetry::Interval| format!("{:.1} ± {:.1}", figure.mean, figure.half());
            writeln!(
                f,
                "{} → {}: {} µJ and {} µJ/MB per transfer; launch {} and {} µJ ({}, by {})",
                link.from,
                link.to,
                uj(&link.transfer_uj),
                uj(&link.megabyte_uj),
                uj(&link.from_launch_uj),
                uj(&link.to_launch_uj),
                if link.unseen.is_empty() {
                    "measured"
                } else {
                    "lower bound, not stored"
                },
                link.seen.join(" and "),
            )?;
            for unseen in &link.unseen {
                writeln!(f, "  without {unseen}")?;
            }
        }
        for link in &self.link_energies_not_measured {
            writeln!(
                f,
                "{} → {}: energy not measured: {}",
                link.from, link.to, link.reason
            )?;
        }
        if self.period_ns > 0 {
            writeln!(
                f,
                "a run each {} (cadence {})",
                time(self.period_ns),
                self.cadence
            )?;
        }
        for candidate in &self.candidates {
            let nodes: Vec<String> = candidate
                .nodes
                .iter()
                .map(|(device, nodes)| format!("{} on {device}", count(*nodes, "node")))
                .collect();
            let Latency { min, p10, p50, .. } = candidate.latency_ns;
            writeln!(
                f,
                "{} {}: p50 {}, p10 {}, min {} ({} in {}{}){}{}",
                if candidate.chosen { "→" } else { " " },
                candidate.name,
                time(p50),
                time(p10),
                time(min),
                nodes.join(", "),
                match candidate.parts {
                    1 => "1 part".to_owned(),
                    parts => format!("{parts} parts"),
                },
                candidate
                    .because
                    .as_ref()
                    .map_or_else(String::new, |pin| format!("; the best with {pin}")),
                if candidate.fastest { ", the fastest" } else { "" },
                candidate.deviation.map_or_else(String::new, |apart| format!(
                    ", within {apart:.1e} of exact precision's largest value"
                )),
            )?;
            let energies = candidate.energy.iter();
            for energy in energies.filter(|energy| energy.net_uj.is_some() || energy.is_asked) {
                writeln!(f, "    {energy}")?;
            }
        }
        for one in &self.not_alone {
            writeln!(f, "{} alone: {}", one.device, one.reason)?;
        }
        for CandidateWarning { candidate, warning } in &self.warnings {
            writeln!(f, "{candidate}: {warning}")?;
        }
        if !self.settled {
            writeln!(f, "the planner has more plans to try (--rounds)")?;
        }
        write!(f, "{} runs each, in alternating blocks", self.iters)
    }
}
