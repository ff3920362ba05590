//! A governed session: plans kept ready, a thread that reads the sensors, and the governor that chooses among them.
//!
//! Invariants:
//! 1. A plan changes between runs; a run that has begun ends on its plan.
//! 2. Nothing here is on the path of a run: `submit` sees a plan that was put in its place, and neither waits for a
//!    sensor nor for the governor.
//! 3. Each event that the governor is told stands in the log with its decision, so that the log replays.
//! 4. The state is not locked while a plan is compiled or a device is reset.
//! 5. On virtual time there is no thread: who moves the clock calls [`Session::govern`].
//!
//! Not here: the choice itself (`governor`), which plans there are (`portfolio`), the sensors (`telemetry`).

mod mend;
mod ready;
mod report;
mod watch;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_governor::{
    self as governor, Action, FinishedRun, Governor, Input, Limits, Load, Place, Portfolio, Reading,
};
use polychip_host::Device;
use polychip_partitioner::{Heat, MilliCelsius, Milliwatts};

use crate::decisions::{self, DecisionLog};
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::policy::{Governed, Policy};
use crate::runtime::Shared;
use crate::session::loaded::LoadedPlan;
use crate::session::{Inner, Session, portfolio};
use crate::telemetry::{Rules, Sample, Sampler, Sensors};
use mend::Lost;
use ready::{Ready, load};
use report::note;
pub use report::{CandidateReport, ChangeReport, GovernedReport};
pub(crate) use watch::Watch;

/// What an app tells a governed session while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// A person waits for the runs, or nobody does.
    Foreground(bool),
    /// Energy counts above all, as with a low battery.
    BatterySaver(bool),
    /// Time between two runs; none: as often as they are submitted.
    FramePeriod(Option<Duration>),
    /// Longest time of a run that is in time.
    Deadline(Option<Duration>),
    /// Highest power of the devices together.
    MaxPower(Option<Milliwatts>),
    /// Highest temperature of each device.
    MaxTemperature(Option<MilliCelsius>),
}

/// Plans, governor and sensors of one session.
pub(crate) struct Governing {
    policy: Policy,
    devices: Vec<Device>,
    state: Mutex<State>,
    /// Held by who makes plans, which takes long: the state is not locked meanwhile.
    making: Mutex<()>,
    sampler: Mutex<Sampler>,
    pace: AtomicU32,
    frames: AtomicU64,
}

struct State {
    ready: Vec<Ready>,
    governor: Governor,
    log: DecisionLog,
    lost: Vec<Lost>,
    /// Period and deadline of frames, and limits, as told last.
    frames: (Option<u64>, Option<u64>),
    saver: bool,
    switches: u64,
    changes: Vec<ChangeReport>,
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
        let (ready, candidates) = load(shared, variants, Some(Arc::clone(first)), number);
        let devices = first.planned.devices().to_vec();
        let portfolio = Portfolio {
            devices: devices.iter().map(|device| device.name().to_owned()).collect(),
            candidates,
        };
        let limits = Limits {
            device_mc: vec![policy.hottest().map(MilliCelsius::millidegrees); devices.len()],
            power_mw: governed.max_power.map(Milliwatts::milliwatts),
            ..Limits::default()
        };
        let governor = Governor::new(portfolio, limits, governed.settings.clone())?;
        let clock = shared.host.clock().clone();
        let sensors = Sensors::of_this_machine(&Rules::default());
        let governing = Governing {
            policy: policy.clone(),
            state: Mutex::new(State {
                ready,
                log: DecisionLog::new(&governor),
                governor,
                lost: vec![Lost::default(); devices.len()],
                frames: (governed.frame_period.map(ns), policy.frame_deadline().map(ns)),
                saver: governed.battery_saver,
                switches: 0,
                changes: Vec::new(),
            }),
            making: Mutex::new(()),
            sampler: Mutex::new(Sampler::of(devices.clone(), clock, sensors)),
            devices,
            pace: AtomicU32::new(1000),
            frames: AtomicU64::new(0),
        };
        Ok(governing)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Taken before the state, never while it is locked.
    fn making(&self) -> MutexGuard<'_, ()> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the governor what the policy says beside limits.
    pub(crate) fn begin(&self, inner: &Inner, governed: &Governed) {
        let mut state = self.lock();
        let now = inner.now_ns();
        let (period_ns, deadline_ns) = state.frames;
        if period_ns.is_some() || deadline_ns.is_some() {
            self.tell(
                inner,
                &mut state,
                now,
                Input::Frames {
                    period_ns,
                    deadline_ns,
                },
            );
        }
        if governed.background {
            self.tell(inner, &mut state, now, Input::Foreground(false));
        }
        if state.saver {
            self.tell(inner, &mut state, now, SAVER);
        }
    }

