//! A run as a future that works with any executor.
//!
//! Invariants:
//! 1. Polling never waits and computes nothing. The thread of the run's slot waits, and wakes the
//!    task when the run has ended. It also handles a run that hangs, like any waiting thread.
//! 2. A failed run is retried on a thread of its own, because that may plan and compile.
//!
//! Not here: the thread of a slot (`run_driver`), repair of failed runs (`recover`).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use super::retry::{Cancel, Retry};
use super::{Outputs, Run, State, over};
use crate::error::{Error, Result};
use crate::session::run_state::{Progress, RunState};

impl Future for Run {
    type Output = Result<Outputs>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let run = &mut *self;
        loop {
            let (slot, error) = match std::mem::replace(&mut run.state, State::Over) {
                State::Issued(mut slot) => match run.plan.finish(&mut slot, Duration::ZERO) {
                    Ok(Progress::Done) => return Poll::Ready(run.outputs(slot)),
                    Ok(Progress::Waiting) => match run.plan.make_run_driver(run.index) {
                        Ok(()) => {
                            run.plan.drive(run.index, slot);
                            run.state = State::Driven;
                            continue;
                        }
                        Err(error) => (slot, error),
                    },
                    Err(error) => (slot, error),
                },
                State::Driven => match run.plan.poll_driven(run.index, context.waker()) {
                    Some((slot, Ok(()))) => return Poll::Ready(run.outputs(slot)),
                    Some((slot, Err(error))) => (slot, error),
                    None => {
                        run.state = State::Driven;
                        return Poll::Pending;
                    }
                },
                State::Retrying(retry) => match retry.poll(context.waker()) {
                    Some(Ok(retried)) => {
                        run.take_over(retried);
                        continue;
                    }
                    Some(Err(error)) => return Poll::Ready(Err(error)),
                    None => {
                        run.state = State::Retrying(retry);
                        return Poll::Pending;
                    }
                },
                State::Over => return Poll::Ready(Err(over())),
            };
            if let Err(error) = run.try_again(slot, error) {
                return Poll::Ready(Err(error));
            }
        }
    }
}

impl Run {
    /// Retries a failed run if the policy allows it and the error may pass: on a thread of its own.
    fn try_again(&mut self, slot: Box<RunState>, error: Error) -> Result<()> {
        if self.retries == 0 || !error.may_pass() {
            let slot = self.failed(slot, error)?;
            return self.begin(slot);
        }
        let again = Run {
            inner: Arc::clone(&self.inner),
            plan: Arc::clone(&self.plan),
            index: self.index,
            state: State::Over,
            retries: self.retries,
            submitted: self.submitted,
            terms: self.terms.clone(),
            flight: self.flight.clone(),
        };
        // not in the closure, which is lost where no thread can be started
        let job = Arc::new(Mutex::new(Some((again, slot, error))));
        let take = |job: &Mutex<Option<_>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
        let retry = Arc::<Retry<Run>>::default();
        let (own, given) = (Arc::clone(&retry), Arc::clone(&job));
        let begin_again = move || {
            if let Some((mut again, slot, error)) = take(&given) {
                let slot = again.failed(slot, error);
                own.end(slot.and_then(|slot| again.begin(slot)).map(|()| again));
            }
        };
        let thread = std::thread::Builder::new().name("polychip-retry".into());
        if thread.spawn(begin_again).is_ok() {
            self.state = State::Retrying(retry);
        } else if let Some((_, slot, error)) = take(&job) {
            let slot = self.failed(slot, error)?;
            self.begin(slot)?;
        }
        Ok(())
    }

    /// Continues as the retried run.
    pub(super) fn take_over(&mut self, mut again: Run) {
        self.plan = Arc::clone(&again.plan);
        self.index = again.index;
        self.retries = again.retries;
        self.submitted = again.submitted;
        self.state = std::mem::replace(&mut again.state, State::Over);
    }
}

impl Cancel for Run {
    fn cancel(&self) {
        Run::cancel(self);
    }
}
