//! What a task that awaits a run and the thread that retries it share.

use std::sync::Condvar;
use std::task::Waker;
use std::time::{Duration, Instant};

use polychip_host::{CheckedGuard, CheckedMutex, assert_none_held};

use crate::error::Result;
use crate::lock_order::RETRY;

/// What can be cancelled while it runs.
pub(super) trait Cancel {
    /// Cancels it.
    fn cancel(&self);
}

/// A failed run that a thread retries.
pub(super) struct Retry<R> {
    step: CheckedMutex<Step<R>, RETRY>,
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
            step: CheckedMutex::new(Step {
                result: None,
                waker: None,
                is_cancelled: false,
            }),
            ended: Condvar::new(),
        }
    }
}

impl<R: Cancel> Retry<R> {
    fn lock(&self) -> CheckedGuard<'_, Step<R>, RETRY> {
        self.step.lock()
    }

    pub(super) fn end(&self, result: Result<R>) {
        let mut step = self.lock();
        if let Ok(run) = &result
            && step.is_cancelled
        {
            // devices are called; that it was cancelled does not change any more
            drop(step);
            run.cancel();
            step = self.lock();
        }
        step.result = Some(result);
        let waker = step.waker.take();
        drop(step);
        self.ended.notify_all();
        if let Some(waker) = waker {
            assert_none_held("a task's waker");
            waker.wake();
        }
    }

    pub(super) fn poll(&self, waker: &Waker) -> Option<Result<R>> {
        // the executor's code clones and drops a waker, so no lock is held
        let mut waker = Some(waker.clone());
        let mut step = self.lock();
        let result = step.result.take();
        if result.is_none() {
            std::mem::swap(&mut step.waker, &mut waker);
        }
        drop(step);
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
            step = step.wait_timeout(&self.ended, left);
        }
    }

    /// Cancels the run, once it has begun.
    pub(super) fn cancel(&self) {
        let mut step = self.lock();
        step.is_cancelled = true;
        // its run takes the result with exclusive access only, so it misses nothing meanwhile
        let Some(result) = step.result.take() else {
            return;
        };
        drop(step);
        if let Ok(run) = &result {
            run.cancel();
        }
        self.lock().result = Some(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose cancellation calls devices.
    struct OnDevice;

    impl Cancel for OnDevice {
        fn cancel(&self) {
            assert_none_held("a plugin");
        }
    }

    #[test]
    fn no_lock_is_held_while_a_run_is_cancelled() {
        let after = Retry::default();
        after.end(Ok(OnDevice));
        after.cancel();
        assert!(after.poll(Waker::noop()).is_some_and(|run| run.is_ok()));
        let before = Retry::default();
        before.cancel();
        before.end(Ok(OnDevice));
        assert!(before.wait(Duration::ZERO).is_some_and(|run| run.is_ok()));
        assert!(before.wait(Duration::ZERO).is_none());
    }
}
