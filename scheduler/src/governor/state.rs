//! The machine: what is known of devices and candidates, and the choice among them.
//!
//! Invariants: `current` is a candidate of the portfolio, and needs no lost device while another one needs none.

use std::collections::VecDeque;

use super::decision::{Action, Decision, Reason};
use super::event::{Event, FinishedRun, Input, Limits, Place, Reading};
use super::learn::{Device, Learnt};
use super::portfolio::{Candidate, Portfolio};
use super::settings::Settings;
use super::thermal::{self, Place as Heat};
use crate::error::Result;

/// A minute.
const MINUTE_NS: u64 = 60_000_000_000;
/// Paces are multiples of this, in thousandths.
const PACE_STEP: u32 = 25;
/// A pace rises by so much at a look, at most.
const PACE_RISE: u32 = 50;
/// A late plan is left for another late one only below this share of its worth.
const MUCH_LESS: f64 = 0.6;
/// Devices heat up within seconds: no need to foresee more.
const DEVICE_HORIZON_S: f64 = 15.0;

/// Chooses among the candidates of a portfolio. See the [module](super).
#[derive(Debug, Clone)]
pub struct Governor {
    portfolio: Portfolio,
    limits: Limits,
    settings: Settings,
    now_ns: u64,
    current: usize,
    pace_permille: u32,
    devices: Vec<Device>,
    learnt: Vec<Learnt>,
    device_heat: Vec<Heat>,
    package_heat: Heat,
    skin_heat: Heat,
    /// Power of each device as read last.
    power_mw: Vec<Option<(u64, u64)>>,
    charge_permille: Option<u32>,
    charging: bool,
    foreground: bool,
    period_ns: Option<u64>,
    deadline_ns: Option<u64>,
    looked_ns: Option<u64>,
    switched_ns: Option<u64>,
    /// When the pace changed last.
    paced_ns: Option<u64>,
    /// Times of the last switches that nothing forced.
    switches: VecDeque<u64>,
    /// Since when runs are off their prediction.
    off_since_ns: Option<u64>,
    asked_ns: Option<u64>,
}

/// What matters, from least energy to least time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Frugal,
    Fast,
}

/// What is expected of a candidate.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    latency_ns: f64,
    energy_uj: Option<f64>,
    in_time: bool,
    /// The pace that limits allow, in thousandths, where it is below a thousand.
    bearable: f64,
    /// Frames in time of a thousand; where none would be, what is left to compare by.
    worth: f64,
    /// What bounds the pace.
    bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy)]
enum Bound {
    Heat(Place),
    Power,
}

impl Governor {
    /// A governor that starts on the portfolio's first candidate.
    ///
    /// # Errors
    /// A portfolio that does not pass [`Portfolio::check`].
    pub fn new(portfolio: Portfolio, limits: Limits, settings: Settings) -> Result<Self> {
        portfolio.check()?;
        let count = portfolio.devices.len();
        Ok(Self {
            devices: vec![Device::default(); count],
            learnt: vec![Learnt::default(); portfolio.candidates.len()],
            device_heat: vec![Heat::new(thermal::DEVICE); count],
            package_heat: Heat::new(thermal::PACKAGE),
            skin_heat: Heat::new(thermal::SKIN),
            power_mw: vec![None; count],
            portfolio,
            limits,
            settings,
            now_ns: 0,
            current: 0,
            pace_permille: 1000,
            charge_permille: None,
            charging: false,
            foreground: true,
            period_ns: None,
            deadline_ns: None,
            looked_ns: None,
            switched_ns: None,
            paced_ns: None,
            switches: VecDeque::new(),
            off_since_ns: None,
            asked_ns: None,
        })
    }

    /// The candidate that runs now. Whether it can run says [`is_usable`](Self::is_usable): it can wherever any can.
    #[must_use]
    pub fn plan(&self) -> usize {
        self.current
    }

    /// The pace of the last decision.
    #[must_use]
    pub fn pace_permille(&self) -> u32 {
        self.pace_permille
    }

    /// Whether a candidate needs no lost device.
    #[must_use]
    pub fn is_usable(&self, candidate: usize) -> bool {
        let found = self.portfolio.candidates.get(candidate);
        found.is_some_and(|found| found.loads.iter().all(|load| !self.devices[load.device].lost))
    }

