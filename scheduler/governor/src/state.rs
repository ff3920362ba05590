//! The state machine: what is known of devices and candidates, and how observations change it.
//!
//! Invariants: `current` is a candidate of the portfolio, and needs no lost device if another
//! candidate needs none.
//!
//! Not here: the outlook of a candidate (`outlook`), the choice among them (`choice`).

mod choice;
mod outlook;

use std::collections::VecDeque;

use crate::decision::{Action, Decision, Reason};
use crate::error::Result;
use crate::learn::{Device, Learnt};
use crate::observation::{FinishedRun, Input, Observation, PolicyLimits, Reading, SensorLocation};
use crate::portfolio::{Candidate, Portfolio};
use crate::settings::Settings;
use crate::thermal::{self, ThermalModel};

/// Paces are multiples of this, in thousandths.
const PACE_STEP: u32 = 25;

/// Chooses among the candidates of a portfolio. See the [module](super).
#[derive(Debug, Clone)]
pub struct Governor {
    portfolio: Portfolio,
    limits: PolicyLimits,
    settings: Settings,
    now_ns: u64,
    current: usize,
    pace_permille: u32,
    devices: Vec<Device>,
    learnt: Vec<Learnt>,
    device_heat: Vec<ThermalModel>,
    package_heat: ThermalModel,
    skin_heat: ThermalModel,
    /// Power of each device as read last.
    power_mw: Vec<Option<(u64, u64)>>,
    charge_permille: Option<u32>,
    charging: bool,
    foreground: bool,
    period_ns: Option<u64>,
    deadline_ns: Option<u64>,
    looked_ns: Option<u64>,
    switched_ns: Option<u64>,
    /// The plan was switched to, and has not run since.
    is_first: bool,
    /// When the pace changed last.
    paced_ns: Option<u64>,
    /// Times of the last switches that nothing forced.
    switches: VecDeque<u64>,
    /// Since when runs are off their prediction.
    off_since_ns: Option<u64>,
    asked_ns: Option<u64>,
}

impl Governor {
    /// A governor that starts on the portfolio's first candidate.
    ///
    /// # Errors
    /// The portfolio does not pass [`Portfolio::check`].
    pub fn new(portfolio: Portfolio, limits: PolicyLimits, settings: Settings) -> Result<Self> {
        portfolio.check()?;
        let count = portfolio.devices.len();
        Ok(Self {
            devices: vec![Device::default(); count],
            learnt: vec![Learnt::default(); portfolio.candidates.len()],
            device_heat: vec![ThermalModel::new(thermal::DEVICE); count],
            package_heat: ThermalModel::new(thermal::PACKAGE),
            skin_heat: ThermalModel::new(thermal::SKIN),
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
            is_first: false,
            paced_ns: None,
            switches: VecDeque::new(),
            off_since_ns: None,
            asked_ns: None,
        })
    }

    /// The current candidate. It is usable ([`is_usable`](Self::is_usable)) if any candidate is.
    #[must_use]
    pub fn plan(&self) -> usize {
        self.current
    }

    /// The pace of the last decision, in thousandths.
    #[must_use]
    pub fn pace_permille(&self) -> u32 {
        self.pace_permille
    }

