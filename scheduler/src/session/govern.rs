//! A governed session: plans kept ready, a thread that reads the sensors, and the governor that chooses among them.
//!
//! Invariants:
//! 1. A plan changes between runs; a run that has begun ends on its plan.
//! 2. Nothing here is on the path of a run: `submit` sees a plan that was put in its place, and neither waits for a
//!    sensor nor for the governor.
//! 3. Each event that the governor is told stands in the log with its decision, so that the log replays.
//! 4. On virtual time there is no thread: who moves the clock calls [`Session::govern`].
//!
//! Not here: the choice itself (`governor`), which plans there are (`portfolio`), the sensors (`telemetry`).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use polychip_host::Device;
use polychip_partitioner::Milliwatts;
use schemars::JsonSchema;
use serde::Serialize;

use crate::decisions::{self, DecisionLog};
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::governor::{
    self, Action, Candidate, FinishedRun, Governor, Input, Limits, Load, Place, Portfolio, Reading,
};
use crate::planned::Planned;
use crate::policy::{Governed, Policy};
use crate::replan;
use crate::runtime::Shared;
use crate::session::compile::Loaded;
use crate::session::loaded::LoadedPlan;
use crate::session::portfolio::{self, Variant};
use crate::session::{Inner, Session};
use crate::telemetry::{Rules, Sample, Sampler, Sensors};
use crate::unit::MilliCelsius;

/// Changes of plan that the report lists.
const LISTED: usize = 32;
/// First wait before a lost device is reset again; each that fails doubles it.
const FIRST_WAIT_NS: u64 = 1_000_000_000;
/// Longest such wait.
const LONGEST_WAIT_NS: u64 = 300_000_000_000;

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

/// What a governed session did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GovernedReport {
    /// The plan of the next run.
    pub plan: String,
    /// Changes of plan so far.
    pub switches: u64,
    /// So many of a thousand frames are to run.
    pub pace_permille: u32,
    /// Plans that are ready.
    pub candidates: Vec<CandidateReport>,
    /// The newest changes, oldest first.
    pub changes: Vec<ChangeReport>,
}

/// A plan that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateReport {
    /// Name.
    pub name: String,
    /// The devices that it uses.
    pub devices: Vec<String>,
    /// Predicted time of a run in nanoseconds.
    pub predicted_ns: u64,
    /// Predicted energy of a run in microjoules, where it is known.
    pub predicted_uj: Option<u64>,
    /// Memory of the tensors of its runs in flight, in bytes.
    pub bytes: u64,
    /// Whether it can run: no device of it is lost.
    pub usable: bool,
}

/// A change of plan or pace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeReport {
    /// When, on the runtime's clock.
    pub time_ns: u64,
    /// The plan from then on.
    pub plan: String,
    /// So many of a thousand frames are to run from then on.
    pub pace_permille: u32,
    /// Why.
    pub words: String,
}

