//! State shared by the clones of a session: its active plan, runs in flight and events.
//!
//! Invariants:
//! 1. A plan is replaced between runs; users of the old one keep it until its runs have ended.
//! 2. Inputs and outputs of another session are refused.
//!
//! Locks are std's and not parking_lot's, which allocates when a thread first waits: a warm run may
//! not allocate. Not here: replacing a failed plan (`recover`), choosing among plans (`govern`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::durable::Figures;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventLog};
use crate::planned::Planned;
use crate::policy::Policy;
use crate::session::buckets::Padding;
use crate::session::deadline_miss::Lateness;
use crate::session::govern::state::Governing;
use crate::session::learn::Learning;
use crate::session::loaded::LoadedPlan;
use crate::session::overflow::OverflowState;
use crate::session::pace::Pace;
use crate::session::run_input::run_input;
use crate::session::standby_plan::StandbyPlan;
use crate::session::state::States;
use crate::session::thermal_readmission::timer::ThermalTimer;
use crate::shared::Shared;
use crate::tensor::{Input, Output, TensorSpec};
use crate::trace::Tracer;

/// Runs after which the period of a session is one.
const KEPT_AFTER: u64 = 16;

/// A session, without the thread that governs it.
pub(crate) struct Inner {
    /// Tells sessions apart, so that an input of another one is refused.
    pub(crate) id: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) policy: Policy,
    pub(crate) governing: Option<Governing>,
    pub(crate) learning: Option<Arc<Learning>>,
    /// What was done about values beyond the range of reduced precision.
    pub(crate) overflow: OverflowState,
    pub(super) inputs: Vec<TensorSpec>,
    pub(super) outputs: Vec<TensorSpec>,
    pub(super) current: Mutex<Current>,
    /// Held by the one thread that makes a new plan.
    pub(super) recovery: Mutex<()>,
    /// Plans that were replaced and that runs still hold.
    pub(super) old: Mutex<Vec<Weak<LoadedPlan>>>,
    /// Runs that went well.
    pub(crate) runs: AtomicU64,
    /// The number of the run that was submitted last.
    pub(super) latest: Arc<AtomicU64>,
    pub(crate) lateness: Lateness,
    /// How its runs follow each other.
    pub(crate) pace: Pace,
    pub(super) thermal_timer: ThermalTimer,
    /// Runs that may be in flight, as the first plan needs them.
    pub(super) places: usize,
    /// Plans that an admitted session keeps ready.
    pub(crate) standby: Mutex<Vec<StandbyPlan>>,
    pub(crate) events: Mutex<EventLog>,
    pub(crate) tracer: Tracer,
}

/// The plan of the next run.
pub(crate) struct Current {
    pub(crate) planned: Arc<Planned>,
    /// None while another is made, and where none could be.
    pub(crate) plan: Option<Arc<LoadedPlan>>,
    /// What it was made for: the session's policy, but for the precision of a governed session's plans.
    pub(crate) policy: Arc<Policy>,
    pub(super) number: u64,
    /// Losses by device of the plan.
    pub(super) losses: Vec<LossCount>,
    /// Devices that the next plan does without.
    pub(super) left_out: Vec<bool>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// How often a device was lost of late.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossCount {
    pub(super) count: u32,
    /// Good runs of the session at the last one.
    pub(super) at: u64,
}

pub(super) fn output_in_flight(output: &Output) -> Error {
    let words = format!(
        "output {:?}: a run in flight uses its memory; wait for that run first",
        output.name()
    );
    Error::new(ErrorKind::InFlight, words)
}

impl Figures for Inner {
    fn write_figures(&self) {
        let (plan, settings) = {
            let current = self.current();
            (current.plan.clone(), current.policy.settings())
        };
        let Some(plan) = plan else { return };
        if let Err(error) = plan.record_fresh() {
            tracing::warn!("measured times are not written: {error}");
        }
        if self
            .learning
            .as_ref()
            .is_some_and(|learning| learning.has_settled())
        {
            plan.planned.keep_settled(&self.shared.profile, settings);
        }
        self.keep_period(&plan.planned);
    }
}

impl Inner {
    /// Keeps the period of the runs for the next start, where the app states none and enough of them were seen.
    pub(crate) fn keep_period(&self, planned: &Planned) {
        let is_stated = self.policy.stated_period().is_some();
        if let Some(period) = self.pace.period().filter(|_| !is_stated)
            && self.runs.load(Ordering::Relaxed) >= KEPT_AFTER
        {
            planned.keep_period(&self.shared.profile, period);
        }
    }

    pub(crate) fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan, where it is not known to have failed.
    pub(crate) fn usable(&self) -> Option<Arc<LoadedPlan>> {
        let current = self.current();
        current.plan.as_ref().filter(|plan| !plan.has_failed()).cloned()
    }

    /// Whether the next run takes this plan.
    pub(crate) fn is_current(&self, plan: &Arc<LoadedPlan>) -> bool {
        let current = self.current();
        current
            .plan
            .as_ref()
            .is_some_and(|other| Arc::ptr_eq(other, plan))
    }

