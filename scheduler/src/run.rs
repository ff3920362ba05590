//! A run in flight, and its outputs.
//!
//! Invariants:
//! 1. A dropped run continues; its slot is freed once it has ended.
//! 2. Outputs hold their slot: its memory is not reused before they are dropped. They delay no run:
//!    if all slots are held, another one is made.
//! 3. A run that fails with its device and is retried starts again on the session's next plan, with
//!    the same inputs, which cannot change meanwhile.
//!
//! Not here: runs as futures (`awaited`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::late_policy::Late;
use crate::session::deadline_miss::Submitted;
use crate::session::in_flight_limit::InFlightLimit;
use crate::session::loaded::LoadedPlan;
use crate::session::overflow::watch::{self, Watched};
use crate::session::queue_grants::Terms;
use crate::session::run_state::{Progress, RunState};
use crate::session::specialization_state::Inner;
pub use outputs::{OutputView, Outputs};
use retry::Retry;

mod awaited;
pub(crate) mod outputs;
mod retry;

/// Options of one run, for [`Session::submit_with`](crate::Session::submit_with).
///
/// ```
/// use std::time::Duration;
/// let soon = polychip::RunOptions::new().deadline(Duration::from_millis(33));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOptions {
    pub(crate) deadline: Option<Duration>,
    pub(crate) queue_timeout: Option<Duration>,
    pub(crate) late: Option<Late>,
}

impl RunOptions {
    /// The defaults: the policy's deadline, and no wait for other runs in flight.
    #[must_use]
    pub fn new() -> RunOptions {
        RunOptions::default()
    }

    /// Sets this run's deadline instead of the policy's; [`RunOptions::late`] sets what happens to
    /// a late run. On a device that several sessions use, runs with earlier deadlines go first
    /// within one priority.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> RunOptions {
        self.deadline = Some(deadline);
        self
    }

    /// Sets what happens to this run once it is late or overtaken, instead of the policy's rule.
    #[must_use]
    pub fn late(mut self, late: Late) -> RunOptions {
        self.late = Some(late);
        self
    }

    /// If as many runs are in flight as the policy allows, waits at most `timeout` for one to
    /// return its outputs.
    #[must_use]
    pub fn queue_timeout(mut self, timeout: Duration) -> RunOptions {
        self.queue_timeout = Some(timeout);
        self
    }
}

/// A submitted run.
///
/// A thread waits for its outputs ([`Run::wait`], [`Run::poll`]), or a task awaits them: a run is a
/// future that works with any executor. It does not block the executor's threads. A thread of the
/// session drives the run and wakes the task.
///
/// ```no_run
/// # async fn answer(session: &polychip::Session, image: &polychip::Input) -> Result<(), polychip::Error> {
/// let outputs = session.submit(&[image])?.await?;
/// println!("{:?}", outputs.at(0)?.values::<f32>()?);
/// # Ok(())
/// # }
/// ```
///
/// `&mut run` is a future too, so a timeout or a branch of a `select!` may end the wait and
/// [`cancel`](Run::cancel) the run. If this value is dropped, the run continues to its end.
#[derive(Debug)]
pub struct Run {
    inner: Arc<Inner>,
    plan: Arc<LoadedPlan>,
    index: usize,
    state: State,
    /// Remaining retries.
    retries: u32,
    submitted: Submitted,
    terms: Terms,
    /// Its place among the runs in flight, and its number.
    flight: (Arc<InFlightLimit>, u64),
}

enum State {
    /// All parts are with their devices.
    Issued(Box<RunState>),
    /// A thread of the session drives it.
    Driven,
    /// It failed while it was awaited; a thread repairs the session and retries the run.
    Retrying(Arc<Retry<Run>>),
    /// The outputs were returned, or it failed.
    Over,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Issued(_) => "Issued",
            State::Driven => "Driven",
            State::Retrying(_) => "Retrying",
            State::Over => "Over",
        })
    }
}

impl Run {
    /// Starts a run in a slot that holds what it was given.
    pub(crate) fn start(
        inner: Arc<Inner>,
        plan: Arc<LoadedPlan>,
        index: usize,
        slot: Box<RunState>,
        retries: u32,
        submitted: Submitted,
        terms: Terms,
        flight: (Arc<InFlightLimit>, u64),
    ) -> Result<Run> {
        let mut run = Run {
            inner,
            plan,
            index,
            state: State::Over,
            retries,
            submitted,
            terms,
            flight,
        };
        run.begin(slot)?;
        Ok(run)
    }

    /// Allows so many retries from now on.
    pub(crate) fn with_retries(mut self, retries: u32) -> Run {
        self.retries = retries;
        self
    }

    fn begin(&mut self, mut slot: Box<RunState>) -> Result<()> {
        loop {
            self.submitted.begins(self.inner.now_ns());
            slot.grants.terms.clone_from(&self.terms);
            slot.measures_steps = self.inner.tracer.measures_steps();
            let started = self.plan.start(&mut slot).and_then(|progress| {
                if progress == Progress::Waiting {
                    self.plan.make_run_driver(self.index)?;
                }
                Ok(progress)
            });
            match started {
                Ok(Progress::Done) => {
                    self.state = State::Issued(slot);
                    return Ok(());
                }
                Ok(Progress::Waiting) => {
                    self.plan.drive(self.index, slot);
                    self.state = State::Driven;
                    return Ok(());
                }
                Err(error) => slot = self.failed(slot, error)?,
            }
        }
    }

