//! The thread that looks after runs nobody waits for, and the eye on the device: whether it hangs.
//!
//! Invariants:
//! 1. A run that has callbacks, or that is held back, is looked at without rest; others some times a second, so
//!    that what they hold is let go of.
//! 2. A device on which nothing ends for the limit is lost: no wait is longer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polychip_sdk::{Error, ErrorKind, Fence as _, Result};

use super::{Pool, lock};
use crate::driver::gpu::Gpu;

/// How often runs are looked at that nobody asks for.
const ROUND: Duration = Duration::from_millis(50);
/// After so long without a run the thread sleeps until there is one.
const LINGER: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    stop: bool,
    /// Somebody wants to be called.
    hurry: bool,
    /// The thread sleeps until it is woken.
    asleep: bool,
}

/// What is under way on a device.
pub(crate) struct Watch {
    state: Mutex<State>,
    news: Condvar,
    in_flight: AtomicUsize,
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

    /// Waits until all runs have ended, as the limit has it.
    pub(crate) fn drain(&self, pool: &Pool) {
        let mut list = Vec::new();
        loop {
            pool.in_flight(&mut list);
            let Some(run) = list.first() else { return };
            // how it ends is told by its fence
            let _ = run.wait(50_000_000);
        }
    }
}

/// The thread.
pub(crate) struct Runner {
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(watch: &Arc<Watch>, pool: &Arc<Pool>) -> Result<Runner> {
        let (own, pool) = (Arc::clone(watch), Arc::clone(pool));
        let thread = std::thread::Builder::new()
            .name("polychip-gpu-runs".to_owned())
            .spawn(move || serve(&own, &pool))
            .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("no thread for runs: {error}")))?;
        Ok(Runner {
            watch: Arc::clone(watch),
            thread: Some(thread),
        })
    }
}

fn serve(watch: &Watch, pool: &Pool) {
    let mut list = Vec::new();
    let mut quiet = Instant::now();
    loop {
        let hurry = {
            let mut state = lock(&watch.state);
            if state.stop {
                return;
            }
            if watch.in_flight.load(Ordering::Acquire) > 0 {
                quiet = Instant::now();
            } else {
                state.hurry = false;
            }
            if !state.hurry {
                let rest = if quiet.elapsed() > LINGER {
                    Duration::MAX
                } else {
                    ROUND
                };
                state.asleep = rest == Duration::MAX;
                state = match rest {
                    Duration::MAX => watch
                        .news
                        .wait(state)
                        .unwrap_or_else(std::sync::PoisonError::into_inner),
                    rest => {
                        watch
                            .news
                            .wait_timeout(state, rest)
                            .unwrap_or_else(std::sync::PoisonError::into_inner)
                            .0
                    }
                };
                state.asleep = false;
            }
            if state.stop {
                return;
            }
            state.hurry
        };
        pool.in_flight(&mut list);
        for run in &list {
            run.nudge();
        }
        if let Some(run) = list.first().filter(|_| hurry) {
            // how it ends is told by its fence
            let _ = run.wait(1_000_000);
        }
        list.clear();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        lock(&self.watch.state).stop = true;
        self.watch.news.notify_all();
        if let Some(thread) = self.thread.take() {
            // a run reports through its fence, so there is nothing to report here
            let _ = thread.join();
        }
    }
}
