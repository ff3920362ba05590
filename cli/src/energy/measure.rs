//! Runs a candidate in blocks while a thread reads the sensors, and rests after it.
//!
//! Invariant: what is idle for one candidate is measured right before and right after it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use polychip::telemetry::{EnergyMeter, Interval, Sample, Sampler};
use polychip::{Planned, Session};

use super::{Arguments, Candidate, DeviceEnergy, SensorLine, Way, nodes};
use crate::bench::Latency;
use crate::load::Load;
use crate::progress::Progress;

/// How often sensors are read: several times between two changes of NVIDIA's, which change ten times a second.
const EVERY: Duration = Duration::from_millis(20);

/// Samples of a time in which nothing ran, from when to when.
type Idle = (Vec<Sample>, u64, u64);

pub(super) struct Bench<'a> {
    sampler: Mutex<Sampler>,
    /// The idle times so far.
    idle: Vec<Idle>,
    arguments: &'a Arguments,
}

impl<'a> Bench<'a> {
    pub(super) fn new(sampler: Sampler, arguments: &'a Arguments) -> Bench<'a> {
        Bench {
            sampler: Mutex::new(sampler),
            idle: Vec::new(),
            arguments,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sampler> {
        self.sampler
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What each device says of its energy.
    pub(super) fn sensors(&self) -> Vec<SensorLine> {
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
    pub(super) fn rest(&mut self) {
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
    pub(super) fn measure(
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
        let planned = session.planned().context("the session has no plan yet")?;
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

fn candidate(
    way: &Way,
    planned: &Planned,
    times: Vec<u64>,
    samples: &[Sample],
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