    /// The slot to try again in, or the error that the run fails with.
    fn failed(&mut self, slot: Box<RunState>, error: Error) -> Result<Box<RunState>> {
        let (plan, index, slot) =
            self.inner
                .failed(&self.plan, self.index, slot, error, &mut self.retries)?;
        (self.plan, self.index) = (plan, index);
        Ok(slot)
    }

    /// The run's number in its session, from 1. Errors identify runs by it.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.flight.1
    }

    /// Waits for the outputs.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the run has not ended within `timeout` (it is then abandoned; use
    /// [`Run::poll`] to keep it), or the device's error.
    pub fn wait(mut self, timeout: Duration) -> Result<Outputs> {
        match self.poll(timeout)? {
            Some(outputs) => Ok(outputs),
            None => {
                let words = format!("timeout after {} ms; the run continues", timeout.as_millis());
                Err(Error::new(ErrorKind::Timeout, words))
            }
        }
    }

    /// Waits at most `timeout`; returns `None` if the run has not ended. If a device was lost and
    /// the policy retries the run, the call first repairs the session, which may take longer than
    /// the timeout.
    ///
    /// # Errors
    /// The device's error, or an error if the outputs were already taken.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<Outputs>> {
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            let (slot, error) = match std::mem::replace(&mut self.state, State::Over) {
                State::Issued(mut slot) => match self.plan.finish(&mut slot, left) {
                    Ok(Progress::Done) => return self.outputs(slot).map(Some),
                    Ok(Progress::Waiting) => {
                        self.state = State::Issued(slot);
                        return Ok(None);
                    }
                    Err(error) => (slot, error),
                },
                State::Driven => match self.plan.wait_driven(self.index, left) {
                    Some((slot, Ok(()))) => return self.outputs(slot).map(Some),
                    Some((slot, Err(error))) => (slot, error),
                    None => {
                        self.state = State::Driven;
                        return Ok(None);
                    }
                },
                State::Retrying(retry) => match retry.wait(left) {
                    Some(retried) => {
                        self.take_over(retried?);
                        continue;
                    }
                    None => {
                        self.state = State::Retrying(retry);
                        return Ok(None);
                    }
                },
                State::Over => return Err(over()),
            };
            let slot = self.failed(slot, error)?;
            self.begin(slot)?;
        }
    }

    /// Requests an early end. [`Run::wait`] then fails with [`ErrorKind::Cancelled`], unless the
    /// run completes first.
    pub fn cancel(&self) {
        let _limit = self.plan.limit_calls();
        match &self.state {
            State::Issued(slot) => slot.cancel(),
            State::Driven => self.plan.cancel_driven(self.index),
            State::Retrying(retry) => retry.cancel(),
            State::Over => {}
        }
    }

    fn outputs(&self, mut slot: Box<RunState>) -> Result<Outputs> {
        let learning = self.inner.learning.as_ref();
        let is_alone = self.submitted.was_alone() && self.flight.0.is_last(self.flight.1);
        if let Some(learning) = learning.filter(|_| is_alone) {
            learning.sample(&self.plan, &slot.given);
        }
        let watched = Watched::of(&self.plan, &slot);
        let taken = slot.given.taken.take();
        let intact = self.plan.check_files();
        if let Err(error) = intact.and_then(|()| self.plan.complete(&mut slot)) {
            self.plan.put_back(self.index, slot);
            return Err(error);
        }
        let (plan, inner) = (&self.plan, &self.inner);
        let is_watched = inner.governing.is_some();
        let outcome = inner.lateness.add(plan, &slot, &self.submitted, is_watched);
        // the app may have come for its outputs long after the run had ended
        let latency = Duration::from_nanos(outcome.latency_ns);
        let latency = if plan.clock().is_virtual() {
            latency
        } else {
            // the plan's time excludes earlier attempts
            slot.latency.min(latency)
        };
        let paced = inner
            .pace
            .ran(self.submitted.at_ns(), outcome.latency_ns, plan.clock_hold_ns);
        plan.keep_figures(&slot, latency, outcome.late_ns.is_some(), paced.booked);
        if let Some(governing) = inner.governing.as_ref().filter(|_| outcome.late_ns.is_some()) {
            governing.wake.late();
        }
        inner.tracer.add(plan, &mut slot, &self.submitted, outcome);
        inner.runs.fetch_add(1, Ordering::Relaxed);
        if let Some(taken) = taken {
            let since_ns = self.submitted.at_ns();
            if let Some(event) = taken.ended(since_ns, since_ns.saturating_add(outcome.latency_ns)) {
                inner.tell(event);
            }
        }
        plan.keep(self.index, self.flight.1);
        if let Some(learning) = learning {
            let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            learning.ended(inner, plan, ns, is_alone, paced.changed);
        }
        let outputs = Outputs::new(Arc::clone(plan), self.index, slot, outcome, self.flight.1);
        if let Some(watched) = watched {
            watch::look(inner, plan, watched, &outputs);
        }
        Ok(outputs)
    }
}

fn over() -> Error {
    Error::new(
        ErrorKind::BadInput,
        "the run's outputs or error were already taken",
    )
}

impl Drop for Run {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Issued(slot) => self.plan.abandon(self.index, Some(slot)),
            State::Driven => {
                self.flight.0.give_up(self.flight.1);
                self.plan.abandon(self.index, None);
            }
            // its thread drops what comes of it
            State::Retrying(_) | State::Over => {}
        }
    }
}
