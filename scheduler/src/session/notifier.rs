//! Notifications of ended parts and queue grants, so that one thread waits for whichever comes
//! first.
//!
//! Invariants:
//! 1. A notification between two looks is never missed: the waiter passes the last one that it saw.
//! 2. Notifying and waiting allocate nothing. A notification of a finished run causes at most one
//!    extra look.
//!
//! Not here: the awaited parts (`run_state`).

use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

use polychip_host::{CheckedMutex, Fence, Signal};

use crate::lock_order::NOTIFICATIONS;

#[derive(Default)]
struct State {
    count: CheckedMutex<u64, NOTIFICATIONS>,
    changed: Condvar,
}

impl State {
    fn notify(&self) {
        *self.count.lock() += 1;
        self.changed.notify_all();
    }
}

/// Notifies the waiting thread of a run.
#[derive(Clone)]
pub(crate) struct Waker(Arc<State>);

impl Waker {
    pub(crate) fn notify(&self) {
        self.0.notify();
    }
}

/// The notifications of one run.
pub(crate) struct Notifier {
    state: Arc<State>,
    signal: Arc<Signal>,
}

impl Notifier {
    pub(crate) fn new() -> Notifier {
        let state = Arc::<State>::default();
        let own = Arc::clone(&state);
        let signal = Signal::new(move |_| own.notify());
        Notifier { state, signal }
    }

    /// A waker for notifications other than ends of parts.
    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.state))
    }

    /// Notifies at the end of a part. False if its plugin has no end notifications.
    pub(crate) fn subscribe(&self, fence: &Fence) -> bool {
        // the waiter of the fence reports its error
        fence.on_signal(&self.signal).unwrap_or(false)
    }

    /// Rings so far.
    pub(crate) fn count(&self) -> u64 {
        *self.state.count.lock()
    }

    /// Waits for a notification after the first `seen`, at most `timeout`.
    pub(crate) fn wait(&self, seen: u64, timeout: Duration) {
        let start = Instant::now();
        let mut count = self.state.count.lock();
        while *count == seen {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return;
            }
            count = count.wait_timeout(&self.state.changed, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_before_the_wait_is_not_missed() {
        let notifier = Notifier::new();
        let seen = notifier.count();
        *notifier.state.count.lock() += 1;
        notifier.wait(seen, Duration::from_secs(3600));
        assert_eq!(notifier.count(), seen + 1);
        notifier.wait(seen + 1, Duration::from_millis(1));
    }
}
