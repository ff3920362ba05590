//! The energy of candidates: what plugins state of each run, and with `--energy` what sensors measure.
//!
//! What plugins state is in the profile with the times of the same runs. What sensors measure is stored
//! where the candidate gives the device a single part.

use std::time::{Duration, Instant};

use polychip::telemetry::{EnergyBench, Interval, Rules, Sampler, Sensors};
use polychip::{Planned, Policy, Runtime, Session};
use polychip_profile::median;
use schemars::JsonSchema;
use serde::Serialize;

use super::runner::Runner;
use crate::pace::Pacer;
use crate::progress::Progress;

/// Runs whose stated energies are read.
const RUNS: usize = 10;
/// How long sensors settle, and the machine rests before and after a candidate.
const SETTLE: Duration = Duration::from_millis(500);
const REST: Duration = Duration::from_secs(2);
/// Blocks of runs of a candidate, and the time of each.
const BLOCKS: u32 = 5;
const BLOCK: Duration = Duration::from_secs(1);

/// Energy of a candidate's run on one of its devices.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DeviceEnergy {
    /// Device, `plugin:index`.
    pub(super) device: String,
    /// Energy without idle power, in microjoules; an interval if a sensor measured it. Null if it is unknown.
    pub(super) net_uj: Option<Interval>,
    /// Energy with idle power, in microjoules, as a sensor measured it (`--energy`).
    pub(super) gross_uj: Option<Interval>,
    /// Where `net_uj` is from: `plugin` if the plugin states it, the sensor's name, or why it is unknown.
    pub(super) from: String,
    /// Whether the profile has it for the part that the device ran.
    pub(super) stored: bool,
    /// The device is emulated.
    pub(super) emulated: bool,
    /// A sensor was asked for it.
    #[serde(skip)]
    pub(super) is_asked: bool,
}

/// What the plugins of a session's devices state: medians of some runs.
pub(super) fn stated(runner: &mut Runner, period: Duration) -> anyhow::Result<Vec<DeviceEnergy>> {
    runner.session.start_trace(RUNS);
    let mut pacer = Pacer::new(period);
    for _ in 0..RUNS {
        runner.once(&mut pacer)?;
    }
    let (runs, _) = runner.session.trace();
    runner.session.start_trace(0);
    // the times of these runs were measured before
    runner.session.forget();
    let energies = devices(&runner.session).into_iter().map(|(device, emulated)| {
        let of_run = |run: &polychip::TracedRun| -> Option<u64> {
            let parts = run.parts.iter().filter(|part| part.device == device);
            let energies: Option<Vec<u64>> = parts.map(|part| part.energy_uj).collect();
            energies.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
        };
        let mut all: Vec<u64> = runs.iter().filter_map(of_run).collect();
        let known = median(&mut all, u64::cmp).map(|uj| Interval::around(uj as f64, 0.0));
        DeviceEnergy {
            stored: known.is_some(),
            from: match known {
                Some(_) => "plugin".to_owned(),
                None => "the plugin states no energy; --energy measures it with a sensor".to_owned(),
            },
            net_uj: known,
            gross_uj: None,
            device,
            emulated,
            is_asked: false,
        }
    });
    Ok(energies.collect())
}

/// Devices that a session uses, and whether each is emulated.
fn devices(session: &Session) -> Vec<(String, bool)> {
    let Some(planned) = session.planned() else {
        return Vec::new();
    };
    let used = planned.plan().used_devices().into_iter();
    used.map(|index| {
        let device = &planned.devices()[index.index()];
        (device.name().to_owned(), device.info().emulated)
    })
    .collect()
}

/// The machine's sensors, read while candidates run.
pub(super) struct SensorBench<'a> {
    runtime: &'a Runtime,
    policy: &'a Policy,
    bench: EnergyBench,
}

impl<'a> SensorBench<'a> {
    pub(super) fn new(runtime: &'a Runtime, policy: &'a Policy) -> SensorBench<'a> {
        let sampler = Sampler::new(runtime, Sensors::of_this_machine(&Rules::default()));
        let mut bench = EnergyBench::new(sampler, SETTLE, REST);
        {
            let _progress = Progress::of("idle");
            bench.rest();
        }
        SensorBench {
            runtime,
            policy,
            bench,
        }
    }

    /// Runs a candidate in blocks, and puts what the sensors show in place of what is known of its devices.
    pub(super) fn measure(
        &mut self,
        runner: &mut Runner,
        planned: &Planned,
        known: &mut [DeviceEnergy],
    ) -> anyhow::Result<()> {
        let progress = Progress::steps("measuring energy", u64::from(BLOCKS));
        let mut pacer = Pacer::new(Duration::ZERO);
        let ran = self.bench.run(BLOCKS, || {
            let start = Instant::now();
            let mut runs = 0;
            while start.elapsed() < BLOCK {
                runner.once(&mut pacer)?;
                runs += 1;
            }
            progress.step();
            anyhow::Ok(runs)
        })?;
        drop(progress);
        runner.session.forget();
        let energies = {
            let _progress = Progress::of("idle");
            self.bench.judge(&ran)
        };
        let sample = self.bench.sampler().sample();
        for energy in known {
            energy.is_asked = true;
            let Some(found) = energies.iter().find(|found| found.device == energy.device) else {
                continue;
            };
            energy.gross_uj = found.figures.as_ref().ok().map(|figures| figures.gross_uj);
            let net = found.figures.as_ref().map(|figures| figures.net_uj);
            match net {
                Ok(Some(net)) => {
                    let state = sample.devices.iter().find(|state| state.device == energy.device);
                    let sensor = state.map_or_else(String::new, |state| {
                        let counter = &state.energy_uj;
                        if counter.value.is_some() {
                            counter.from.clone()
                        } else {
                            state.power_mw.from.clone()
                        }
                    });
                    energy.stored =
                        self.runtime
                            .record_energy(planned, self.policy, &energy.device, &sensor, &net)?;
                    (energy.net_uj, energy.from) = (Some(net), sensor);
                }
                // what the plugin states stays
                _ if energy.net_uj.is_some() => {}
                Ok(None) => "idle power was not measured".clone_into(&mut energy.from),
                Err(reason) => energy.from.clone_from(reason),
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for DeviceEnergy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let uj = |figure: &Interval| match figure.half() {
            half if half > 0.0 => format!("{:.1} ± {half:.1} µJ", figure.mean),
            _ => format!("{:.1} µJ", figure.mean),
        };
        match &self.net_uj {
            Some(net) => write!(
                f,
                "energy on {}: {} a run ({}{}{})",
                self.device,
                uj(net),
                self.from,
                if self.emulated { ", emulated" } else { "" },
                if self.stored { "" } else { ", not stored" }
            )?,
            None => write!(f, "energy on {}: unknown: {}", self.device, self.from)?,
        }
        match &self.gross_uj {
            Some(gross) => write!(f, "; {} with idle power, by its sensor", uj(gross)),
            None => Ok(()),
        }
    }
}
