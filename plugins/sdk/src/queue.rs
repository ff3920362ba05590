//! A device's queue of runs that compute on the host: its turn, and the thread that serves runs nobody waits for.
//!
//! `execute` must not wait, and handing a run of some microseconds to another thread costs as much as the run. So a
//! run is queued; a host that then waits computes it in place, and a host that does something else is served by
//! the [`Runner`].
//!
//! Invariants:
//! 1. The runner takes the most urgent run, the oldest of those.
//! 2. Nothing is allocated once as many runs have been in flight as there will be.
//! 3. Dropping the [`Runner`] ends and joins its thread; the host's services are not used after that.
//!
//! Not here: what a run computes ([`QueuedRun::compute`]), and when a wait computes it in place.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{Error, ErrorKind, HostServices, Result};

/// How long the runner leaves a run to a host that is about to wait for it: longer than the way from `execute` to
/// `fence_wait`, shorter than waking a thread twice.
const GRACE: Duration = Duration::from_micros(20);

/// A run that waits in a [`RunQueue`].
pub trait QueuedRun: Send + Sync + 'static {
    /// A run that is filled later.
    fn new() -> Self;

    /// Makes a run that has ended as new. Allocates nothing.
    fn renew(&mut self);

    /// How urgent it is: the greater, the sooner.
    fn priority(&self) -> u8;

    /// How long ago it was queued.
    fn age(&self) -> Duration;

    /// Computes it, unless another thread does or has, and tells its fence. Takes it out of the queue.
    fn compute(&self);
}

struct State<R> {
    queued: VecDeque<Arc<R>>,
    stop: bool,
}

/// Runs of one device.
pub struct RunQueue<R> {
    host: HostServices,
    state: Mutex<State<R>>,
    news: Condvar,
    runs: Mutex<Vec<Arc<R>>>,
    turn: Mutex<()>,
}

impl<R: QueuedRun> RunQueue<R> {
    /// An empty queue.
    #[must_use]
    pub fn new(host: HostServices) -> Self {
        Self {
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
    pub fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's turn: one run computes at a time.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's turn where no run computes now.
    pub fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A run that nobody holds.
    pub fn take(&self) -> Arc<R> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for run in runs.iter_mut() {
            if let Some(free) = Arc::get_mut(run) {
                free.renew();
                return Arc::clone(run);
            }
        }
        let run = Arc::new(R::new());
        runs.push(Arc::clone(&run));
        run
    }

    /// Queues a run that was filled.
    pub fn push(&self, run: &Arc<R>) {
        self.state().queued.push_back(Arc::clone(run));
        self.news.notify_one();
    }

    /// Takes a run out that a thread has claimed.
    pub fn remove(&self, run: &R) {
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
    fn next(&self) -> Option<Arc<R>> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            let mut best: Option<&Arc<R>> = None;
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
pub struct Runner<R: QueuedRun> {
    queue: Arc<RunQueue<R>>,
    thread: Option<JoinHandle<()>>,
}

impl<R: QueuedRun> Runner<R> {
    /// Starts it under this name.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(queue: &Arc<RunQueue<R>>, name: &str) -> Result<Self> {
        let own = Arc::clone(queue);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                while let Some(run) = own.next() {
                    run.compute();
                }
            })
            .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("no thread for runs: {error}")))?;
        Ok(Self {
            queue: Arc::clone(queue),
            thread: Some(thread),
        })
    }
}

impl<R: QueuedRun> Drop for Runner<R> {
    fn drop(&mut self) {
        self.queue.state().stop = true;
        self.queue.news.notify_all();
        if let Some(thread) = self.thread.take() {
            // a run reports through its fence, so there is nothing to report here
            let _ = thread.join();
        }
    }
}
