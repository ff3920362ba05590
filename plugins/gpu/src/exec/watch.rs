//! Watches a device: how many runs are in flight, which callbacks are registered, and whether it hangs.
//!
//! Invariant: a device on which nothing ends for the limit is lost: no wait is longer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::driver::gpu::Gpu;
use crate::shared::lock;

#[derive(Default)]
pub(super) struct State {
    pub(super) stop: bool,
    /// Somebody wants to be called.
    pub(super) hurry: bool,
    /// The thread sleeps until it is woken.
    pub(super) asleep: bool,
}

/// What is under way on a device.
pub(crate) struct Watch {
    pub(super) state: Mutex<State>,
    pub(super) news: Condvar,
    pub(super) in_flight: AtomicUsize,
    hang: Duration,
    base: Instant,
    /// When a run ended last, in milliseconds since `base`.
    progress: AtomicU64,
}

impl Watch {
    /// Of a device that is lost when nothing ends for `hang`.
    pub(crate) fn new(hang: Duration) -> Watch {
        Watch {
            state: Mutex::default(),
            news: Condvar::new(),
            in_flight: AtomicUsize::new(0),
            hang,
            base: Instant::now(),
            progress: AtomicU64::new(0),
        }
    }

    /// A run begins.
    pub(super) fn started(&self) {
        if self.in_flight.fetch_add(1, Ordering::AcqRel) == 0 && lock(&self.state).asleep {
            self.news.notify_one();
        }
    }

    /// A run has ended.
    pub(super) fn ended(&self) {
        let now = self.base.elapsed().as_millis() as u64;
        self.progress.store(now, Ordering::Release);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Somebody wants to be called when a run ends.
    pub(super) fn hurry(&self) {
        let mut state = lock(&self.state);
        if !state.hurry {
            state.hurry = true;
            self.news.notify_one();
        }
    }

    /// Says that the device is lost where nothing has ended for the limit, and nothing since `since`.
    pub(super) fn watch_hang(&self, gpu: &Gpu, since: Instant) {
        let ended = self.base + Duration::from_millis(self.progress.load(Ordering::Acquire));
        if since.max(ended).elapsed() > self.hang {
            gpu.lose(format!(
                "the GPU has ended no run for {} ms (setting hang_ms) and counts as hung",
                self.hang.as_millis()
            ));
        }
    }
}