/// Plans, governor and sensors of one session.
pub(crate) struct Governing {
    policy: Policy,
    devices: Vec<Device>,
    state: Mutex<State>,
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

/// A plan with everything loaded.
struct Ready {
    name: String,
    policy: Arc<Policy>,
    plan: Arc<LoadedPlan>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    is_lost: bool,
    wait_ns: u64,
    next_try_ns: u64,
}

impl Ready {
    fn can_run(&self) -> bool {
        !self.plan.has_failed() && !self.plan.is_broken()
    }
}

/// Compiles and loads the plans of a portfolio; the first one is loaded already. One that a device refuses is left
/// out.
fn load(
    shared: &Arc<Shared>,
    variants: Vec<Variant>,
    first: Option<Arc<LoadedPlan>>,
    number: &mut dyn FnMut() -> u64,
) -> (Vec<Ready>, Vec<Candidate>) {
    let mut ready: Vec<Ready> = Vec::new();
    let mut candidates = Vec::new();
    let mut first = first;
    for variant in variants {
        let plan = match first.take() {
            Some(plan) => plan,
            None => match load_one(shared, &variant, number) {
                Ok(plan) => plan,
                Err(error) => {
                    tracing::info!("plan {:?} is not kept ready: {error}", variant.name);
                    continue;
                }
            },
        };
        candidates.push(variant.candidate());
        ready.push(Ready {
            name: variant.name,
            policy: Arc::new(variant.policy),
            plan,
        });
    }
    (ready, candidates)
}

fn load_one(
    shared: &Arc<Shared>,
    variant: &Variant,
    number: &mut dyn FnMut() -> u64,
) -> Result<Arc<LoadedPlan>> {
    // a plan that a device refuses is left out, not replaced by another one
    let policy = variant.policy.clone().replan(false);
    let (planned, parts) = replan::compile(shared, variant.planned.clone(), &policy, Loaded::default())?;
    Ok(Arc::new(LoadedPlan::new(
        shared,
        number(),
        planned,
        parts,
        &variant.policy,
    )?))
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

    /// Reads the sensors once, tells the governor, does what it decides, and mends what was lost.
    pub(crate) fn step(&self, inner: &Inner) -> Sample {
        let sample = self
            .sampler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sample();
        let mut state = self.lock();
        let now = sample.time_ns;
        self.notice_losses(inner, &mut state, now);
        self.mend(inner, &mut state, now);
        let mut replan = false;
        for input in self.inputs(&mut state, &sample) {
            replan |= self.tell(inner, &mut state, now, input);
        }
        if replan {
            self.replan(inner, &mut state, now);
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

    fn notice_losses(&self, inner: &Inner, state: &mut State, now: u64) {
        for (index, device) in self.devices.iter().enumerate() {
            if device.is_quarantined() && !state.lost[index].is_lost {
                state.lost[index] = Lost {
                    is_lost: true,
                    next_try_ns: now.saturating_add(state.lost[index].wait_ns),
                    ..state.lost[index]
                };
                inner.tell(Event::new(EventKind::Lost, device.name(), 0, device.last_loss()));
                self.tell(inner, state, now, Input::Lost { device: index });
            }
        }
    }

    /// Resets lost devices, and loads again what was lost with them.
    fn mend(&self, inner: &Inner, state: &mut State, now: u64) {
        for (index, device) in self.devices.iter().enumerate() {
            let lost = state.lost[index];
            if !lost.is_lost || now < lost.next_try_ns {
                continue;
            }
            let wait_ns = (lost.wait_ns * 2).clamp(FIRST_WAIT_NS, LONGEST_WAIT_NS);
            state.lost[index].wait_ns = wait_ns;
            state.lost[index].next_try_ns = now.saturating_add(wait_ns);
            if let Err(reason) = device.reset_if_quarantined() {
                let words = reason.message().to_owned();
                inner.tell(Event::new(EventKind::ResetFailed, device.name(), 0, words));
                continue;
            }
            inner.tell(Event::new(EventKind::Reset, device.name(), 0, device.last_loss()));
            if self.load_again(inner, state).is_ok() {
                state.lost[index].is_lost = false;
                self.tell(inner, state, now, Input::Back { device: index });
            }
        }
    }

    /// Loads the plans anew whose devices were reset.
    fn load_again(&self, inner: &Inner, state: &mut State) -> Result<()> {
        for index in 0..state.ready.len() {
            let ready = &state.ready[index];
            let waits = ready
                .plan
                .wiring
                .parts
                .iter()
                .any(|part| part.handle.is_quarantined());
            if ready.can_run() || waits {
                continue;
            }
            let policy = Arc::clone(&ready.policy);
            let planned: Planned = (*ready.plan.planned).clone();
            let have = ready.plan.reusable();
            inner.keep_track(&ready.plan);
            let strict = (*policy).clone().replan(false);
            let (planned, parts) = replan::compile(&inner.shared, planned, &strict, have)?;
            let number = inner.next_number();
            let plan = LoadedPlan::new(&inner.shared, number, planned, parts, &policy)?;
            let device = plan
                .wiring
                .parts
                .first()
                .map(|part| part.handle.name().to_owned());
            let words = format!("plan {}", ready.name);
            inner.tell(Event::new(
                EventKind::Reloaded,
                &device.unwrap_or_default(),
                0,
                words,
            ));
            state.ready[index].plan = Arc::new(plan);
            if state.governor.plan() == index {
                inner.put_in_place(&state.ready[index].plan, &policy);
            }
        }
        Ok(())
    }

    /// Another plan for the next run, where the one in place has failed: at once, without a reset.
    pub(crate) fn survive(&self, inner: &Inner) -> Option<Arc<LoadedPlan>> {
        let mut state = self.lock();
        let now = inner.now_ns();
        self.notice_losses(inner, &mut state, now);
        let ready = state.ready.get(state.governor.plan())?;
        if !ready.can_run() {
            return None;
        }
        inner.put_in_place(&ready.plan, &ready.policy);
        Some(Arc::clone(&ready.plan))
    }

    /// The plan in place was made anew by a recovery: it takes the place of the one that failed.
    pub(crate) fn recovered(&self, inner: &Inner, plan: &Arc<LoadedPlan>) {
        let mut state = self.lock();
        let now = inner.now_ns();
        let current = state.governor.plan();
        let Some(ready) = state.ready.get_mut(current) else {
            return;
        };
        ready.plan = Arc::clone(plan);
        if self.load_again(inner, &mut state).is_err() {
            // the others come back with the next step
            return;
        }
        for (index, device) in self.devices.iter().enumerate() {
            if state.lost[index].is_lost && !device.is_quarantined() {
                state.lost[index].is_lost = false;
                self.tell(inner, &mut state, now, Input::Back { device: index });
            }
        }
    }

    /// Makes the portfolio anew from what was measured since.
    fn replan(&self, inner: &Inner, state: &mut State, now: u64) {
        for ready in &state.ready {
            if let Err(error) = ready.plan.record() {
                tracing::warn!("{error}");
            }
        }
        let names = self
            .devices
            .iter()
            .map(|device| device.name().to_owned())
            .collect();
        let policy = self.policy.for_devices(names, self.policy.settings().precision);
        let model = inner.current().planned.model().clone();
        let planned = match Planned::new(&inner.shared, &model, &policy) {
            Ok(planned) => planned,
            Err(error) => {
                tracing::warn!("no new plans: {error}");
                return;
            }
        };
        let variants = portfolio::variants(&inner.shared, &planned, &policy);
        let (ready, candidates) = load(&inner.shared, variants, None, &mut || inner.next_number());
        if ready.is_empty() {
            return;
        }
        for old in &state.ready {
            inner.keep_track(&old.plan);
        }
        state.ready = ready;
        self.tell(inner, state, now, Input::Replanned(candidates));
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
        if self.tell(inner, &mut state, now, input) {
            self.replan(inner, &mut state, now);
        }
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
                    .map(|&column| self.devices[column].name().to_owned())
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

fn note(state: &mut State, time_ns: u64, plan: String, pace_permille: u32, words: String) {
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

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The thread that reads sensors; it ends with the last clone of its session.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(crate) fn start(inner: Arc<Inner>, every: Duration) -> std::io::Result<Watch> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("polychip-govern".into())
            .spawn(move || {
                let (flag, wake) = &*stopped;
                loop {
                    let flag = flag.lock().unwrap_or_else(PoisonError::into_inner);
                    let (flag, _) = wake
                        .wait_timeout_while(flag, every, |stop| !*stop)
                        .unwrap_or_else(PoisonError::into_inner);
                    if *flag {
                        return;
                    }
                    drop(flag);
                    if let Some(governing) = &inner.governing {
                        governing.step(&inner);
                    }
                }
            })?;
        Ok(Watch {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
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

    /// Plans that are ready and changes among them; none where the session is not governed.
    #[must_use]
    pub fn governed(&self) -> Option<GovernedReport> {
        self.0.governing.as_ref().map(Governing::report)
    }
}
