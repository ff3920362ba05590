//! The outlook of a candidate: its time, its energy, and the pace that heat and power allow.
//!
//! Invariants:
//! 1. An energy or power that is neither stated nor measured is absent; no bound is derived from
//!    it.
//! 2. The heat source of a place has one unit for all candidates: joules if all of them have them,
//!    else busy seconds.

use super::Governor;
use crate::observation::{FinishedRun, SensorLocation};
use crate::portfolio::{Candidate, Load};
use crate::thermal::ThermalModel;
use crate::unit::{RunEnergy, RunTime};

/// Devices heat up within seconds: no need to foresee more.
const DEVICE_HORIZON_S: f64 = 15.0;

/// What matters, from least energy to least time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Frugal,
    Fast,
}

/// What predictions are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// With the margin.
    Margin,
    /// Without: where nothing is surely in time, what may just be.
    Narrow,
    /// With the margin, and devices that are avoided for a suspicion are tried earlier.
    Hope,
}

/// What is expected of a candidate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook {
    pub(super) latency: RunTime,
    pub(super) energy: Option<RunEnergy>,
    pub(super) in_time: bool,
    /// The pace that limits allow, in thousandths, where it is below a thousand.
    pub(super) bearable: f64,
    /// Frames in time of a thousand; where none would be, what is left to compare by.
    pub(super) worth: f64,
    /// What bounds the pace.
    pub(super) bound: Option<PaceLimit>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PaceLimit {
    Heat(SensorLocation),
    Power,
}

impl Governor {
    pub(super) fn heat(&self, place: SensorLocation) -> Option<&ThermalModel> {
        match place {
            SensorLocation::Device(device) => self.device_heat.get(device),
            SensorLocation::Package => Some(&self.package_heat),
            SensorLocation::Skin => Some(&self.skin_heat),
        }
    }

    /// Whether the heat of a place is fitted in joules, which requires the energy of every candidate.
    pub(super) fn is_in_joules(&self, place: SensorLocation) -> bool {
        self.portfolio.candidates.iter().all(|candidate| match place {
            SensorLocation::Package | SensorLocation::Skin => candidate.energy_uj.is_some(),
            SensorLocation::Device(device) => {
                let mut loads = candidate.loads.iter().filter(|load| load.device == device);
                loads.all(|load| load.energy_uj.is_some())
            }
        })
    }

    /// What a run spends, for the fit of heat alone: joules, or busy seconds where some candidate does not say joules.
    /// The fit finds how much of it warms a place, whichever it is.
    pub(super) fn spent(&self, candidate: usize) -> f64 {
        let found = &self.portfolio.candidates[candidate];
        match found
            .energy_uj
            .filter(|_| self.is_in_joules(SensorLocation::Package))
        {
            Some(uj) => uj as f64 / 1e6 * self.learnt[candidate].energy,
            None => found.loads.iter().map(|load| load.busy_ns as f64 / 1e9).sum(),
        }
    }

    /// Seconds between two runs at the full rate.
    pub(super) fn cycle_s(&self, candidate: usize) -> f64 {
        let latency = self.latency_ns(candidate, &self.portfolio.candidates[candidate], false);
        // a frame that is still running when the next one comes makes that one drop
        let ns = self
            .period_ns
            .map_or(latency, |period| latency.max(period as f64));
        (ns / 1e9).max(1e-9)
    }

    /// Watts that a candidate spends at a place, at the full rate, or the share of time for which it is busy there
    /// ([`Governor::spent`]).
    pub(super) fn watts(&self, candidate: usize, place: SensorLocation) -> f64 {
        let spent = match place {
            SensorLocation::Package | SensorLocation::Skin => self.spent(candidate),
            SensorLocation::Device(device) => {
                let found = &self.portfolio.candidates[candidate];
                let load = found.loads.iter().find(|load| load.device == device);
                let in_joules = self.is_in_joules(place);
                load.map_or(0.0, |load| match load.energy_uj.filter(|_| in_joules) {
                    Some(uj) => uj as f64 / 1e6 * self.learnt[candidate].energy,
                    None => load.busy_ns as f64 / 1e9,
                })
            }
        };
        spent / self.cycle_s(candidate)
    }

    /// Time of a run with today's devices, without what was learnt of the candidate itself.
    pub(super) fn slowed_ns(&self, candidate: &Candidate, hope: bool) -> f64 {
        self.stretched_ns(candidate, |load| {
            let asked = candidate.khz(load.device);
            let slow = self.devices[load.device].slowness(self.now_ns, hope, asked);
            load.busy_ns as f64 * (slow - 1.0)
        })
    }

    /// Time that a run should have taken, given how long its devices were busy by their fences, as far as they were
    /// longer busy than they always are with it.
    pub(super) fn explained_ns(&self, candidate: &Candidate, run: &FinishedRun) -> f64 {
        let learnt = &self.learnt[run.candidate];
        let seen = |load: &Load| run.loads.iter().find(|seen| seen.device == load.device);
        if !candidate.loads.iter().all(|load| seen(load).is_some()) {
            return self.slowed_ns(candidate, false);
        }
        self.stretched_ns(candidate, |load| {
            let always = learnt.always(load.device);
            seen(load).map_or(0.0, |seen| seen.busy_ns as f64 / always - load.busy_ns as f64)
        })
    }

    /// Time of a run whose devices are busy for so much longer each. Where they work at once, not all of that counts;
    /// but what makes one device longer busy makes the run longer, at most by as much.
    fn stretched_ns(&self, candidate: &Candidate, more: impl Fn(&Load) -> f64) -> f64 {
        let busy: f64 = candidate.loads.iter().map(|load| load.busy_ns as f64).sum();
        let latency = candidate.latency_ns as f64;
        let share = if busy > latency { latency / busy } else { 1.0 };
        let all: f64 = candidate.loads.iter().map(&more).sum();
        let most = candidate
            .loads
            .iter()
            .map(&more)
            .fold(f64::NEG_INFINITY, f64::max);
        latency + (all * share).max(most)
    }

