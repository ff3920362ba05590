//! What a task that awaits a run and the thread that retries it share.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::error::Result;

/// What can be cancelled while it runs.
pub(super) trait Cancel {
    /// Cancels it.
    fn cancel(&self);
}

/// A failed run that a thread retries.
pub(super) struct Retry<R> {
    step: Mutex<Step<R>>,
    ended: Condvar,
}

struct Step<R> {
    /// The retried run, or why it cannot be retried.
    result: Option<Result<R>>,
    waker: Option<Waker>,
    is_cancelled: bool,
}

impl<R> Default for Retry<R> {
    fn default() -> Self {
        Self {
            step: Mutex::new(Step {
                result: None,
                waker: None,
                is_cancelled: false,
            }),
            ended: Condvar::new(),
        }
    }
}

impl<R: Cancel> Retry<R> {
    fn lock(&self) -> MutexGuard<'_, Step<R>> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self, result: Result<R>) {
        let mut step = self.lock();
        if let Ok(run) = &result
            && step.is_cancelled
        {
            run.cancel();
        }
        step.result = Some(result);
        let waker = step.waker.take();
        drop(step);
        self.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn poll(&self, waker: &Waker) -> Option<Result<R>> {
        let mut step = self.lock();
        let result = step.result.take();
        if result.is_none() {
            step.waker = Some(waker.clone());
        }
        result
    }

    /// The retried run, if it begins within `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Option<Result<R>> {
        let until = Instant::now().checked_add(timeout);
        let mut step = self.lock();
        loop {
            if let Some(result) = step.result.take() {
                return Some(result);
            }
            let left = until.map_or(Duration::from_secs(3600), |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return None;
            }
            let waited = self.ended.wait_timeout(step, left);
            step = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Cancels the run, once it has begun.
    pub(super) fn cancel(&self) {
        let mut step = self.lock();
        step.is_cancelled = true;
        if let Some(Ok(run)) = &step.result {
            run.cancel();
        }
    }
}
