//! Observations for the governor from a sensor sample and the runs since the last one, as in the
//! study of the emulated SoC.
//!
//! Invariants:
//! 1. Figures without a sensor are left out.
//! 2. Runs in time and late runs are reported separately, each by their mean.
//! 3. Other load on a device is reported only if the figure excludes our own runs.

use std::sync::{Arc, PoisonError};

use polychip_governor::{FinishedRun, Input, Load, Reading, SensorLocation};
use polychip_host::DeviceKind;

use super::headroom;
use super::ready::Ready;
use super::report::MissedLimit;
use super::state::{Governing, Missed, State};
use crate::session::deadline_miss::Lateness;
use crate::session::history::Tally;
use crate::telemetry::{DeviceState, Sample};

/// Drivers state the load of the last second or less: so much later none of it is of our runs.
const OURS_NS: u64 = 2_000_000_000;

impl Governing {
    /// What the runs say that have ended since this was last asked for.
    pub(super) fn runs(&self, state: &mut State, now_ns: u64) -> Vec<FinishedRun> {
        let mut runs = Vec::new();
        let current = state.governor.plan();
        let running = state.ready.get(current).map(|ready| Arc::as_ptr(&ready.plan));
        for (index, ready) in state.ready.iter().enumerate() {
            // of candidates of one plan its runs are those of the one in use
            let is_running = running == Some(Arc::as_ptr(&ready.plan));
            if is_running && index != current || !is_running && !ready.points.is_empty() {
                continue;
            }
            let tallies = {
                let mut history = ready.plan.history.lock().unwrap_or_else(PoisonError::into_inner);
                history.take_tallies()
            };
            for (tally, late) in tallies.iter().zip([false, true]) {
                runs.extend(finished(index, ready, tally, late));
            }
        }
        for load in runs.iter().flat_map(|run| &run.loads) {
            state.used_ns[load.device] = Some(now_ns);
        }
        runs
    }

    /// What the sample and the runs since the last one say.
    pub(super) fn inputs(&self, state: &mut State, sample: &Sample) -> Vec<Input> {
        let runs = self.runs(state, sample.time_ns);
        let mut inputs = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            let Some(said) = sample.devices.iter().find(|said| said.device == device.name()) else {
                continue;
            };
            let reading = Reading {
                temperature_mc: said.temperature_mc.value,
                power_mw: said.power_mw.value.and_then(|mw| u64::try_from(mw).ok()),
                frequency_khz: said.allowed_khz.value.and_then(|khz| u64::try_from(khz).ok()),
                others_permille: self.others(state, index, said, sample.time_ns),
                throttled: said.throttle.value.map(|bits| bits != 0),
                ..Reading::of(SensorLocation::Device(index))
            };
            if reading != Reading::of(SensorLocation::Device(index)) {
                inputs.push(Input::Reading(reading));
            }
        }
        for (place, figure) in [
            (SensorLocation::Package, &sample.package_mc),
            (SensorLocation::Skin, &sample.surface_mc),
        ] {
            let temperature_mc = figure.value;
            if temperature_mc.is_some() {
                inputs.push(Input::Reading(Reading {
                    temperature_mc,
                    ..Reading::of(place)
                }));
            }
        }
        inputs.extend(headroom::inputs(state, sample));
        if let Some((charge_permille, charging)) = state.battery.filter(|_| !state.saver) {
            inputs.push(Input::Battery {
                charge_permille: Some(charge_permille),
                charging,
            });
        } else if let Some(battery) = &sample.battery
            && !state.saver
        {
            let charge = battery.capacity_permille.value;
            inputs.push(Input::Battery {
                charge_permille: charge.and_then(|charge| u32::try_from(charge).ok()),
                charging: battery.charging.unwrap_or(false),
            });
        }
        inputs.extend(runs.into_iter().map(Input::Run));
        if inputs.is_empty() {
            inputs.push(Input::Tick);
        }
        inputs
    }

    /// The share of its time for which a device is busy with others' work.
    fn others(&self, state: &State, index: usize, said: &DeviceState, now_ns: u64) -> Option<u32> {
        if self.devices[index].info().kind == DeviceKind::Cpu {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let threads = match self.policy.settings().threads {
                0 => cores,
                threads => (threads as usize).min(cores),
            };
            return said
                .others_permille
                .value
                .and_then(|busy| u32::try_from(busy).ok())
                .map(|busy| taken(busy, cores, threads));
        }
        let ours = state.used_ns[index].is_some_and(|used| now_ns.saturating_sub(used) < OURS_NS);
        let load = said.load_permille.value.filter(|_| !ours)?;
        u32::try_from(load).ok().map(|load| load.min(1000))
    }

    /// Notes which limits the sensors say are exceeded, and which devices are hot or slowed down.
    pub(super) fn note_limits(&self, state: &mut State, lateness: &Lateness, sample: &Sample) {
        let limits = state.governor.limits().clone();
        for (index, device) in self.devices.iter().enumerate() {
            let Some(said) = sample.devices.iter().find(|said| said.device == device.name()) else {
                continue;
            };
            let (seen, limit) = (
                said.temperature_mc.value,
                limits.temperature(SensorLocation::Device(index)),
            );
            let is_hot = seen.zip(limit).is_some_and(|(seen, limit)| seen > limit);
            let is_slowed = said.throttle.value.is_some_and(|bits| bits != 0);
            lateness.saw(index, is_hot || is_slowed);
            note(
                &mut state.missed,
                Some(SensorLocation::Device(index)),
                seen,
                limit,
            );
        }
        let surface = sample
            .surface_mc
            .value
            .or_else(|| headroom::surface_mc(state, sample));
        for (place, value) in [
            (SensorLocation::Package, sample.package_mc.value),
            (SensorLocation::Skin, surface),
        ] {
            note(&mut state.missed, Some(place), value, limits.temperature(place));
        }
        let powers = sample.devices.iter().filter_map(|said| said.power_mw.value);
        let power = powers.reduce(i64::saturating_add);
        let limit = limits.power_mw.and_then(|mw| i64::try_from(mw).ok());
        note(&mut state.missed, None, power, limit);
    }

    /// The limits that were exceeded.
    pub(crate) fn missed_limits(&self) -> Vec<MissedLimit> {
        let state = self.lock();
        let over = state.missed.iter().filter(|missed| missed.over > 0);
        let report = |missed: &Missed| match missed.place {
            None => MissedLimit::Power {
                limit_mw: missed.limit,
                worst_mw: missed.worst,
                samples: missed.over,
                of_samples: missed.samples,
            },
            Some(place) => MissedLimit::Temperature {
                place: match place {
                    SensorLocation::Device(index) => self.devices[index].name().to_owned(),
                    SensorLocation::Package => "package".to_owned(),
                    SensorLocation::Skin => "surface".to_owned(),
                },
                limit_mc: missed.limit,
                worst_mc: missed.worst,
                samples: missed.over,
                of_samples: missed.samples,
            },
        };
        over.map(report).collect()
    }
}

