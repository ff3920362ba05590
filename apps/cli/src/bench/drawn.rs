//! Energy of devices during a bench, from sensor counters: energy per frame, idle energy included.
//!
//! Invariant: each figure is the difference of a counter before and after the timed runs. A device without such a
//! counter is listed with the reason.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use polychip::Runtime;
use polychip::telemetry::{DeviceState, Rules, Sampler, Sensors};
use polychip_partitioner::Plan;
use schemars::JsonSchema;
use serde::Serialize;

/// Counters change ten times a second (NVML) or more often: over less, a step of one is too much of the whole.
const LEAST: Duration = Duration::from_secs(1);

/// Energy of a device from the start of a run to the start of the next.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Drawn {
    /// Device, `plugin:index`.
    pub(super) device: String,
    /// Energy per timed run in nanojoules; null without a counter.
    pub(super) energy_nj: Option<u64>,
    /// Mean power in milliwatts.
    pub(super) power_mw: Option<u64>,
    /// The counter, or why there is none.
    pub(super) from: String,
    pub(super) emulated: bool,
}

/// The counters of all devices before the runs.
pub(super) struct Counters {
    sampler: Sampler,
    before: Vec<DeviceState>,
    start: Instant,
}

impl Counters {
    /// Opens the sensors, which takes its time.
    pub(super) fn new(runtime: &Runtime) -> Counters {
        Counters {
            before: Vec::new(),
            sampler: Sampler::new(runtime, Sensors::of_this_machine(&Rules::default())),
            start: Instant::now(),
        }
    }

    /// Reads the counters.
    pub(super) fn begin(&mut self) {
        self.before = self.sampler.sample().devices;
        self.start = Instant::now();
    }

    /// What each of a plan's devices drew for each of so many runs.
    pub(super) fn end(mut self, runs: u64, plan: Option<&Plan>) -> Vec<Drawn> {
        let devices = |copy: &'_ Plan| {
            copy.used_devices()
                .into_iter()
                .map(|device| copy.devices[device.index()].clone())
                .collect::<Vec<String>>()
        };
        let used: BTreeSet<String> = plan
            .into_iter()
            .flat_map(Plan::copies)
            .flat_map(devices)
            .collect();
        self.before.retain(|state| used.contains(state.device.as_str()));
        let after = self.sampler.sample().devices;
        let took = self.start.elapsed();
        let drawn = |before: DeviceState| {
            let after = after.iter().find(|after| after.device == before.device);
            let counted = before
                .energy_uj
                .value
                .zip(after.and_then(|after| after.energy_uj.value));
            let counted = counted.and_then(|(before, after)| u64::try_from(after - before).ok());
            let (energy_nj, from) = match counted {
                Some(_) if took < LEAST => (None, format!("the runs took less than {} s", LEAST.as_secs())),
                Some(energy_uj) => (
                    Some(energy_uj.saturating_mul(1_000) / runs.max(1)),
                    before.energy_uj.from,
                ),
                None => {
                    let reason = after.map(|after| after.energy_uj.from.clone());
                    (None, reason.unwrap_or(before.energy_uj.from))
                }
            };
            let power = |nj: u64| (nj as f64 * runs as f64 / took.as_secs_f64() / 1e6).round();
            Drawn {
                // `as` saturates
                power_mw: energy_nj.map(|nj| power(nj) as u64),
                device: before.device,
                energy_nj,
                from,
                emulated: before.emulated,
            }
        };
        self.before.into_iter().map(drawn).collect()
    }
}
