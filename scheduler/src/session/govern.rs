//! A governed session: ready plans, a thread that reads the sensors, and the governor that chooses
//! a plan.
//!
//! Invariants:
//! 1. A plan changes between runs; a run that has begun ends on its plan.
//! 2. Nothing here is on the path of a run: `submit` uses the active plan and waits for neither a
//!    sensor nor the governor.
//! 3. The log holds each observation of the governor with its decision, so that it replays.
//! 4. The state is not locked while a plan is compiled or a device is reset.
//! 5. A late run wakes the thread, which informs the governor before the next sample is due.
//! 6. On virtual time there is no thread: the code that advances the clock calls
//!    [`Session::govern`], and after a late run [`Session::govern_runs`].
//!
//! Not here: the choice (`governor`), its observations (`observations`), the plans (`portfolio`),
//! the sensors (`telemetry`).

mod headroom;
pub(crate) mod hint;
mod observations;
mod points;
mod ready;
mod recovery;
pub(crate) mod report;
pub(crate) mod state;
pub(crate) mod wakeup;
pub(crate) mod watch;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use polychip_governor::{self as governor, Action, Input};
use polychip_partitioner::{Heat, MilliCelsius, Milliwatts};

use crate::decisions::{self, DecisionLog};
use crate::event::{Event, EventKind};
use crate::planned::Planned;
use crate::policy::Governed;
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;
use crate::session::{Session, portfolio};
use crate::telemetry::Sample;
use ready::load;
use state::{Governing, State, note, ns};

pub use hint::Hint;
pub use report::{CandidateReport, ChangeReport, GovernedReport, MissedLimit, ReadyPlan};