    /// Tells the governor something, and does what it decides.
    fn tell(&self, inner: &Inner, state: &mut State, time_ns: u64, input: Input) -> bool {
        let event = governor::Event { time_ns, input };
        let decision = state.governor.step(&event);
        let before = self.pace.swap(decision.pace_permille, Ordering::AcqRel);
        state.log.add(event, decision);
        let words = || decisions::words(&decision.reason, state.governor.portfolio(), &self.devices);
        let mut replan = false;
        match decision.action {
            Action::Switch(candidate) => {
                let words = words();
                if let Some(ready) = state.ready.get(candidate) {
                    inner.put_in_place(&ready.plan, &ready.policy);
                    inner.tell(Event::new(EventKind::Switched, &ready.name, 0, words.clone()));
                    state.switches += 1;
                    let name = ready.name.clone();
                    note(state, time_ns, name, decision.pace_permille, words);
                }
            }
            Action::Stay if before != decision.pace_permille => {
                let words = words();
                let name = state
                    .ready
                    .get(state.governor.plan())
                    .map(|ready| ready.name.clone());
                note(
                    state,
                    time_ns,
                    name.unwrap_or_default(),
                    decision.pace_permille,
                    words,
                );
            }
            Action::Stay => {}
            Action::Replan => replan = true,
        }
        replan
    }

    /// How devices warm, as far as that was learnt, of those that state their energy.
    pub(crate) fn heats(&self) -> Vec<(String, Heat)> {
        let state = self.lock();
        let devices = self.devices.iter().enumerate();
        let heats = devices.filter_map(|(index, device)| {
            let candidates = &state.governor.portfolio().candidates;
            let loads = candidates.iter().flat_map(|candidate| &candidate.loads);
            // where nobody says joules the fit is one of busy seconds
            let mut own = loads.filter(|load| load.device == index);
            if own.any(|load| load.energy_uj.is_none()) {
                return None;
            }
            let [rest, rise] = state.governor.settles(Place::Device(index))?;
            let heat = Heat {
                rest: MilliCelsius::from_celsius(rest),
                // `as` saturates: the fit keeps the rise above zero
                resistance_mk_per_w: (rise * 1000.0).round() as u64,
            };
            Some((device.name().to_owned(), heat))
        });
        heats.collect()
    }

    /// Reads the sensors once, tells the governor, does what it decides, and mends what was lost.
    pub(crate) fn step(&self, inner: &Inner) -> Sample {
        let sample = self
            .sampler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sample();
        let now = sample.time_ns;
        self.notice_losses(inner, &mut self.lock(), now);
        self.mend(inner, now);
        let mut replan = false;
        {
            let mut state = self.lock();
            for input in self.inputs(&mut state, &sample) {
                replan |= self.tell(inner, &mut state, now, input);
            }
        }
        if replan {
            self.replan(inner);
        }
        sample
    }

