//! The queue of the model thread.
//!
//! Invariants:
//! 1. Waiting and running jobs are together at most `most`; further ones are rejected immediately.
//! 2. First come, first served; a disconnected client holds no place.
//! 3. A closed queue accepts nothing; after the thread ends, nothing waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::job::Job;
use crate::metrics::Metrics;
use crate::problem::Problem;

/// What waits.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Most jobs that are answered at once.
    active: usize,
    /// Most jobs in all.
    most: usize,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Jobs that are answered now.
    active: usize,
    phase: Phase,
}

/// How the server's life goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Jobs are taken.
    #[default]
    Open,
    /// Those that were taken are answered; no new ones.
    Closing,
    /// What is not answered yet is given up.
    GivenUp,
    /// The thread has ended.
    Ended,
}

impl Queue {
    pub(crate) fn new(active: usize, waiting: usize, metrics: Metrics) -> Queue {
        Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            active,
            most: active.saturating_add(waiting),
            metrics,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, state: &State) {
        self.metrics.show_jobs(state.active, state.waiting.len());
    }

    /// Puts a job behind the others.
    pub(crate) fn push(&self, job: Job) -> Result<(), Problem> {
        let mut state = self.state();
        match state.phase {
            Phase::Open => {}
            Phase::Closing | Phase::GivenUp => return Err(Problem::shutting_down()),
            Phase::Ended => return Err(Problem::internal("the thread that runs the model has ended")),
        }
        if state.active + state.waiting.len() >= self.most {
            state.waiting.retain(|job| !job.client.is_gone());
            if state.active + state.waiting.len() >= self.most {
                let waiting = state.waiting.len();
                self.show(&state);
                return Err(Problem::full(waiting));
            }
        }
        state.waiting.push_back(job);
        self.show(&state);
        self.changed.notify_all();
        Ok(())
    }

    /// Takes the first job that `fits`, where one more may be answered: none where the first one does not.
    pub(crate) fn pop(&self, fits: impl FnOnce(&Job) -> bool) -> Option<Job> {
        let mut state = self.state();
        state.waiting.retain(|job| !job.client.is_gone());
        let is_next = state.active < self.active && state.waiting.front().is_some_and(fits);
        let job = if is_next { state.waiting.pop_front() } else { None };
        if job.is_some() {
            state.active += 1;
        }
        self.show(&state);
        job
    }

    /// A job that was taken is over.
    pub(crate) fn done(&self) {
        let mut state = self.state();
        state.active -= 1;
        self.show(&state);
    }

    /// Waits for a change, at most so long where a time is given. Returns at once where a job waits and `free` says that one
    /// could be taken, or the phase is another one than `seen`.
    pub(crate) fn wait(&self, seen: Phase, free: bool, longest: Option<Duration>) {
        let state = self.state();
        if state.phase != seen || (free && !state.waiting.is_empty()) {
            return;
        }
        // woken for nothing, the caller looks and waits again
        match longest {
            Some(longest) => drop(self.changed.wait_timeout(state, longest)),
            None => drop(self.changed.wait(state)),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().waiting.is_empty()
    }

    /// Goes on to a later phase.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        state.phase = state.phase.max(phase);
        if state.phase >= Phase::GivenUp {
            for job in state.waiting.drain(..) {
                job.client.end(Err(Problem::shutting_down()));
            }
            self.show(&state);
        }
        self.changed.notify_all();
    }
}