    /// The portfolio in use.
    #[must_use]
    pub fn portfolio(&self) -> &Portfolio {
        &self.portfolio
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time of a run of a candidate as predicted now, with what was learnt of its devices.
    #[must_use]
    pub fn predicted_ns(&self, candidate: usize) -> Option<u64> {
        let found = self.portfolio.candidates.get(candidate)?;
        Some(self.latency_ns(candidate, found, false).round() as u64)
    }

    /// What was learnt of how a place heats up: `[K/s of all but our runs, K/J, 1/s]`.
    #[must_use]
    pub fn coefficients(&self, place: Place) -> Option<[f64; 3]> {
        self.heat(place).map(Heat::coefficients)
    }

    /// Takes note of an event and decides.
    pub fn step(&mut self, event: &Event) -> Decision {
        self.now_ns = self.now_ns.max(event.time_ns);
        let known = |device: usize| device < self.portfolio.devices.len();
        let mut urgent = false;
        match &event.input {
            Input::Reading(reading) => {
                if let Place::Device(device) = reading.place
                    && !known(device)
                {
                    return self.stay(Reason::Unknown);
                }
                self.read(reading);
            }
            Input::Run(run) => {
                if run.candidate >= self.portfolio.candidates.len() {
                    return self.stay(Reason::Unknown);
                }
                urgent = self.ran(run);
                if let Some(decision) = self.asks_for_replan(run.candidate) {
                    return decision;
                }
            }
            Input::Lost { device } if known(*device) => {
                self.devices[*device].lost = true;
                if !self.is_usable(self.current) {
                    return self.flee(*device);
                }
            }
            Input::Back { device } if known(*device) => {
                let back = &mut self.devices[*device];
                if back.lost {
                    back.lost = false;
                    back.quarantined_until_ns = self.now_ns.saturating_add(self.settings.quarantine_ns);
                }
                // where nothing could run, what came back can
                if !self.is_usable(self.current) {
                    return self.flee(*device);
                }
            }
            Input::Lost { .. } | Input::Back { .. } => return self.stay(Reason::Unknown),
            Input::Battery {
                charge_permille,
                charging,
            } => {
                self.charge_permille = *charge_permille;
                self.charging = *charging;
            }
            Input::Foreground(foreground) => self.foreground = *foreground,
            Input::Frames {
                period_ns,
                deadline_ns,
            } => {
                self.period_ns = period_ns.filter(|&period| period > 0);
                self.deadline_ns = deadline_ns.filter(|&deadline| deadline > 0);
            }
            Input::Limits(limits) => {
                self.limits = limits.clone();
                urgent = true;
            }
            Input::Replanned(candidates) => return self.replace(candidates),
            Input::Tick => {}
        }
        if !self.is_usable(self.current) {
            return self.stay(Reason::NoCandidate);
        }
        let due = self
            .looked_ns
            .is_none_or(|looked| self.now_ns.saturating_sub(looked) >= self.settings.look_every_ns);
        if due || urgent {
            self.look(urgent)
        } else {
            self.stay(Reason::Steady)
        }
    }

    fn stay(&self, reason: Reason) -> Decision {
        self.decision(Action::Stay, reason)
    }

    fn decision(&self, action: Action, reason: Reason) -> Decision {
        Decision {
            action,
            pace_permille: self.pace_permille,
            reason,
        }
    }

    fn read(&mut self, reading: &Reading) {
        let now_ns = self.now_ns;
        if let Some(millidegrees) = reading.temperature_mc {
            let watts = self.watts(self.current, reading.place) * f64::from(self.pace_permille) / 1e3;
            let heat = match reading.place {
                Place::Device(device) => &mut self.device_heat[device],
                Place::Package => &mut self.package_heat,
                Place::Skin => &mut self.skin_heat,
            };
            heat.read(now_ns, millidegrees as f64 / 1e3, watts);
        }
        let Place::Device(device) = reading.place else {
            return;
        };
        if let Some(khz) = reading.frequency_khz {
            self.devices[device].read_clock(now_ns, khz);
        }
        if let Some(permille) = reading.others_permille {
            self.devices[device].read_others(now_ns, permille);
        }
        if let Some(power) = reading.power_mw {
            self.power_mw[device] = Some((now_ns, power));
            self.draw();
        }
    }

    /// What devices say that they draw is what the plan draws at its pace, with those that rest meanwhile; at least,
    /// where a device of it has no sensor. The full rate is taken to draw as much more as the pace is less: too much,
    /// by what is drawn at rest, so that each look comes nearer to the limit without passing it.
    fn draw(&mut self) {
        let long_ago = |at: u64| self.now_ns.saturating_sub(at) >= 2_000_000_000;
        let settled = self.switched_ns.is_none_or(long_ago) && self.paced_ns.is_none_or(long_ago);
        let fresh = |(at, _): &(u64, u64)| self.now_ns.saturating_sub(*at) <= 3_000_000_000;
        let sum: u64 = self
            .power_mw
            .iter()
            .flatten()
            .filter(|read| fresh(read))
            .map(|read| read.1)
            .fold(0, u64::saturating_add);
        if settled {
            let pace = f64::from(self.pace_permille.max(PACE_STEP)) / 1e3;
            self.learnt[self.current].drew(sum as f64 / pace);
        }
    }

    /// Learns from a run; whether it says that the plan is late.
    fn ran(&mut self, run: &FinishedRun) -> bool {
        let candidate = &self.portfolio.candidates[run.candidate];
        let late = run.late || self.deadline_ns.is_some_and(|deadline| run.latency_ns > deadline);
        for load in &candidate.loads {
            let seen = run.loads.iter().find(|seen| seen.device == load.device);
            if let Some(seen) = seen.filter(|_| load.busy_ns > 0) {
                let slow = seen.busy_ns as f64 / load.busy_ns as f64;
                self.devices[load.device].measure(self.now_ns, slow, late, self.settings.retry_ns);
            }
            let joules = seen.and_then(|seen| seen.energy_uj).or(load.energy_uj);
            let joules = joules.map_or(load.busy_ns as f64 / 1e9, |uj| uj as f64 / 1e6);
            self.device_heat[load.device].spend(joules);
        }
        let fences: u64 = run
            .loads
            .iter()
            .filter_map(|load| load.energy_uj)
            .fold(0, u64::saturating_add);
        let predicted: u64 = candidate
            .loads
            .iter()
            .filter_map(|load| load.energy_uj)
            .fold(0, u64::saturating_add);
        let spent = match (run.energy_uj, candidate.energy_uj) {
            (Some(energy), Some(expected)) if expected > 0 => Some(energy as f64 / expected as f64),
            _ if fences > 0 && predicted > 0 => Some(fences as f64 / predicted as f64),
            _ => None,
        };
        let modelled = self.explained_ns(candidate, run).max(1.0);
        let learnt = &mut self.learnt[run.candidate];
        learnt.run(run.latency_ns as f64 / modelled);
        if let Some(spent) = spent {
            learnt.spent(spent);
        }
        let joules = self.joules(run.candidate);
        self.package_heat.spend(joules);
        self.skin_heat.spend(joules);
        late && run.candidate == self.current
    }

    /// Whether runs have been off for so long that the portfolio does not fit.
    fn asks_for_replan(&mut self, candidate: usize) -> Option<Decision> {
        let off = self.learnt[candidate].time * 1e3;
        if candidate != self.current || off <= f64::from(self.settings.off_permille) {
            self.off_since_ns = None;
            return None;
        }
        let since = *self.off_since_ns.get_or_insert(self.now_ns);
        let long = |since: u64| self.now_ns.saturating_sub(since) >= self.settings.replan_after_ns;
        if !long(since) || self.asked_ns.is_some_and(|asked| !long(asked)) {
            return None;
        }
        self.asked_ns = Some(self.now_ns);
        let reason = Reason::PredictionOff {
            candidate,
            measured_permille: off.round() as u64,
        };
        Some(self.decision(Action::Replan, reason))
    }

    /// Leaves a plan that cannot run, whatever dwell and budget say.
    fn flee(&mut self, device: usize) -> Decision {
        let Some((best, outlook)) = self.best(None) else {
            return self.decision(Action::Replan, Reason::NoCandidate);
        };
        self.current = best;
        self.switched_ns = Some(self.now_ns);
        self.set_pace(&outlook, true);
        self.decision(Action::Switch(best), Reason::Lost { device })
    }

    fn replace(&mut self, candidates: &[Candidate]) -> Decision {
        let portfolio = Portfolio {
            devices: self.portfolio.devices.clone(),
            candidates: candidates.to_vec(),
        };
        if portfolio.check().is_err() {
            return self.stay(Reason::Unknown);
        }
        self.learnt = vec![Learnt::default(); candidates.len()];
        self.portfolio = portfolio;
        self.off_since_ns = None;
        self.switched_ns = Some(self.now_ns);
        self.current = match self.is_usable(0) {
            true => 0,
            false => self.best(None).map_or(0, |(best, _)| best),
        };
        match self.is_usable(self.current) {
            true => self.decision(Action::Switch(self.current), Reason::Replanned),
            false => self.decision(Action::Replan, Reason::NoCandidate),
        }
    }

    fn heat(&self, place: Place) -> Option<&Heat> {
        match place {
            Place::Device(device) => self.device_heat.get(device),
            Place::Package => Some(&self.package_heat),
            Place::Skin => Some(&self.skin_heat),
        }
    }

    /// Joules of a run; a busy second counts as one joule where nothing is known, and the fit finds the scale.
    fn joules(&self, candidate: usize) -> f64 {
        let found = &self.portfolio.candidates[candidate];
        let known = found
            .energy_uj
            .map(|uj| uj as f64 / 1e6 * self.learnt[candidate].energy);
        known.unwrap_or_else(|| found.loads.iter().map(|load| load.busy_ns as f64 / 1e9).sum())
    }

    /// Seconds between two runs at the full rate.
    fn cycle_s(&self, candidate: usize) -> f64 {
        let latency = self.latency_ns(candidate, &self.portfolio.candidates[candidate], false);
        // a frame that is still running when the next one comes makes that one drop
        let ns = self
            .period_ns
            .map_or(latency, |period| latency.max(period as f64));
        (ns / 1e9).max(1e-9)
    }

    /// Watts that a candidate spends at a place, at the full rate.
    fn watts(&self, candidate: usize, place: Place) -> f64 {
        let joules = match place {
            Place::Package | Place::Skin => self.joules(candidate),
            Place::Device(device) => {
                let found = &self.portfolio.candidates[candidate];
                let load = found.loads.iter().find(|load| load.device == device);
                load.map_or(0.0, |load| match load.energy_uj {
                    Some(uj) => uj as f64 / 1e6 * self.learnt[candidate].energy,
                    None => load.busy_ns as f64 / 1e9,
                })
            }
        };
        joules / self.cycle_s(candidate)
    }

    /// Time of a run with today's devices, without what was learnt of the candidate itself.
    fn slowed_ns(&self, candidate: &Candidate, hope: bool) -> f64 {
        let busy: f64 = candidate.loads.iter().map(|load| load.busy_ns as f64).sum();
        let latency = candidate.latency_ns as f64;
        // of a plan whose devices work at once, not every second counts
        let share = if busy > latency { latency / busy } else { 1.0 };
        let more = candidate.loads.iter().map(|load| {
            let slow = self.devices[load.device].slowness(self.now_ns, hope);
            load.busy_ns as f64 * (slow - 1.0) * share
        });
        latency + more.sum::<f64>()
    }

    /// Time that a run should have taken, given how long its devices were busy by their fences.
    fn explained_ns(&self, candidate: &Candidate, run: &FinishedRun) -> f64 {
        let busy = |load: &super::portfolio::Load| run.loads.iter().find(|seen| seen.device == load.device);
        if !candidate.loads.iter().all(|load| busy(load).is_some()) {
            return self.slowed_ns(candidate, false);
        }
        let predicted: f64 = candidate.loads.iter().map(|load| load.busy_ns as f64).sum();
        let seen = candidate.loads.iter().filter_map(busy);
        let seen: f64 = seen.map(|load| load.busy_ns as f64).sum();
        let latency = candidate.latency_ns as f64;
        let share = if predicted > latency {
            latency / predicted
        } else {
            1.0
        };
        latency + (seen - predicted) * share
    }

    fn latency_ns(&self, index: usize, candidate: &Candidate, hope: bool) -> f64 {
        self.slowed_ns(candidate, hope) * self.learnt[index].time
    }

    fn aim(&self) -> Aim {
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
    fn outlook(&self, index: usize, hope: bool) -> Outlook {
        let candidate = &self.portfolio.candidates[index];
        let latency_ns = self.latency_ns(index, candidate, hope);
        // what runs is given half the margin, so that it is not left for a breath
        let margin = f64::from(self.settings.margin_permille) / 1e3;
        let margin = if index == self.current {
            margin / 2.0
        } else {
            margin
        };
        let in_time = self
            .deadline_ns
            .is_none_or(|deadline| latency_ns * (1.0 + margin) <= deadline as f64);
        let (mut bearable, mut bound) = (f64::INFINITY, None);
        let pace_now = f64::from(self.pace_permille) / 1e3;
        let places = (0..self.portfolio.devices.len()).map(Place::Device);
        for place in places.chain([Place::Package, Place::Skin]) {
            let (Some(limit), Some(heat)) = (self.limits.temperature(place), self.heat(place)) else {
                continue;
            };
            let watts = self.watts(index, place);
            if watts <= 0.0 {
                continue;
            }
            let horizon = self.horizon_s(place);
            let guard = match place {
                Place::Device(_) => self.settings.device_guard_mc,
                Place::Package | Place::Skin => self.settings.guard_mc,
            };
            let limit = limit.saturating_sub(guard) as f64 / 1e3;
            let now = self.watts(self.current, place) * pace_now;
            if let Some(most) = heat.bearable(self.now_ns, now, limit, horizon)
                && most / watts < bearable
            {
                bearable = most / watts;
                bound = Some(Bound::Heat(place));
            }
        }
        if let Some(limit) = self.limits.power_mw {
            let milliwatts = self.milliwatts(index).max(1e-3);
            if limit as f64 / milliwatts < bearable {
                bearable = limit as f64 / milliwatts;
                bound = Some(Bound::Power);
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
            latency_ns,
            energy_uj: candidate
                .energy_uj
                .map(|uj| uj as f64 * self.learnt[index].energy),
            in_time,
            bearable,
            worth,
            bound,
        }
    }

    /// How far ahead a place is foreseen.
    fn horizon_s(&self, place: Place) -> f64 {
        let horizon = self.settings.horizon_ns as f64 / 1e9;
        match place {
            Place::Device(_) => horizon.min(DEVICE_HORIZON_S),
            Place::Package | Place::Skin => horizon,
        }
    }

    /// Power of a candidate at the full rate, as read or else as predicted.
    fn milliwatts(&self, candidate: usize) -> f64 {
        let predicted = self.watts(candidate, Place::Skin) * 1e3;
        self.learnt[candidate]
            .seen_mw
            .map_or(predicted, |seen| seen.max(predicted))
    }

    /// Whether a candidate's devices may be used: present, and not just back from a loss.
    fn is_open(&self, candidate: usize) -> bool {
        let loads = &self.portfolio.candidates[candidate].loads;
        let mut devices = loads.iter().map(|load| &self.devices[load.device]);
        devices.all(|device| !device.lost && self.now_ns >= device.quarantined_until_ns)
    }

    /// The best candidate that is usable, and what is expected of it. The one that runs is preferred by the
    /// hysteresis, where there is one.
    fn best(&self, running: Option<usize>) -> Option<(usize, Outlook)> {
        let all = || 0..self.portfolio.candidates.len();
        let open: Vec<usize> = all().filter(|&index| self.is_open(index)).collect();
        let usable = match open.is_empty() {
            false => open,
            true => all().filter(|&index| self.is_usable(index)).collect(),
        };
        let expect = |hope: bool| -> Vec<(usize, Outlook)> {
            let one = |&index: &usize| (index, self.outlook(index, hope));
            usable.iter().map(one).collect()
        };
        let mut outlooks = expect(false);
        if !outlooks.iter().any(|(_, outlook)| outlook.in_time) {
            // what is avoided for a suspicion alone may be better than what is surely late
            outlooks = expect(true);
        }
        let most = outlooks
            .iter()
            .map(|(_, outlook)| outlook.worth)
            .fold(0.0, f64::max);
        let slack = 1.0 - f64::from(self.settings.hysteresis_permille) / 1e3;
        let key = |index: usize, outlook: &Outlook| {
            let key = match (self.aim(), outlook.energy_uj) {
                (Aim::Frugal, Some(energy)) => energy,
                _ => outlook.latency_ns,
            };
            if Some(index) == running { key * slack } else { key }
        };
        let mut best: Option<(usize, Outlook, f64)> = None;
        for (index, outlook) in outlooks {
            // as many frames in time as any, or nearly
            let near = if Some(index) == running {
                slack * slack
            } else {
                slack
            };
            if outlook.worth < most * near {
                continue;
            }
            let key = key(index, &outlook);
            if best.as_ref().is_none_or(|(_, _, least)| key < *least) {
                best = Some((index, outlook, key));
            }
        }
        best.map(|(index, outlook, _)| (index, outlook))
    }

    /// Compares the candidates and acts.
    fn look(&mut self, urgent: bool) -> Decision {
        self.looked_ns = Some(self.now_ns);
        let running = self.outlook(self.current, false);
        let Some((best, outlook)) = self.best(Some(self.current)) else {
            return self.stay(Reason::NoCandidate);
        };
        if best == self.current {
            return self.repace(&outlook);
        }
        let since = self
            .switched_ns
            .map_or(u64::MAX, |switched| self.now_ns.saturating_sub(switched));
        // from late to less late is worth a switch only where it is much less
        if !running.in_time && !outlook.in_time && running.worth >= MUCH_LESS * outlook.worth {
            return self.repace(&running);
        }
        // lateness and heat do not wait
        let saves = outlook.in_time && (urgent || !running.in_time);
        let pressing = saves || running.bearable < 500.0;
        let recent = self
            .switches
            .iter()
            .filter(|&&at| self.now_ns.saturating_sub(at) < MINUTE_NS)
            .count();
        if (!pressing && since < self.settings.dwell_ns)
            || recent >= self.settings.switches_per_minute as usize
        {
            let decision = self.repace(&running);
            return match decision.reason {
                Reason::Steady => self.stay(Reason::Waiting { candidate: best }),
                _ => decision,
            };
        }
        let reason = self.because(&running, &outlook);
        self.current = best;
        self.switched_ns = Some(self.now_ns);
        self.off_since_ns = None;
        self.switches.push_back(self.now_ns);
        while self.switches.len() > self.settings.switches_per_minute as usize {
            self.switches.pop_front();
        }
        self.set_pace(&outlook, true);
        self.decision(Action::Switch(best), reason)
    }

    /// Why one candidate is left for another.
    fn because(&self, from: &Outlook, to: &Outlook) -> Reason {
        let whole = |value: f64| value.round() as u64;
        if let Some(deadline_ns) = self.deadline_ns.filter(|_| !from.in_time) {
            return Reason::Late {
                latency_ns: whole(from.latency_ns),
                than_ns: whole(to.latency_ns),
                deadline_ns,
            };
        }
        if to.worth > from.worth && from.bearable < 1000.0 {
            match from.bound {
                Some(Bound::Heat(place)) => return self.hot(place),
                Some(Bound::Power) => {
                    return Reason::Power {
                        power_mw: whole(self.milliwatts(self.current)),
                        limit_mw: self.limits.power_mw.unwrap_or(0),
                    };
                }
                None => {}
            }
            return Reason::Sustains {
                permille: to.worth.round() as u32,
                than_permille: from.worth.round() as u32,
            };
        }
        match (self.aim(), to.energy_uj, from.energy_uj) {
            (Aim::Frugal, Some(energy), Some(than)) => Reason::Frugal {
                energy_uj: whole(energy),
                than_uj: whole(than),
            },
            _ => Reason::Faster {
                latency_ns: whole(to.latency_ns),
                than_ns: whole(from.latency_ns),
            },
        }
    }

    fn hot(&self, place: Place) -> Reason {
        let millidegrees = |degrees: Option<f64>| degrees.map_or(0, |degrees| (degrees * 1e3).round() as i64);
        let watts = self.watts(self.current, place);
        let now = watts * f64::from(self.pace_permille) / 1e3;
        let horizon = self.horizon_s(place);
        let heat = self.heat(place);
        Reason::Hot {
            place,
            temperature_mc: millidegrees(heat.and_then(|heat| heat.degrees(self.now_ns, now))),
            predicted_mc: millidegrees(heat.and_then(|heat| heat.after(self.now_ns, now, watts, horizon))),
            limit_mc: self.limits.temperature(place).unwrap_or(i64::MAX),
        }
    }

    /// Takes the pace that limits allow.
    fn set_pace(&mut self, outlook: &Outlook, at_once: bool) -> bool {
        let allowed = match self.period_ns {
            None => 1000,
            Some(_) => (outlook.bearable as u32 / PACE_STEP * PACE_STEP).clamp(PACE_STEP, 1000),
        };
        let before = self.pace_permille;
        self.pace_permille = match allowed > before && !at_once {
            true => allowed.min(before + PACE_RISE),
            false => allowed,
        };
        let changed = self.pace_permille != before;
        if changed {
            self.paced_ns = Some(self.now_ns);
        }
        changed
    }

    /// Keeps the plan, and sets its pace.
    fn repace(&mut self, outlook: &Outlook) -> Decision {
        let from_permille = self.pace_permille;
        let reason = match self.set_pace(outlook, false) {
            true => Reason::Pace { from_permille },
            false => Reason::Steady,
        };
        self.stay(reason)
    }
}