    /// What the sample and the runs since the last one say.
    fn inputs(&self, state: &mut State, sample: &Sample) -> Vec<Input> {
        let mut inputs = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            let Some(said) = sample.devices.iter().find(|said| said.device == device.name()) else {
                continue;
            };
            let reading = Reading {
                temperature_mc: said.temperature_mc.value,
                power_mw: said.power_mw.value.and_then(|mw| u64::try_from(mw).ok()),
                throttled: said.throttle.value.map(|bits| bits != 0),
                ..Reading::of(Place::Device(index))
            };
            if reading != Reading::of(Place::Device(index)) {
                inputs.push(Input::Reading(reading));
            }
        }
        if let Some(battery) = &sample.battery
            && !state.saver
        {
            let charge = battery.capacity_permille.value;
            inputs.push(Input::Battery {
                charge_permille: charge.and_then(|charge| u32::try_from(charge).ok()),
                charging: battery.charging.unwrap_or(false),
            });
        }
        for (index, ready) in state.ready.iter().enumerate() {
            let tally = {
                let mut history = ready.plan.history.lock().unwrap_or_else(PoisonError::into_inner);
                history.take_tally()
            };
            if tally.runs == 0 {
                continue;
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
            inputs.push(Input::Run(FinishedRun {
                candidate: index,
                runs: tally.runs,
                latency_ns: tally.latency_ns / tally.runs,
                energy_uj: energies.filter(|all| !all.is_empty()).map(|all| all.iter().sum()),
                late: false,
                loads,
            }));
        }
        if inputs.is_empty() {
            inputs.push(Input::Tick);
        }
        inputs
    }

    pub(crate) fn hint(&self, inner: &Inner, hint: Hint) {
        let mut state = self.lock();
        let now = inner.now_ns();
        let mut limits = state.governor.limits().clone();
        let input = match hint {
            Hint::Foreground(is_shown) => Input::Foreground(is_shown),
            Hint::BatterySaver(saves) => {
                state.saver = saves;
                match saves {
                    true => SAVER,
                    // until the battery itself is read
                    false => Input::Battery {
                        charge_permille: None,
                        charging: true,
                    },
                }
            }
            Hint::FramePeriod(period) => {
                state.frames.0 = period.map(ns);
                let (period_ns, deadline_ns) = state.frames;
                Input::Frames {
                    period_ns,
                    deadline_ns,
                }
            }
            Hint::Deadline(deadline) => {
                state.frames.1 = deadline.map(ns);
                let (period_ns, deadline_ns) = state.frames;
                Input::Frames {
                    period_ns,
                    deadline_ns,
                }
            }
            Hint::MaxPower(limit) => {
                limits.power_mw = limit.map(Milliwatts::milliwatts);
                Input::Limits(limits)
            }
            Hint::MaxTemperature(limit) => {
                limits.device_mc = vec![limit.map(MilliCelsius::millidegrees); self.devices.len()];
                Input::Limits(limits)
            }
        };
        let replan = self.tell(inner, &mut state, now, input);
        drop(state);
        if replan {
            self.replan(inner);
        }
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

/// What the governor is told of a battery that the app says to save.
const SAVER: Input = Input::Battery {
    charge_permille: Some(0),
    charging: false,
};

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Session {
    /// Reads the sensors and lets the governor decide, now: what a governed session does by itself, except on virtual
    /// time. What the sensors said; none where the session is not governed.
    pub fn govern(&self) -> Option<Sample> {
        let governing = self.0.governing.as_ref()?;
        Some(governing.step(&self.0))
    }

    /// Time on the runtime's clock, in nanoseconds, which decisions and samples state.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// Tells a governed session something; nothing happens in another one.
    pub fn hint(&self, hint: Hint) {
        if let Some(governing) = &self.0.governing {
            governing.hint(&self.0, hint);
        }
    }

    /// Whether the next frame is to run, where the governor skips some to keep a limit. Each call counts a frame.
    #[must_use]
    pub fn takes_frame(&self) -> bool {
        self.0.governing.as_ref().is_none_or(Governing::takes_frame)
    }

    /// What the governor was told and decided until now; none where the session is not governed.
    #[must_use]
    pub fn decisions(&self) -> Option<DecisionLog> {
        self.0.governing.as_ref().map(Governing::log)
    }

    /// How the devices of a governed session warm, as far as its governor has learnt it: for [`Policy::heat`].
    #[must_use]
    pub fn heats(&self) -> Vec<(String, Heat)> {
        let governing = self.0.governing.as_ref();
        governing.map_or_else(Vec::new, Governing::heats)
    }

    /// Plans that are ready and changes among them; none where the session is not governed.
    #[must_use]
    pub fn governed(&self) -> Option<GovernedReport> {
        self.0.governing.as_ref().map(Governing::report)
    }
}
