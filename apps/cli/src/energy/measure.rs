//! Runs a candidate in blocks while sensors are read, followed by an idle period.

use std::time::Duration;

use anyhow::Context as _;
use polychip::telemetry::{EnergyBench, EnergyOf, Interval, Sampler};
use polychip::{Planned, Session};

use super::arguments::Arguments;
use super::candidates::{PlannedCandidate, nodes};
use super::output::{Candidate, DeviceEnergy, SensorLine};
use crate::bench::Latency;
use crate::load::Load;
use crate::progress::Progress;

pub(super) struct Bench<'a> {
    bench: EnergyBench,
    arguments: &'a Arguments,
}

impl<'a> Bench<'a> {
    pub(super) fn new(sampler: Sampler, arguments: &'a Arguments) -> Bench<'a> {
        let [settle, idle] = [arguments.settle, arguments.idle].map(Duration::from_secs_f64);
        Bench {
            bench: EnergyBench::new(sampler, settle, idle),
            arguments,
        }
    }

    /// Energy sensors of each device.
    pub(super) fn sensors(&self) -> Vec<SensorLine> {
        let mut sampler = self.bench.sampler();
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
    pub(super) fn rest(&mut self) {
        let _progress = Progress::of("idle");
        self.bench.rest();
    }

    /// Runs a candidate in blocks, and rests after it.
    pub(super) fn measure(
        &mut self,
        way: &PlannedCandidate,
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
        let ran = self.bench.run(self.arguments.blocks, || {
            let runs = load.run_for(block)?;
            progress.step();
            anyhow::Ok(runs)
        })?;
        let times = std::mem::take(&mut load.times);
        load.end()?;
        drop(progress);
        let energies = {
            let _progress = Progress::of("idle");
            self.bench.judge(&ran)
        };
        let planned = session.planned().context("the session has no plan yet")?;
        let per_second = ran.runs() as f64 / ran.seconds();
        Ok(candidate(way, &planned, times, per_second, energies))
    }
}

fn candidate(
    way: &PlannedCandidate,
    planned: &Planned,
    times: Vec<u64>,
    runs_per_second: f64,
    energies: Vec<EnergyOf>,
) -> Candidate {
    let nodes = nodes(planned);
    let lines = energies.into_iter().map(|EnergyOf { device, figures }| {
        let (figures, reason) = match figures {
            Ok(figures) => (Some(figures), None),
            Err(reason) => (None, Some(reason)),
        };
        DeviceEnergy {
            used: nodes.contains_key(&device),
            device,
            figures,
            reason,
        }
    });
    let devices: Vec<DeviceEnergy> = lines.collect();
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
    Candidate {
        name: way.name.clone(),
        nodes,
        precision: way.precision,
        lanes: way.lanes,
        latency_ns: Latency::of(times),
        runs_per_second,
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