    pub(crate) fn tell(&self, event: Event) {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(event);
    }

    /// Every input is there once, but for states.
    pub(super) fn check_inputs(
        &self,
        inputs: &[&Input],
        states: &States,
        padding: Option<&Padding>,
    ) -> Result<()> {
        for (position, input) in inputs.iter().enumerate() {
            if input.session != self.id {
                let words = format!("input {:?} belongs to another session", input.name());
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if inputs[..position].iter().any(|other| other.index == input.index) {
                return Err(Error::new(
                    ErrorKind::BadInput,
                    format!("input {:?} is given twice", input.name()),
                ));
            }
        }
        let hidden = run_input(self.inputs.iter());
        for (index, wanted) in self.inputs.iter().enumerate() {
            if hidden == Some(index) {
                continue;
            }
            let is_state = states.has_input(index);
            if let Some(input) = inputs.iter().find(|input| input.index == index) {
                if is_state {
                    let words = format!("input {:?} is a state and cannot be passed to a run", wanted.name);
                    return Err(Error::new(ErrorKind::BadInput, words));
                }
                let unpadded = padding.and_then(|padding| padding.shapes.inputs[index].as_ref());
                let shape = unpadded.unwrap_or(&wanted.shape);
                if input.memory.shape != *shape {
                    let words = format!(
                        "input {:?} has shape {:?}, this run needs {shape:?}",
                        wanted.name, input.memory.shape
                    );
                    return Err(Error::new(ErrorKind::BadInput, words));
                }
            } else if !is_state {
                return Err(Error::new(
                    ErrorKind::BadInput,
                    format!("input {:?} is missing", wanted.name),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn check_outputs(
        &self,
        outputs: &[&Output],
        inputs: &[&Input],
        states: &States,
        padding: Option<&Padding>,
    ) -> Result<()> {
        let cut = padding.map_or(&[][..], |padding| &padding.shapes.outputs);
        if let Some(index) = (0..cut.len()).find(|&index| cut[index].is_some() && states.has_output(index)) {
            let words = format!("state in output {:?} cannot be padded", self.outputs[index].name);
            return Err(Error::new(ErrorKind::BadInput, words));
        }
        for (position, output) in outputs.iter().enumerate() {
            let name = output.name();
            if states.has_output(output.index) {
                let words = format!("output {name:?} is a state and stays in the session (Session::state)");
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            let unpadded = padding.and_then(|padding| padding.shapes.outputs.get(output.index)?.as_ref());
            let wanted = unpadded.or(self.outputs.get(output.index).map(|spec| &spec.shape));
            if output.session == self.id && wanted.is_some_and(|wanted| *wanted != output.memory.shape) {
                let words = format!(
                    "output {name:?} has shape {:?}, this run writes {:?}; set it (Output::resize)",
                    output.memory.shape,
                    wanted.unwrap_or(&Vec::new())
                );
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if output.session != self.id {
                let words = format!("output {name:?} belongs to another session");
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if outputs[..position]
                .iter()
                .any(|other| other.index == output.index)
            {
                let words = format!("output {name:?} is given twice");
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if let Some(input) = inputs
                .iter()
                .find(|input| input.memory.shares_with(&output.memory))
            {
                let words = format!(
                    "output {name:?} and input {:?} of the same run share memory",
                    input.name()
                );
                return Err(Error::new(ErrorKind::BadInput, words));
            }
            if output.memory.is_held() {
                self.reap_ended();
                if output.memory.is_held() {
                    return Err(output_in_flight(output));
                }
            }
        }
        Ok(())
    }

    /// Takes back slots of runs that were given up and have ended, of this plan and those before.
    pub(crate) fn reap_ended(&self) {
        let plan = self.current().plan.clone();
        if let Some(plan) = plan {
            plan.reap_ended();
        }
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        let plans: Vec<Arc<LoadedPlan>> = old.iter().filter_map(Weak::upgrade).collect();
        old.retain(|plan| plan.strong_count() > 0);
        drop(old);
        plans.iter().for_each(|plan| plan.reap_ended());
    }

    pub(crate) fn keep_track(&self, plan: &Arc<LoadedPlan>) {
        let mut old = self.old.lock().unwrap_or_else(PoisonError::into_inner);
        // runs hold their own copy alone
        for plan in std::iter::once(plan).chain(plan.others()) {
            let one = Arc::downgrade(plan);
            old.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&one));
            old.push(one);
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.shared.host.clock().now_ns()
    }

    /// The next run takes this plan.
    pub(crate) fn put_in_place(&self, plan: &Arc<LoadedPlan>, policy: &Arc<Policy>) {
        let before = {
            let mut current = self.current();
            current.planned = Arc::clone(&plan.planned);
            current.policy = Arc::clone(policy);
            current.plan.replace(Arc::clone(plan))
        };
        if let Some(before) = before {
            self.keep_track(&before);
        }
    }

    /// A number that no plan of the session has.
    pub(crate) fn next_number(&self) -> u64 {
        let mut current = self.current();
        current.number += 1;
        current.number
    }
}