    /// Whether none of the candidate's devices is lost.
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
    pub fn limits(&self) -> &PolicyLimits {
        &self.limits
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The currently predicted run time of a candidate, including learnt slowness of its devices.
    #[must_use]
    pub fn predicted_ns(&self, candidate: usize) -> Option<u64> {
        let found = self.portfolio.candidates.get(candidate)?;
        Some(self.latency_ns(candidate, found, false).round() as u64)
    }

    /// The fitted coefficients `[c, b, a]` of the thermal model `dT/dt = c − a T + b P` of a sensor
    /// location: `c` in K/s, `b` in K/J, `a` in 1/s, with `P` the power of this session's runs.
    #[must_use]
    pub fn coefficients(&self, place: SensorLocation) -> Option<[f64; 3]> {
        self.heat(place).map(ThermalModel::coefficients)
    }

    /// The steady state of a sensor location: its temperature without this session's runs (°C), and
    /// the rise per watt of the runs (K/W). `None` before enough readings.
    #[must_use]
    pub fn settles(&self, place: SensorLocation) -> Option<[f64; 2]> {
        self.heat(place)?.settles()
    }

    /// Processes an observation and decides.
    pub fn step(&mut self, observation: &Observation) -> Decision {
        self.now_ns = self.now_ns.max(observation.time_ns);
        let known = |device: usize| device < self.portfolio.devices.len();
        self.learnt.iter_mut().for_each(|learnt| learnt.pass(self.now_ns));
        let mut urgent = false;
        match &observation.input {
            Input::Reading(reading) => {
                if let SensorLocation::Device(device) = reading.place
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
                SensorLocation::Device(device) => &mut self.device_heat[device],
                SensorLocation::Package => &mut self.package_heat,
                SensorLocation::Skin => &mut self.skin_heat,
            };
            heat.read(now_ns, millidegrees as f64 / 1e3, watts);
        }
        let SensorLocation::Device(device) = reading.place else {
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

    /// Learns from a run. Returns whether the plan is late by this run.
    fn ran(&mut self, run: &FinishedRun) -> bool {
        let candidate = &self.portfolio.candidates[run.candidate];
        let late = run.late || self.deadline_ns.is_some_and(|deadline| run.latency_ns > deadline);
        // the first run after a switch finds its plan cold
        let is_cold = self.is_first && run.candidate == self.current;
        for load in &candidate.loads {
            let seen = run.loads.iter().find(|seen| seen.device == load.device);
            if let Some(seen) = seen.filter(|_| load.busy_ns > 0) {
                let slow = seen.busy_ns as f64 / load.busy_ns as f64;
                let asked = candidate.khz(load.device);
                let device = &mut self.devices[load.device];
                // what it is slow by in each run of the candidate, for long, is a wrong prediction, not a busy device
                let unexplained = slow / device.by_sensors(self.now_ns, asked);
                let learnt = &mut self.learnt[run.candidate];
                let always = learnt.took(self.now_ns, load.device, unexplained, is_cold);
                device.measure(self.now_ns, slow / always, asked, late, self.settings.retry_ns);
            }
            let joules = seen.and_then(|seen| seen.energy_uj).or(load.energy_uj);
            let joules = joules.filter(|_| self.is_in_joules(SensorLocation::Device(load.device)));
            let spent = joules.map_or(load.busy_ns as f64 / 1e9, |uj| uj as f64 / 1e6);
            self.device_heat[load.device].spend(spent * run.runs as f64);
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
        // the first run after a switch finds its plan cold
        let is_first = self.is_first && run.candidate == self.current;
        self.is_first &= !is_first;
        let learnt = &mut self.learnt[run.candidate];
        if !is_first {
            learnt.run(self.now_ns, run.latency_ns as f64 / modelled, late);
        }
        if let Some(spent) = spent {
            learnt.spent(spent);
        }
        let spent = self.spent(run.candidate) * run.runs as f64;
        self.package_heat.spend(spent);
        self.skin_heat.spend(spent);
        late && run.candidate == self.current
    }

    /// Whether runs have been off for so long that the portfolio does not fit: those of the plan that runs, or of one that
    /// was left because it always takes longer than predicted.
    fn asks_for_replan(&mut self, candidate: usize) -> Option<Decision> {
        if candidate != self.current {
            self.off_since_ns = None;
            return None;
        }
        let now_ns = self.now_ns;
        let long = |since: u64, patience: u64| now_ns.saturating_sub(since) >= patience;
        let patience = self.settings.replan_after_ns;
        let is_off = |learnt: &Learnt| learnt.time * 1e3 > f64::from(self.settings.off_permille);
        if is_off(&self.learnt[candidate]) {
            _ = self.off_since_ns.get_or_insert(now_ns)
        } else {
            self.off_since_ns = None
        }
        let own = self
            .off_since_ns
            .filter(|&since| long(since, patience))
            .map(|_| candidate);
        let others = self
            .learnt
            .iter()
            .enumerate()
            .filter(|(index, _)| self.is_usable(*index));
        let mut left = others.filter(|(_, learnt)| {
            let since = learnt.wrong_since_ns();
            since.is_some_and(|since| long(since, patience)) && is_off(learnt)
        });
        let candidate = own.or_else(|| left.next().map(|(index, _)| index))?;
        if self.asked_ns.is_some_and(|asked| !long(asked, patience)) {
            return None;
        }
        self.asked_ns = Some(self.now_ns);
        let off = self.learnt[candidate].time * 1e3;
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
        self.is_first = true;
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
        let places = (0..self.device_heat.len()).map(SensorLocation::Device);
        let places: Vec<SensorLocation> = places
            .chain([SensorLocation::Package, SensorLocation::Skin])
            .collect();
        let before: Vec<bool> = places.iter().map(|&place| self.is_in_joules(place)).collect();
        self.learnt = vec![Learnt::default(); candidates.len()];
        self.portfolio = portfolio;
        // what was fitted in another unit says nothing of this one
        for (place, before) in places.into_iter().zip(before) {
            if self.is_in_joules(place) != before {
                match place {
                    SensorLocation::Device(device) => {
                        self.device_heat[device] = ThermalModel::new(thermal::DEVICE)
                    }
                    SensorLocation::Package => self.package_heat = ThermalModel::new(thermal::PACKAGE),
                    SensorLocation::Skin => self.skin_heat = ThermalModel::new(thermal::SKIN),
                }
            }
        }
        self.off_since_ns = None;
        self.switched_ns = Some(self.now_ns);
        self.is_first = true;
        self.current = if self.is_usable(0) {
            0
        } else {
            self.best(None).map_or(0, |(best, _)| best)
        };
        if self.is_usable(self.current) {
            self.decision(Action::Switch(self.current), Reason::Replanned)
        } else {
            self.decision(Action::Replan, Reason::NoCandidate)
        }
    }
}