    pub(super) fn latency_ns(&self, index: usize, candidate: &Candidate, hope: bool) -> f64 {
        let learnt = self.learnt[index].time(self.now_ns);
        self.slowed_ns(candidate, hope) * learnt
    }

    pub(super) fn aim(&self) -> Aim {
        let low = self
            .charge_permille
            .is_some_and(|charge| charge < self.settings.low_battery_permille);
        // a machine that says nothing of a battery has none
        let mains = self.charging || self.charge_permille.is_none();
        if self.foreground && mains && !low {
            Aim::Fast
        } else {
            Aim::Frugal
        }
    }

    /// What is expected of a candidate.
    pub(super) fn outlook(&self, index: usize, trust: Trust) -> Outlook {
        let hope = trust == Trust::Hope;
        let candidate = &self.portfolio.candidates[index];
        let latency_ns = self.latency_ns(index, candidate, hope);
        let margin = f64::from(self.settings.margin_permille) / 1e3;
        let margin = match trust {
            Trust::Narrow => 0.0,
            // what runs is given half the margin, so that it is not left for a breath
            _ if index == self.current => margin / 2.0,
            _ => margin,
        };
        let in_time = self
            .deadline_ns
            .is_none_or(|deadline| latency_ns * (1.0 + margin) <= deadline as f64);
        let (mut bearable, mut bound) = (f64::INFINITY, None);
        let pace_now = f64::from(self.pace_permille) / 1e3;
        let places = (0..self.portfolio.devices.len()).map(SensorLocation::Device);
        for place in places.chain([SensorLocation::Package, SensorLocation::Skin]) {
            let (Some(limit), Some(heat)) = (self.limits.temperature(place), self.heat(place)) else {
                continue;
            };
            let watts = self.watts(index, place);
            if watts <= 0.0 {
                continue;
            }
            let horizon = self.horizon_s(place);
            let guard = match place {
                SensorLocation::Device(_) => self.settings.device_guard_mc,
                SensorLocation::Package | SensorLocation::Skin => self.settings.guard_mc,
            };
            let limit = limit.saturating_sub(guard) as f64 / 1e3;
            let now = self.watts(self.current, place) * pace_now;
            if let Some(most) = heat.bearable(self.now_ns, now, limit, horizon)
                && most / watts < bearable
            {
                bearable = most / watts;
                bound = Some(PaceLimit::Heat(place));
            }
        }
        if let (Some(limit), Some(milliwatts)) = (self.limits.power_mw, self.milliwatts(index)) {
            let most = limit as f64 / milliwatts.max(1e-3);
            if most < bearable {
                bearable = most;
                bound = Some(PaceLimit::Power);
            }
        }
        let bearable = (bearable * 1e3).clamp(0.0, 1000.0);
        let worth = match (in_time, self.deadline_ns) {
            (_, None) => match (self.aim(), self.period_ns) {
                // no run is late: as many as come, or as there can be
                (Aim::Fast, Some(period)) => bearable * (period as f64 / latency_ns.max(1.0)).min(1.0),
                // frames cannot be skipped, or energy is what counts
                _ => bearable,
            },
            (true, _) => bearable,
            // late frames are worth little: the less late the more, unless energy counts
            (false, Some(deadline)) => match self.aim() {
                Aim::Fast => bearable / 10.0 * (deadline as f64 / latency_ns).min(1.0),
                Aim::Frugal => bearable / 100.0,
            },
        };
        Outlook {
            latency: RunTime::from_ns(latency_ns),
            energy: candidate
                .energy_uj
                .map(|uj| RunEnergy::from_uj(uj as f64).times(self.learnt[index].energy)),
            in_time,
            bearable,
            worth,
            bound,
        }
    }

    /// How far ahead a place is foreseen.
    pub(super) fn horizon_s(&self, place: SensorLocation) -> f64 {
        let horizon = self.settings.horizon_ns as f64 / 1e9;
        match place {
            SensorLocation::Device(_) => horizon.min(DEVICE_HORIZON_S),
            SensorLocation::Package | SensorLocation::Skin => horizon,
        }
    }

    /// Power of a candidate at the full rate, as far as it is known: as read, or as stated of its devices. A device
    /// that says neither counts for nothing, so that what is known is the least that it can be.
    pub(super) fn milliwatts(&self, candidate: usize) -> Option<f64> {
        let found = &self.portfolio.candidates[candidate];
        let learnt = &self.learnt[candidate];
        let stated: Vec<u64> = found.loads.iter().filter_map(|load| load.energy_uj).collect();
        let stated = stated.iter().copied().reduce(u64::saturating_add);
        let stated = found.energy_uj.or(stated).map(|uj| uj as f64 * learnt.energy);
        // microjoules a second are thousandths of a milliwatt
        let stated = stated.map(|uj| uj / 1e3 / self.cycle_s(candidate));
        match (learnt.seen_mw, stated) {
            (Some(seen), Some(stated)) => Some(seen.max(stated)),
            (seen, stated) => seen.or(stated),
        }
    }

    /// Whether the power of each device of a candidate is measured or stated.
    pub(super) fn power_is_known(&self, candidate: usize) -> bool {
        let found = &self.portfolio.candidates[candidate];
        let mut loads = found.loads.iter();
        found.energy_uj.is_some()
            || loads.all(|load| load.energy_uj.is_some() || self.power_mw[load.device].is_some())
    }
}
