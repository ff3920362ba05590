//! Learning sessions: compile and try other plans, and keep the fastest in the session's own runs.
//!
//! The explorer (`polychip_governor::explore`), which is pure, chooses. This module makes its
//! plans, executes its shadow runs and reports each run time to it.
//!
//! Invariants:
//! 1. A run executes one plan from start to end; the plan is chosen at submit.
//! 2. A plan serves the app only after its outputs on the app's inputs were compared with the
//!    incumbent's.
//! 3. A warm run of a settled session allocates nothing here. A frozen session (`Learn::No`) has
//!    none of this.
//! 4. Plans are compiled and shadow runs executed on a separate thread, which ends with the
//!    session. On virtual time they execute between the app's runs, because the waiting thread
//!    advances the clock.
//! 5. Runs under a deadline are not used for trials while the incumbent meets it: trials are then
//!    shadow runs in the gaps between frames.
//!
//! Not here: hooks before and after a run (`drive`), the plans (`candidates`), shadow runs
//! (`shadow`), the report (`report`).

mod candidates;
pub(crate) mod drive;
mod job;
pub(crate) mod report;
pub(crate) mod shadow;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use polychip_governor::explore::{Explorer, ExplorerSettings};
use polychip_profile::Cadence;

use crate::planned::Planned;
use crate::policy::{Aim, Learn, Policy};
use crate::session::loaded::LoadedPlan;
use crate::session::run_state::RunBindings;
use shadow::Sample;

/// Runs that overlapped no other before other plans are made: a session of a few runs compiles nothing more.
const FIRST_RUNS: u64 = 16;
/// A session whose plan an earlier one settled on lets others rest so long,
const REST_NS: u64 = 60_000_000_000;
/// unless its runs take so many times what they took then.
const DRIFT: f64 = 1.25;
/// A gap between two runs is no gap where it is shorter than this.
const LEAST_GAP_NS: f64 = 200_000.0;

/// What a session learns with.
#[derive(Debug)]
pub(crate) struct Learning {
    state: Mutex<State>,
    /// The next run's inputs are to be kept for shadow runs.
    wants_sample: AtomicBool,
    /// The session ends.
    closing: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    mode: Learn,
    explorer: Explorer,
    /// The plans, by the explorer's numbers.
    arms: Vec<Arm>,
    /// Other plans were made, or are not worth it.
    is_prepared: bool,
    /// Where an earlier session settled on the plan: what a run of it is known to take, and when this session began.
    settled: Option<SettledBefore>,
    /// A job is under way.
    is_busy: bool,
    sample: Option<Arc<Sample>>,
    /// Time from the end of a run to the submission of the next, as far as it is usual.
    gap_ns: Option<f64>,
    ended_ns: Option<u64>,
    /// How the app's runs follow each other: what other plans are priced at.
    cadence: Cadence,
    /// The newest one that lasts.
    wanted: Cadence,
    /// When the cadence changed last.
    changed_ns: Option<u64>,
}

/// What a session begins with that has the plan of an earlier one.
#[derive(Debug, Clone, Copy)]
struct SettledBefore {
    expected_ns: f64,
    began_ns: u64,
}

/// A plan that may be tried.
#[derive(Debug)]
pub(super) struct Arm {
    plan: Arc<LoadedPlan>,
    policy: Arc<Policy>,
}

/// Something to do beside the app's runs.
#[derive(Debug, Clone)]
pub(super) enum Job {
    /// Make other plans.
    Prepare,
    /// Run an arm on earlier inputs of the app; whether no thread waits for it.
    Shadow { arm: usize, in_gap: bool },
}

