//! Learning hooks before and after a run, and their effects: starting a job, activating a plan.

use std::sync::{Arc, PoisonError};

use polychip_governor::explore::{Change, DropReason};

use polychip_profile::Cadence;

use super::{Job, Learning, State};
use crate::event::{Event, EventKind};
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;

/// Between two changes of the cadence that other plans are made anew for.
const LEAST_BETWEEN_NS: u64 = 10_000_000_000;
/// How fast the usual gap follows the newest one.
const GAP_WEIGHT: f64 = 0.2;

impl Learning {
    /// The plan of a trial for a run that is submitted now; none where it takes the incumbent. A run that is not alone
    /// tries nothing.
    pub(crate) fn trial(&self, inner: &Inner, is_alone: bool, now_ns: u64) -> Option<Arc<LoadedPlan>> {
        let mut state = self.lock();
        if let Some(ended) = state.ended_ns.take() {
            let gap = now_ns.saturating_sub(ended) as f64;
            let usual = state.gap_ns.unwrap_or(gap);
            state.gap_ns = Some(usual + GAP_WEIGHT * (gap - usual));
        }
        if state.arms.is_empty() || !state.tries() {
            return None;
        }
        let deadline = inner.lateness.deadline_ns();
        // late anyway: a trial can only help
        let is_late = |ns: f64| deadline.is_none_or(|deadline| ns > deadline as f64);
        let may_try = is_alone && state.explorer.incumbent_ns().is_some_and(is_late);
        let arm = state.explorer.next(may_try);
        if arm == state.explorer.incumbent() {
            return None;
        }
        let plan = &state.arms[arm].plan;
        if plan.has_failed() || plan.is_broken() {
            state.explorer.failed(arm);
            return None;
        }
        Some(Arc::clone(plan))
    }

    /// Takes note of a run of the app that went well, after which its runs may follow each other at another cadence, and starts
    /// what is to be done meanwhile.
    pub(crate) fn ended(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        plan: &Arc<LoadedPlan>,
        ns: u64,
        is_alone: bool,
        cadence: Option<Cadence>,
    ) {
        let now_ns = inner.now_ns();
        let mut state = self.lock();
        state.ended_ns = Some(now_ns);
        if let Some(cadence) = cadence.filter(|_| inner.policy.stated_period().is_none()) {
            state.wanted = cadence;
        }
        if !state.tries() && state.arms.len() > 1 {
            // set since: the plan stays
            return;
        }
        let arm = state.arm_of(plan);
        // a plan that was put in place while others rested is none that an earlier session settled on
        let is_resting = state.arms.is_empty() && state.settled.is_some();
        let arm = arm.filter(|_| !is_resting || plan.planned.is_settled());
        let Some(arm) = arm else {
            // a plan that recovery put in place
            if inner.is_current(plan) {
                state.begin_anew(plan);
            }
            return;
        };
        let change = state.explorer.ended(arm, ns as f64, is_alone, now_ns);
        if let Some(change) = change {
            self.act(inner, &mut state, change);
        }
        self.follow_cadence(inner, &mut state, now_ns);
        let job = self.next_job(&mut state, inner.lateness.deadline_ns().is_some(), now_ns);
        drop(state);
        if let Some(job) = job {
            self.begin(inner, job);
        }
    }

    /// Where the app's runs follow each other in another way now, what other plans took is void, and they are made and tried
    /// again. An app that states its period has the plan for that one.
    fn follow_cadence(&self, inner: &Inner, state: &mut State, now_ns: u64) {
        let is_soon = |changed: u64| now_ns.saturating_sub(changed) < LEAST_BETWEEN_NS;
        if state.wanted == state.cadence || state.is_busy || state.changed_ns.is_some_and(is_soon) {
            return;
        }
        let Some(plan) = inner.current().plan.clone() else {
            return;
        };
        let (from, to) = (state.cadence, state.wanted);
        state.cadence = to;
        state.changed_ns = Some(now_ns);
        // the gaps are others
        state.gap_ns = None;
        let is_watching = !state.tries();
        let had_others = state.is_prepared && !is_watching;
        state.begin_anew(&plan);
        state.is_prepared = is_watching;
        if had_others {
            let name = state.explorer.name(state.explorer.incumbent()).to_owned();
            let words = format!("the cadence changed from {from} to {to}; other plans are tried again");
            inner.tell(Event::new(EventKind::Reopened, &name, 0, words));
        }
    }

    /// Runs a job on a thread, or on virtual time here.
    fn begin(self: &Arc<Self>, inner: &Arc<Inner>, job: Job) {
        if inner.shared.host.clock().is_virtual() {
            self.run(inner, job);
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = thread.take() {
            // it has told that it is done
            let _ = before.join();
        }
        let (learning, inner) = (Arc::clone(self), Arc::downgrade(inner));
        let made = std::thread::Builder::new()
            .name("polychip-learn".into())
            .spawn(move || {
                if let Some(inner) = inner.upgrade() {
                    learning.run(&inner, job);
                }
            });
        match made {
            Ok(made) => *thread = Some(made),
            Err(error) => {
                tracing::warn!("other plans are not tried: cannot start a thread: {error}");
                self.lock().is_prepared = true;
            }
        }
    }

    /// Does what the explorer decided.
    pub(super) fn act(&self, inner: &Inner, state: &mut State, change: Change) {
        let name = |arm: usize| state.explorer.name(arm).to_owned();
        let event = match &change {
            Change::Adopted {
                arm,
                from,
                ratio,
                pairs,
            } => {
                let words = format!("{ratio:.2}× the time of {} over {pairs} paired runs", name(*from));
                Some((EventKind::Adopted, name(*arm), words))
            }
            Change::RolledBack { arm, from, ratio } => {
                let words = format!("{} takes {ratio:.2}× its trial time", name(*from));
                Some((EventKind::RolledBack, name(*arm), words))
            }
            Change::Dropped { arm, reason } => match reason {
                DropReason::OtherAnswers | DropReason::Failed => {
                    Some((EventKind::NotAdopted, name(*arm), reason.words().to_owned()))
                }
                _ => None,
            },
            Change::Reopened { ratio } => {
                let words = format!("runs take {ratio:.2}× their earlier time; other plans are tried again");
                Some((EventKind::Reopened, name(state.explorer.incumbent()), words))
            }
        };
        if let Change::Adopted { arm, .. } | Change::RolledBack { arm, .. } = change {
            let arm = &state.arms[arm];
            inner.put_in_place(&arm.plan, &arm.policy);
        }
        if let Some((kind, device, words)) = event {
            inner.tell(Event::new(kind, &device, 0, words));
        }
    }
}

/// Ends what a session learns with, when its last clone goes.
#[derive(Debug)]
pub(crate) struct LearningEnd {
    pub(crate) learning: Arc<Learning>,
    pub(crate) inner: Arc<Inner>,
}

impl Drop for LearningEnd {
    fn drop(&mut self) {
        self.learning.close();
        let planned = Arc::clone(&self.inner.current().planned);
        self.inner.keep_period(&planned);
        if self.learning.has_settled() {
            let current = self.inner.current();
            let (planned, settings) = (Arc::clone(&current.planned), current.policy.settings());
            drop(current);
            planned.keep_settled(&self.inner.shared.profile, settings);
        }
    }
}
