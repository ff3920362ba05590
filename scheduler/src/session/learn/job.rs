//! Work beside the app's runs: compiles other plans, and executes them on earlier inputs of the
//! app.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use polychip_governor::explore::{ArmState, GIVEN_UP, ShadowRun};
use polychip_profile::Cadence;

use super::{Arm, Job, Learning, candidates, shadow};
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::planned::Planned;
use crate::policy::Policy;
use crate::replan;
use crate::session::charges::Need;
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;

/// A shadow run is given at least so long: below that a wake-up of a thread may be most of it.
const LEAST_WAIT: Duration = Duration::from_millis(2);

impl Learning {
    /// Does a job, and reports its completion.
    pub(super) fn run(self: &Arc<Self>, inner: &Arc<Inner>, job: Job) {
        match job {
            Job::Prepare => self.prepare(inner),
            Job::Shadow { arm, in_gap } => self.shadow(inner, arm, in_gap),
        }
        self.lock().is_busy = false;
    }

    /// Compiles and loads other plans.
    fn prepare(&self, inner: &Arc<Inner>) {
        let incumbent_ns = self.lock().explorer.incumbent_ns();
        let (plan, policy) = {
            let current = inner.current();
            (current.plan.clone(), Arc::clone(&current.policy))
        };
        let (Some(plan), Some(incumbent_ns)) = (plan, incumbent_ns) else {
            return;
        };
        if let Err(error) = plan.record_fresh() {
            tracing::warn!("measured times are not kept: {error}");
        }
        // a device that refuses a part of another plan keeps the incumbent
        let as_it_is = Arc::new(policy.as_ref().clone().replan(false));
        let cadence = self.lock().cadence;
        let (shared, settings) = (&inner.shared, policy.settings());
        // nothing runs beside frames that have a deadline, but in the gaps between them
        if inner.lateness.deadline_ns().is_none() {
            (shared.calibrate)(shared, &plan.planned.cool_devices(), settings);
        }
        let is_calibrated = plan.planned.is_calibrated(shared, settings);
        let at_cadence = (!is_calibrated || plan.planned.cadence() != cadence)
            .then(|| plan.planned.at_cadence(&inner.shared, policy.settings(), cadence));
        let incumbent = at_cadence.as_ref().unwrap_or(&plan.planned);
        for (planned, expected_ns) in candidates::of(&inner.shared, incumbent, &policy, incumbent_ns) {
            if self.is_closing() {
                return;
            }
            let name = candidates::name(&planned);
            let value_per_ns = candidates::value_per_ns(&planned);
            let made = match load(inner, planned, &as_it_is, &plan) {
                Ok(made) => Arc::new(made),
                Err(error) => {
                    inner.tell(Event::new(EventKind::NotAdopted, &name, 0, error.to_string()));
                    continue;
                }
            };
            let mut state = self.lock();
            if !inner.is_current(&plan) && state.arms.is_empty() {
                // recovery replaced the incumbent meanwhile
                return;
            }
            if state.arms.is_empty() {
                state.arms.push(Arm {
                    plan: Arc::clone(&plan),
                    policy: Arc::clone(&policy),
                });
            }
            state.explorer.add(&name, expected_ns, value_per_ns);
            state.arms.push(Arm {
                plan: made,
                policy: Arc::clone(&policy),
            });
        }
        let mut state = self.lock();
        state.is_prepared = true;
        let is_wanted = state.arms.len() > 1 && state.sample.is_none();
        self.wants_sample.store(is_wanted, Ordering::Release);
    }

    /// Runs an arm on a sample, and the incumbent where its answers or its time of now are wanted.
    fn shadow(&self, inner: &Arc<Inner>, arm: usize, in_gap: bool) {
        let (plan, incumbent, sample, usual_ns, is_new, is_paced) = {
            let state = self.lock();
            let Some(plan) = state.arms.get(arm).map(|arm| Arc::clone(&arm.plan)) else {
                return;
            };
            let incumbent = Arc::clone(&state.arms[state.explorer.incumbent()].plan);
            let (Some(sample), Some(usual_ns)) = (state.sample.clone(), state.explorer.incumbent_ns()) else {
                return;
            };
            let is_new = *state.explorer.state(arm) == ArmState::Unchecked;
            let is_paced = state.cadence != Cadence::BackToBack;
            (plan, incumbent, sample, usual_ns, is_new, is_paced)
        };
        let is_exact = inner.policy.is_exact();
        let most = Duration::from_nanos((GIVEN_UP * usual_ns) as u64).max(LEAST_WAIT);
        let result = || -> Result<Option<ShadowRun>> {
            let mut incumbent_ns = None;
            if sample.reference.get().is_none() || (in_gap && !is_paced) {
                // the incumbent gets all the time it wants
                let Some(ran) = shadow::run(&incumbent, &sample, 10 * most)? else {
                    return Ok(None);
                };
                // right behind the app's own run its clocks are not as they are at the app's cadence: that run counts
                incumbent_ns = Some(ran.ns).filter(|_| !(in_gap && is_paced));
                let _ = sample.reference.set(ran.answers);
            }
            let given_up = ShadowRun {
                arm_ns: most.as_nanos() as f64,
                incumbent_ns,
                same_answers: true,
                in_gap,
                is_counted: true,
            };
            // the first run of a plan warms it
            let Some(mut ran) = shadow::run(&plan, &sample, most)? else {
                return Ok(Some(given_up));
            };
            if is_new && !in_gap {
                match shadow::run(&plan, &sample, most)? {
                    Some(warm) => ran = warm,
                    None => return Ok(Some(given_up)),
                }
            }
            let reference = sample.reference.get();
            let same_answers = reference.is_none_or(|answers| shadow::agree(answers, &ran.answers, is_exact));
            Ok(Some(ShadowRun {
                arm_ns: ran.ns,
                same_answers,
                is_counted: !(is_new && in_gap),
                ..given_up
            }))
        }();
        let mut state = self.lock();
        if arm >= state.arms.len() || !Arc::ptr_eq(&state.arms[arm].plan, &plan) {
            // begun anew meanwhile
            return;
        }
        let change = match result {
            Ok(Some(run)) => state.explorer.shadow(arm, run),
            Ok(None) => None,
            Err(error) => {
                let name = state.explorer.name(arm).to_owned();
                tracing::warn!("a trial of the plan on {name} failed: {error}");
                state.explorer.failed(arm)
            }
        };
        if let Some(change) = change {
            self.act(inner, &mut state, change);
        }
    }
}

/// Compiles and loads a plan; parts that the incumbent has are shared.
fn load(inner: &Arc<Inner>, planned: Planned, policy: &Policy, incumbent: &LoadedPlan) -> Result<LoadedPlan> {
    let (planned, parts) = replan::compile(&inner.shared, planned, policy, incumbent.reusable())?;
    LoadedPlan::new(
        &inner.shared,
        inner.next_number(),
        inner.id,
        planned,
        parts,
        policy,
        Need::Spare,
    )
}