impl Governing {
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
        let observation = governor::Observation { time_ns, input };
        let decision = state.governor.step(&observation);
        let before = self.pace.swap(decision.pace_permille, Ordering::AcqRel);
        state.log.add(observation, decision);
        let words = || decisions::words(&decision.reason, state.governor.portfolio(), &self.devices);
        let mut replan = false;
        match decision.action {
            Action::Switch(candidate) => {
                let words = words();
                if let Some(ready) = state.ready.get(candidate) {
                    inner.put_in_place(&ready.plan, &ready.policy);
                    ready.take_place();
                    state.points.set(&ready.points);
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

    /// Reads the sensors once, repairs lost devices, and applies the governor's decisions.
    pub(crate) fn step(&self, inner: &Inner) -> Sample {
        let sample = self
            .sampler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sample();
        let now = sample.time_ns;
        self.notice_losses(inner, &mut self.lock(), now);
        self.repair(inner, now);
        let mut replan = false;
        {
            let mut state = self.lock();
            self.note_limits(&mut state, &inner.lateness, &sample);
            for input in self.inputs(&mut state, &sample) {
                replan |= self.tell(inner, &mut state, now, input);
            }
        }
        if replan {
            self.replan(inner);
        }
        sample
    }

    /// Tells the governor of the runs that have ended, without a look at the sensors: a late one cannot wait for those.
    pub(crate) fn hear(&self, inner: &Inner) {
        let mut replan = false;
        {
            let mut state = self.lock();
            let now = inner.now_ns();
            for run in self.runs(&mut state, now) {
                replan |= self.tell(inner, &mut state, now, Input::Run(run));
            }
        }
        if replan {
            self.replan(inner);
        }
    }

    /// Remakes the portfolio from new measurements. The state is unlocked meanwhile: the old plans keep running.
    fn replan(&self, inner: &Inner) {
        let _making = self.making();
        let plans: Vec<Arc<LoadedPlan>> = {
            let state = self.lock();
            state.ready.iter().map(|ready| Arc::clone(&ready.plan)).collect()
        };
        for plan in plans {
            if let Err(error) = plan.record() {
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
        let planned = match Planned::new(&inner.shared, &model, &policy, &|_| {}) {
            Ok(planned) => planned,
            Err(error) => {
                tracing::warn!("no new plans: {error}");
                return;
            }
        };
        let variants = portfolio::variants(&inner.shared, &planned, &policy);
        let (mut ready, mut candidates) = load(&inner.shared, inner.id, variants, None, &mut || {
            inner.next_number()
        });
        if ready.is_empty() {
            return;
        }
        let mut state = self.lock();
        points::add(
            &mut ready,
            &mut candidates,
            &self.offered,
            points::longest(state.frames),
        );
        for old in &state.ready {
            inner.keep_track(&old.plan);
        }
        state.ready = ready;
        let now = inner.now_ns();
        self.tell(inner, &mut state, now, Input::Replanned(candidates));
    }

    pub(crate) fn hint(&self, inner: &Inner, hint: Hint) {
        let mut state = self.lock();
        let now = inner.now_ns();
        let mut limits = state.governor.limits().clone();
        let input = match hint {
            Hint::Foreground(is_shown) => Input::Foreground(is_shown),
            Hint::BatterySaver(saves) => {
                state.saver = saves;
                if saves {
                    SAVER
                } else {
                    battery_input(state.battery)
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
                inner.lateness.set_deadline(deadline);
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
            Hint::MaxSurfaceTemperature(limit) => {
                limits.skin_mc = limit.map(MilliCelsius::millidegrees);
                Input::Limits(limits)
            }
            // compared with the limit at the next sample
            Hint::ThermalHeadroom(headroom_permille) => {
                state.headroom_permille = headroom_permille;
                return;
            }
            Hint::Battery(battery) => {
                state.battery = battery;
                if state.saver {
                    return;
                } else {
                    battery_input(battery)
                }
            }
        };
        let replan = self.tell(inner, &mut state, now, input);
        drop(state);
        if replan {
            self.replan(inner);
        }
    }
}

/// Input for battery-saver mode.
const SAVER: Input = Input::Battery {
    charge_permille: Some(0),
    charging: false,
};

/// Input for the battery state that the app set; without one, no saving until the battery is read.
fn battery_input(battery: Option<(u32, bool)>) -> Input {
    match battery {
        Some((charge_permille, charging)) => Input::Battery {
            charge_permille: Some(charge_permille),
            charging,
        },
        None => Input::Battery {
            charge_permille: None,
            charging: true,
        },
    }
}

impl Session {
    /// Reads the sensors and lets the governor decide, now. A governed session does this by itself,
    /// except on virtual time. Returns the sensor readings; `None` if the session is not governed.
    pub fn govern(&self) -> Option<Sample> {
        let inner = self.0.latest()?;
        let governing = inner.governing.as_ref()?;
        Some(governing.step(&inner))
    }

    /// Passes completed runs to the governor and lets it decide, now, without reading the sensors.
    /// A governed session does this by itself after a late run, except on virtual time. Does
    /// nothing if the session is not governed.
    pub fn govern_runs(&self) {
        if let Some(inner) = self.0.latest()
            && let Some(governing) = &inner.governing
        {
            governing.hear(&inner);
        }
    }

    /// The ready plans; empty if the session is not governed.
    #[must_use]
    pub fn ready_plans(&self) -> Vec<ReadyPlan> {
        self.governing(Governing::ready_plans).unwrap_or_default()
    }

    /// Current time on the runtime's clock, in nanoseconds, as in decisions and samples.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// Passes a hint to a governed session; does nothing in other sessions.
    pub fn hint(&self, hint: Hint) {
        if let Some(inner) = self.0.latest()
            && let Some(governing) = &inner.governing
        {
            governing.hint(&inner, hint);
        }
    }

    /// Whether the next frame should run; the governor may skip frames to hold a limit. Each call
    /// counts a frame.
    #[must_use]
    pub fn takes_frame(&self) -> bool {
        self.governing(Governing::takes_frame).unwrap_or(true)
    }

    /// The governor's observations and decisions so far; `None` if the session is not governed.
    #[must_use]
    pub fn decisions(&self) -> Option<DecisionLog> {
        self.governing(Governing::log)
    }

    /// The thermal models of a governed session's devices, as fitted so far, for [`Policy::heat`].
    #[must_use]
    pub fn heats(&self) -> Vec<(String, Heat)> {
        self.governing(Governing::heats).unwrap_or_default()
    }

    /// Ready plans and switches between them; `None` if the session is not governed.
    #[must_use]
    pub fn governed(&self) -> Option<GovernedReport> {
        self.governing(Governing::report)
    }

    fn governing<T>(&self, ask: impl FnOnce(&Governing) -> T) -> Option<T> {
        let inner = self.0.latest()?;
        inner.governing.as_ref().map(ask)
    }
}
