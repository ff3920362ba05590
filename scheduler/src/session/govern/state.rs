//! The state of a governed session: ready plans, the governor with its log, the sensors, and its
//! report.
//!
//! Invariants:
//! 1. The state is not locked while a plan is compiled or a device is reset: the thread that makes
//!    plans holds `making` instead.
//! 2. The list of changes is bounded.
//!
//! Not here: observations and their effects (`govern`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_governor::{self as governor, Governor, PolicyLimits, Portfolio, SensorLocation};
use polychip_host::Device;
use polychip_partitioner::{Heat, MilliCelsius, Milliwatts};

use super::points::{self, Offered, longest};
use super::ready::{Ready, load};
use super::report::{CandidateReport, ChangeReport, GovernedReport, ReadyPlan};
use super::wakeup::Wake;
use crate::decisions::DecisionLog;
use crate::error::Result;
use crate::policy::{Governed, Policy};
use crate::session::loaded::LoadedPlan;
use crate::session::portfolio;
use crate::shared::Shared;
use crate::telemetry::sampler::Sampler;

/// Changes of plan that the report lists.
const LISTED: usize = 32;

/// Plans, governor and sensors of one session.
pub(crate) struct Governing {
    pub(super) policy: Policy,
    pub(super) devices: Vec<Device>,
    /// By device.
    pub(super) offered: Vec<Offered>,
    pub(super) state: Mutex<State>,
    /// Held while plans are made, which takes long: the state is not locked meanwhile.
    pub(super) making: Mutex<()>,
    pub(super) sampler: Mutex<Sampler>,
    pub(super) pace: AtomicU32,
    pub(super) frames: AtomicU64,
    /// Wakes the thread that governs.
    pub(crate) wake: Arc<Wake>,
}

/// What changes while a session is governed.
pub(super) struct State {
    pub(super) ready: Vec<Ready>,
    pub(super) governor: Governor,
    pub(super) log: DecisionLog,
    pub(super) points: points::Setting,
    pub(super) lost: Vec<Lost>,
    /// Period and deadline of frames, and limits, as last set.
    pub(super) frames: (Option<u64>, Option<u64>),
    pub(super) saver: bool,
    /// Of the way to severe slowing down, as the app said it last.
    pub(super) headroom_permille: Option<u32>,
    /// Charge in thousandths and whether it is charged, as the app said it last.
    pub(super) battery: Option<(u32, bool)>,
    /// By device, when our runs used it last, as far as samples tell.
    pub(super) used_ns: Vec<Option<u64>>,
    /// By place and of power: how the limits were kept.
    pub(super) missed: Vec<Missed>,
    pub(super) switches: u64,
    pub(super) changes: Vec<ChangeReport>,
}

/// How a limit was kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missed {
    /// Where; none for the power of the devices together.
    pub(super) place: Option<SensorLocation>,
    /// In thousandths of a degree Celsius, or milliwatts, as the others.
    pub(super) limit: i64,
    pub(super) worst: i64,
    /// Samples above the limit, of all that said something.
    pub(super) over: u64,
    pub(super) samples: u64,
}

/// What is known of a device's loss.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lost {
    pub(super) is_lost: bool,
    pub(super) wait_ns: u64,
    pub(super) next_try_ns: u64,
}