/// Compares what was read with a limit, where there are both.
fn note(missed: &mut Vec<Missed>, place: Option<SensorLocation>, seen: Option<i64>, limit: Option<i64>) {
    let (Some(seen), Some(limit)) = (seen, limit) else {
        return;
    };
    let known = missed.iter().position(|one| one.place == place);
    let at = known.unwrap_or_else(|| {
        missed.push(Missed {
            place,
            limit,
            worst: seen,
            over: 0,
            samples: 0,
        });
        missed.len() - 1
    });
    let one = &mut missed[at];
    one.limit = limit;
    one.worst = one.worst.max(seen);
    one.samples += 1;
    one.over += u64::from(seen > limit);
}

/// Other load on the cores that a part with this many threads needs: only the share beyond the idle cores.
fn taken(busy_permille: u32, cores: usize, threads: usize) -> u32 {
    let (busy, threads) = (u64::from(busy_permille) * cores as u64, threads as u64 * 1000);
    let lacking = (busy + threads).saturating_sub(cores as u64 * 1000);
    u32::try_from((lacking * 1000 / threads.max(1)).min(1000)).unwrap_or(1000)
}

/// The mean of the runs of a plan since the last sample; none where there were none.
fn finished(candidate: usize, ready: &Ready, tally: &Tally, late: bool) -> Option<FinishedRun> {
    if tally.runs == 0 {
        return None;
    }
    let mut loads: Vec<Load> = Vec::new();
    for (part, (busy, energy)) in ready.plan.wiring.parts.iter().zip(&tally.parts) {
        let (busy_ns, energy_uj) = (busy / tally.runs, energy.map(|energy| energy / tally.runs));
        match loads.iter_mut().find(|load| load.device == part.device) {
            Some(load) => {
                load.busy_ns += busy_ns;
                load.energy_uj = load.energy_uj.zip(energy_uj).map(|(a, b)| a + b);
            }
            None => loads.push(Load {
                device: part.device,
                busy_ns,
                energy_uj,
            }),
        }
    }
    // a device that states no times has none
    loads.retain(|load| load.busy_ns > 0);
    let energies: Option<Vec<u64>> = loads.iter().map(|load| load.energy_uj).collect();
    Some(FinishedRun {
        candidate,
        runs: tally.runs,
        latency_ns: tally.latency_ns / tally.runs,
        energy_uj: energies.filter(|all| !all.is_empty()).map(|all| all.iter().sum()),
        late,
        loads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_load_ignores_idle_cores() {
        // half of eight cores is busy: two threads find their place, eight lack four
        assert_eq!((taken(500, 8, 2), taken(500, 8, 8)), (0, 500));
        assert_eq!(taken(900, 8, 2), 600);
        assert_eq!((taken(0, 1, 1), taken(1000, 1, 1)), (0, 1000));
    }

    #[test]
    fn limit_counts_samples_above_it() {
        let mut missed = Vec::new();
        for (seen, limit) in [
            (Some(41), Some(42)),
            (Some(44), Some(42)),
            (None, Some(42)),
            (Some(43), None),
        ] {
            note(&mut missed, Some(SensorLocation::Skin), seen, limit);
        }
        let found = &missed[0];
        assert_eq!(
            (found.samples, found.over, found.worst, missed.len()),
            (2, 1, 44, 1)
        );
    }
}