impl Learning {
    /// For a session of this plan; none where nothing can be learnt, or others choose the plan.
    pub(crate) fn new(
        planned: &Planned,
        policy: &Policy,
        is_admitted: bool,
        now_ns: u64,
    ) -> Option<Arc<Learning>> {
        let mode = policy.learning();
        let others_choose = policy.governing().is_some()
            || is_admitted
            || planned.is_locked()
            || policy.aim() == Aim::Throughput
            || policy.longest_device_time().is_some();
        if mode == Learn::No || others_choose || planned.devices().len() < 2 {
            return None;
        }
        let settings = ExplorerSettings {
            budget_permille: mode.budget_permille().unwrap_or(0),
            ..ExplorerSettings::default()
        };
        let name = candidates::name(planned);
        Some(Arc::new(Learning {
            state: Mutex::new(State {
                mode,
                explorer: Explorer::new(settings, &name, candidates::value_per_ns(planned)),
                arms: Vec::new(),
                is_prepared: mode == Learn::Watch,
                settled: planned.is_settled().then(|| SettledBefore {
                    expected_ns: planned.plan().time().nanoseconds() as f64,
                    began_ns: now_ns,
                }),
                is_busy: false,
                sample: None,
                gap_ns: None,
                ended_ns: None,
                cadence: planned.cadence(),
                wanted: planned.cadence(),
                changed_ns: None,
            }),
            wants_sample: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            thread: Mutex::new(None),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Keeps the inputs of a run that has ended, where shadow runs need some. The run still holds them.
    pub(crate) fn sample(&self, plan: &LoadedPlan, given: &RunBindings) {
        if !self.wants_sample.load(Ordering::Acquire) {
            return;
        }
        let sample = Sample::of(plan, given);
        let mut state = self.lock();
        if let Some(sample) = sample {
            state.sample = Some(Arc::new(sample));
        } else {
            // inputs that cannot be read again: nothing can be tried
            state.arms.clear();
        }
        self.wants_sample.store(false, Ordering::Release);
    }

    /// What is worth doing now. Under a deadline shadow runs have room in gaps only.
    fn next_job(&self, state: &mut State, has_deadline: bool, now_ns: u64) -> Option<Job> {
        if state.is_busy || self.is_closing() || !state.tries() {
            return None;
        }
        let job = if !state.is_prepared {
            (state.explorer.spent().runs >= FIRST_RUNS && !state.rests(now_ns)).then_some(Job::Prepare)
        } else if state.arms.len() > 1 {
            let gap = state
                .gap_ns
                .filter(|&gap| gap >= LEAST_GAP_NS)
                .map(|gap| gap as u64);
            let in_gap = gap.and_then(|gap| state.explorer.wants_shadow(Some(gap)));
            // one that fits no gap costs the app its time
            let or_budget = || state.explorer.wants_shadow(None).filter(|_| !has_deadline);
            let arm = in_gap.or_else(or_budget);
            let job = arm.map(|arm| Job::Shadow {
                arm,
                in_gap: in_gap.is_some(),
            });
            if job.is_some() && state.sample.is_none() {
                self.wants_sample.store(true, Ordering::Release);
                return None;
            }
            job
        } else {
            None
        };
        state.is_busy = job.is_some();
        job
    }

    /// Whether all plans are judged, so that the one that runs is worth keeping for the next start.
    pub(crate) fn has_settled(&self) -> bool {
        let state = self.lock();
        // what an earlier session settled on is kept already
        state.is_prepared && state.tries() && state.explorer.is_settled()
    }

    /// Learns in another way from now on. What is known of other plans stays.
    pub(crate) fn set(&self, mode: Learn) {
        let mut state = self.lock();
        state.mode = mode;
        if let Some(budget_permille) = mode.budget_permille() {
            state.explorer.set_budget(budget_permille);
            // made with `watch`, or nothing was worth a trial so far
            state.is_prepared &= state.explorer.len() > 1;
        }
    }

    /// Ends the thread; waits for the job that it is at.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = thread.filter(|thread| !is_own(thread)) {
            // a panic of the thread was reported when it happened
            let _ = thread.join();
        }
        let mut state = self.lock();
        state.arms.clear();
        state.sample = None;
    }
}

impl State {
    /// Whether every plan is judged, by this session or by the one before.
    fn is_settled(&self) -> bool {
        if self.is_prepared {
            self.explorer.is_settled()
        } else {
            self.settled.is_some()
        }
    }

    /// Whether other plans wait, because an earlier session judged them.
    fn rests(&self, now_ns: u64) -> bool {
        self.settled.is_some_and(|before| {
            let took = self.explorer.incumbent_ns();
            let is_as_before = took.is_none_or(|took| took <= DRIFT * before.expected_ns);
            is_as_before && now_ns.saturating_sub(before.began_ns) < REST_NS
        })
    }

    /// Whether other plans are tried.
    fn tries(&self) -> bool {
        self.mode.budget_permille().is_some()
    }

    /// Which arm a plan is; the incumbent where nothing else was made yet.
    fn arm_of(&mut self, plan: &Arc<LoadedPlan>) -> Option<usize> {
        if self.arms.is_empty() {
            return Some(self.explorer.incumbent());
        }
        self.arms.iter().position(|arm| Arc::ptr_eq(&arm.plan, plan))
    }

    /// Another plan is in place than any that was compared: what is known of the others is void.
    fn begin_anew(&mut self, plan: &LoadedPlan) {
        let planned = &plan.planned;
        self.explorer
            .replace_incumbent(&candidates::name(planned), candidates::value_per_ns(planned));
        self.arms.clear();
        self.is_prepared = false;
        self.settled = None;
    }
}
