//! The device's queue of runs, its turn, and the thread that serves runs nobody waits for.
//!
//! Invariants:
//! 1. The runner takes the most urgent run, the oldest of those.
//! 2. Nothing is allocated once as many runs have been in flight as there will be.
//! 3. Dropping the [`Runner`] ends and joins its thread; the host's services are not used after that.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use polychip_sdk::{Error, ErrorKind, HostServices, Result};

use super::run::OpenvinoRun;

/// How long the runner leaves a run to a host that is about to wait for it: longer than the way from `execute` to
/// `fence_wait`, shorter than waking a thread twice.
const GRACE: Duration = Duration::from_micros(20);

#[derive(Default)]
struct State {
    queued: VecDeque<Arc<OpenvinoRun>>,
    stop: bool,
}

/// Runs of one device.
pub(crate) struct Queue {
    host: HostServices,
    state: Mutex<State>,
    news: Condvar,
    runs: Mutex<Vec<Arc<OpenvinoRun>>>,
    turn: Mutex<()>,
}

impl Queue {
    /// An empty queue.
    pub(crate) fn new(host: HostServices) -> Queue {
        Queue {
            host,
            state: Mutex::new(State {
                queued: VecDeque::with_capacity(64),
                stop: false,
            }),
            news: Condvar::new(),
            runs: Mutex::new(Vec::new()),
            turn: Mutex::new(()),
        }
    }

    /// The host's clock.
    pub(super) fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's turn: one run computes at a time.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's turn where no run computes now.
    pub(super) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A run that nobody holds.
    pub(super) fn take(&self) -> Arc<OpenvinoRun> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for run in runs.iter_mut() {
            if let Some(free) = Arc::get_mut(run) {
                free.renew();
                return Arc::clone(run);
            }
        }
        let run = Arc::new(OpenvinoRun::new());
        runs.push(Arc::clone(&run));
        run
    }

    /// Queues a run that was filled.
    pub(super) fn push(&self, run: &Arc<OpenvinoRun>) {
        self.state().queued.push_back(Arc::clone(run));
        self.news.notify_one();
    }

    /// Takes a run out that a thread has claimed.
    pub(super) fn remove(&self, run: &OpenvinoRun) {
        let mut state = self.state();
        let at = state
            .queued
            .iter()
            .position(|queued| std::ptr::eq(&**queued, run));
        if let Some(at) = at {
            state.queued.remove(at);
        }
    }

    /// The most urgent run, once its grace is over; `None` when the queue ends.
    fn next(&self) -> Option<Arc<OpenvinoRun>> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            let mut best: Option<&Arc<OpenvinoRun>> = None;
            for run in &state.queued {
                if best.is_none_or(|best| run.priority() > best.priority()) {
                    best = Some(run);
                }
            }
            match best {
                None => state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(run) if run.age() >= GRACE => return Some(Arc::clone(run)),
                Some(_) => {
                    drop(state);
                    std::thread::yield_now();
                    state = self.state();
                }
            }
        }
    }
}

/// The thread that serves runs nobody waits for.
pub(crate) struct Runner {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts it.
    pub(crate) fn start(queue: &Arc<Queue>) -> Result<Runner> {
        let own = Arc::clone(queue);
        let thread = std::thread::Builder::new()
            .name("polychip-openvino-runs".to_owned())
            .spawn(move || {
                while let Some(run) = own.next() {
                    run.compute();
                }
            })
            .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("no thread for runs: {error}")))?;
        Ok(Runner {
            queue: Arc::clone(queue),
            thread: Some(thread),
        })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.queue.state().stop = true;
        self.queue.news.notify_all();
        if let Some(thread) = self.thread.take() {
            // a run reports through its fence, so there is nothing to report here
            let _ = thread.join();
        }
    }
}
