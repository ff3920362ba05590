//! Notifications of ended parts and queue grants, so that one thread waits for whichever comes
//! first.
//!
//! Invariants:
//! 1. A notification between two looks is never missed: the waiter passes the last one that it saw.
//! 2. Notifying and waiting allocate nothing. A notification of a finished run causes at most one
//!    extra look.
//!
//! Not here: the awaited parts (`run_state`).

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use polychip_host::{Fence, Signal};

#[derive(Default)]
struct State {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl State {
    fn ring(&self) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.rung.notify_all();
    }
}

/// What others ring a bell by.
#[derive(Clone)]
pub(crate) struct Waker(Arc<State>);

impl Waker {
    pub(crate) fn ring(&self) {
        self.0.ring();
    }
}

/// The bell of one slot.
pub(crate) struct Notifier {
    state: Arc<State>,
    signal: Arc<Signal>,
}

impl Notifier {
    pub(crate) fn new() -> Notifier {
        let state = Arc::<State>::default();
        let own = Arc::clone(&state);
        let signal = Signal::new(move |_| own.ring());
        Notifier { state, signal }
    }

    /// For what rings it that is no end of a part.
    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.state))
    }

    /// Has the end of a run ring. False where its plugin does not tell of ends.
    pub(crate) fn hang_on(&self, fence: &Fence) -> bool {
        // what went wrong is said by whoever waits for the fence
        fence.on_signal(&self.signal).unwrap_or(false)
    }

    /// Rings so far.
    pub(crate) fn rings(&self) -> u64 {
        *self.state.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there were more rings than `seen`, at most `timeout`.
    pub(crate) fn wait(&self, seen: u64, timeout: Duration) {
        let rings = self.state.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .state
            .rung
            .wait_timeout_while(rings, timeout, |rings| *rings == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_before_the_wait_is_not_missed() {
        let bell = Notifier::new();
        let seen = bell.rings();
        *bell.state.rings.lock().unwrap() += 1;
        bell.wait(seen, Duration::from_secs(3600));
        assert_eq!(bell.rings(), seen + 1);
        bell.wait(seen + 1, Duration::from_millis(1));
    }
}