impl Governing {
    /// Makes the portfolio around a plan that is loaded.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        first: &Arc<LoadedPlan>,
        policy: &Policy,
        governed: &Governed,
        number: &mut dyn FnMut() -> u64,
    ) -> Result<Governing> {
        let variants = portfolio::variants(shared, &first.planned, policy);
        let (mut ready, mut candidates) =
            load(shared, first.session, variants, Some(Arc::clone(first)), number);
        let devices = first.planned.devices().to_vec();
        let offered = points::offered(&devices);
        let frames = (governed.frame_period.map(ns), policy.frame_deadline().map(ns));
        points::add(&mut ready, &mut candidates, &offered, longest(frames));
        let portfolio = Portfolio {
            devices: devices.iter().map(|device| device.name().to_owned()).collect(),
            candidates,
        };
        let limits = PolicyLimits {
            device_mc: vec![policy.temperature_limit().map(MilliCelsius::millidegrees); devices.len()],
            power_mw: governed.max_power.map(Milliwatts::milliwatts),
            skin_mc: governed.max_surface.map(MilliCelsius::millidegrees),
            ..PolicyLimits::default()
        };
        let governor = Governor::new(portfolio, limits, governed.settings.clone())?;
        let clock = shared.host.clock().clone();
        let sensors = shared.sensors();
        let governing = Governing {
            policy: policy.clone(),
            state: Mutex::new(State {
                ready,
                log: DecisionLog::new(&governor),
                governor,
                lost: vec![Lost::default(); devices.len()],
                frames,
                points: points::Setting::new(&devices),
                saver: governed.battery_saver,
                headroom_permille: None,
                battery: None,
                used_ns: vec![None; devices.len()],
                missed: Vec::new(),
                switches: 0,
                changes: Vec::new(),
            }),
            making: Mutex::new(()),
            sampler: Mutex::new(Sampler::of(devices.clone(), clock, sensors)),
            devices,
            offered,
            pace: AtomicU32::new(1000),
            frames: AtomicU64::new(0),
            wake: Arc::new(Wake::default()),
        };
        Ok(governing)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Taken before the state, never while it is locked.
    pub(super) fn making(&self) -> MutexGuard<'_, ()> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How devices warm, as far as that was learnt, of those that state their energy.
    pub(crate) fn heats(&self) -> Vec<(String, Heat)> {
        let state = self.lock();
        let devices = self.devices.iter().enumerate();
        let heats = devices.filter_map(|(index, device)| {
            let candidates = &state.governor.portfolio().candidates;
            let loads = candidates.iter().flat_map(|candidate| &candidate.loads);
            // without the energy of every load the fit uses busy seconds
            let mut own = loads.filter(|load| load.device == index);
            if own.any(|load| load.energy_uj.is_none()) {
                return None;
            }
            let [rest, rise] = state.governor.settles(SensorLocation::Device(index))?;
            let heat = Heat {
                rest: MilliCelsius::from_celsius(rest),
                // `as` saturates: the fit keeps the rise above zero
                resistance_mk_per_w: (rise * 1000.0).round() as u64,
            };
            Some((device.name().to_owned(), heat))
        });
        heats.collect()
    }

    pub(crate) fn report(&self) -> GovernedReport {
        let state = self.lock();
        let candidates = state.ready.iter().enumerate().map(|(index, ready)| {
            let planned = &ready.plan.planned;
            let found = &state.governor.portfolio().candidates[index];
            let used = planned.used_devices();
            let slots = u64::try_from(self.policy.runs_in_flight()).unwrap_or(u64::MAX);
            let footprint = ready.plan.footprint;
            CandidateReport {
                name: ready.name.clone(),
                devices: used
                    .iter()
                    .map(|&device| self.devices[device.index()].name().to_owned())
                    .collect(),
                predicted_ns: found.latency_ns,
                predicted_uj: found.energy_uj,
                bytes: slots.saturating_mul(footprint.arena_bytes.saturating_add(footprint.output_bytes)),
                usable: state.governor.is_usable(index),
            }
        });
        GovernedReport {
            plan: state.ready[state.governor.plan()].name.clone(),
            switches: state.switches,
            pace_permille: self.pace.load(Ordering::Acquire),
            candidates: candidates.collect(),
            changes: state.changes.clone(),
        }
    }

    pub(crate) fn ready_plans(&self) -> Vec<ReadyPlan> {
        let state = self.lock();
        let candidates = &state.governor.portfolio().candidates;
        let plans = state.ready.iter().zip(candidates);
        plans
            .map(|(ready, candidate)| ReadyPlan {
                name: ready.name.clone(),
                planned: Arc::clone(&ready.plan.planned),
                predicted_ns: candidate.latency_ns,
                predicted_uj: candidate.energy_uj,
                khz: candidate
                    .points
                    .iter()
                    .map(|point| (self.devices[point.device].name().to_owned(), point.khz))
                    .collect(),
            })
            .collect()
    }

    pub(crate) fn log(&self) -> DecisionLog {
        self.lock().log.clone()
    }

    fn pace_permille(&self) -> u32 {
        self.pace.load(Ordering::Acquire)
    }

    pub(crate) fn takes_frame(&self) -> bool {
        let frame = self.frames.fetch_add(1, Ordering::AcqRel);
        governor::takes(frame, self.pace_permille())
    }
}

/// Adds a change to the list.
pub(super) fn note(state: &mut State, time_ns: u64, plan: String, pace_permille: u32, words: String) {
    if state.changes.len() == LISTED {
        state.changes.remove(0);
    }
    state.changes.push(ChangeReport {
        time_ns,
        plan,
        pace_permille,
        words,
    });
}

pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
