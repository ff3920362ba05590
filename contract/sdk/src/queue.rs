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
//! 4. Of a device that may hang ([`QueuedRun::MAY_HANG`]) only the runner computes runs: the most urgent that waits for
//!    nothing, the oldest of those; where all wait, the oldest, which waits for none of this queue, as a run waits only
//!    for those that were there before. Abandoning the queue ends all its runs as lost and leaves a thread behind that
//!    does not come back; no such thread is joined.
//! 5. While runs follow each other fast and their hosts compute them all, no push wakes the runner: waking a thread
//!    costs a host some microseconds, and the runner a core that the run may want. It looks by itself, within [`LONG_DOZE`].
//!
//! Not here: what a run is, and when a wait computes it in place (`run`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{Error, ErrorKind, HostServices, Result};

/// How long the runner leaves a run to a host that is about to wait for it: longer than the way from `execute` to
/// `fence_wait`, shorter than waking a thread twice.
const GRACE: Duration = Duration::from_micros(20);

/// How soon, at first, the runner looks for a run that nobody waits for in a stream of runs that were all waited for;
/// then after twice that, and so on.
const DOZE: Duration = Duration::from_micros(500);

/// The longest that it leaves such a run: waking takes a virtual machine's core some 30 µs.
const LONG_DOZE: Duration = Duration::from_millis(4);

/// Runs in a row, computed by hosts that waited for them, after which the next ones are taken to be such too.
const STREAM: u32 = 16;

/// How long the end of a queue waits for a run that is with a device that may hang.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs that are made at once. Whoever signals a run holds it a moment longer than whoever waits for it: the next one
/// needs another, and must not be the one to make it.
const GROWTH: usize = 4;

/// A run that waits in a [`RunQueue`].
pub trait QueuedRun: Send + Sync + 'static {
    /// Computing it may never come back.
    const MAY_HANG: bool;

    /// A run that is filled later.
    fn new() -> Self;

    /// Makes a run that has ended as new. Allocates nothing.
    fn renew(&mut self);

    /// How urgent it is: the greater, the sooner.
    fn priority(&self) -> u8;

    /// How long ago it was queued.
    fn age(&self) -> Duration;

    /// Whether all that it waits for has ended.
    fn is_ready(&self) -> bool;

    /// Computes it, unless another thread does or has, and tells its fence. Takes it out of the queue.
    fn compute(&self);

    /// Ends it with this error, unless it has ended; true where a thread computes it, which then tells nobody.
    fn lose(&self, error: Error) -> bool;
}

struct State<R> {
    queued: VecDeque<Arc<R>>,
    /// What the runner computes, of a device that may hang.
    current: Option<Arc<R>>,
    /// The runner's thread that serves; earlier ones were left behind.
    serving: u64,
    stop: bool,
    /// The runner waits for news; it does not while it is busy or dozes.
    asleep: bool,
    /// Runs pushed so far, wrapping.
    pushed: u32,
    /// Runs that left the queue since the runner took one last.
    in_place: u32,
}

/// Runs of one device.
pub struct RunQueue<R> {
    host: HostServices,
    lane: usize,
    state: Mutex<State<R>>,
    news: Condvar,
    /// The runner has no run any more.
    idle: Condvar,
    runs: Mutex<Vec<Arc<R>>>,
    turn: Mutex<()>,
}

impl<R: QueuedRun> RunQueue<R> {
    /// An empty queue.
    #[must_use]
    pub fn new(host: HostServices) -> Self {
        Self::of_lane(host, 0)
    }

    /// An empty queue of one of the lanes of a device whose runs take turns by lane.
    #[must_use]
    pub fn of_lane(host: HostServices, lane: usize) -> Self {
        Self {
            host,
            lane,
            state: Mutex::new(State {
                queued: VecDeque::with_capacity(64),
                current: None,
                serving: 0,
                stop: false,
                asleep: false,
                pushed: 0,
                in_place: 0,
            }),
            news: Condvar::new(),
            idle: Condvar::new(),
            runs: Mutex::new(Vec::new()),
            turn: Mutex::new(()),
        }
    }

    /// Which lane it is; 0 where the device has one.
    pub fn lane(&self) -> usize {
        self.lane
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
        runs.extend((1..GROWTH).map(|_| Arc::new(R::new())));
        run
    }

    /// Queues a run that was filled.
    pub fn push(&self, run: &Arc<R>) {
        let mut state = self.state();
        state.queued.push_back(Arc::clone(run));
        state.pushed = state.pushed.wrapping_add(1);
        let asleep = state.asleep;
        drop(state);
        if asleep {
            self.news.notify_one();
        }
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
            state.in_place = state.in_place.saturating_add(1);
        }
    }

    /// Takes note that a run has ended, before its fence says so.
    pub(crate) fn ended(&self, run: &R) {
        if R::MAY_HANG {
            self.state()
                .current
                .take_if(|current| std::ptr::eq(&**current, run));
            self.idle.notify_all();
        }
    }

    /// Ends all runs as lost, of a device that was reset. True where one was with the device: its thread is left
    /// behind, with all that the run holds, and [`Runner::keep_serving`] starts another.
    pub fn abandon(&self) -> bool {
        let mut state = self.state();
        let current = state.current.take();
        let queued = std::mem::take(&mut state.queued);
        drop(state);
        let lost = || Error::new(ErrorKind::DeviceLost, "the device was reset under the run");
        for run in &queued {
            run.lose(lost());
        }
        let left = current.is_some_and(|run| run.lose(lost()));
        if left {
            self.state().serving += 1;
        }
        left
    }

    /// The next run for thread `serving`; `None` when it is to end.
    fn next(&self, serving: u64) -> Option<Arc<R>> {
        if R::MAY_HANG {
            self.next_ready(serving)
        } else {
            self.next_unclaimed()
        }
    }

    /// The most urgent run that is ready, else the oldest.
    fn next_ready(&self, serving: u64) -> Option<Arc<R>> {
        let mut state = self.state();
        loop {
            if state.stop || state.serving != serving {
                return None;
            }
            let mut best: Option<usize> = None;
            for (at, run) in state.queued.iter().enumerate() {
                let more = best.is_none_or(|best| run.priority() > state.queued[best].priority());
                if more && run.is_ready() {
                    best = Some(at);
                }
            }
            if let Some(run) = state.queued.remove(best.unwrap_or(0)) {
                state.current = Some(Arc::clone(&run));
                return Some(run);
            }
            state.asleep = true;
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep = false;
        }
    }

    /// The most urgent run, once its grace is over; `None` when the queue ends.
    fn next_unclaimed(&self) -> Option<Arc<R>> {
        let mut state = self.state();
        // when the queue was found empty last, and how much had been pushed then
        let (mut last, mut seen) = (None::<Instant>, state.pushed);
        let mut doze = DOZE;
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
                None => {
                    let now = Instant::now();
                    let fast = last.replace(now).is_some_and(|last| now - last < 2 * doze);
                    let news = std::mem::replace(&mut seen, state.pushed) != state.pushed;
                    if fast && news && state.in_place >= STREAM {
                        state = match self.news.wait_timeout(state, doze) {
                            Ok((state, _)) => state,
                            Err(poisoned) => poisoned.into_inner().0,
                        };
                        doze = LONG_DOZE.min(2 * doze);
                        continue;
                    }
                    doze = DOZE;
                    state.asleep = true;
                    state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.asleep = false;
                }
                Some(run) if run.age() >= GRACE => {
                    let run = Arc::clone(run);
                    state.in_place = 0;
                    return Some(run);
                }
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
    name: String,
    /// The thread and its number.
    thread: Mutex<(u64, Option<JoinHandle<()>>)>,
}

impl<R: QueuedRun> Runner<R> {
    /// Starts it under this name.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(queue: &Arc<RunQueue<R>>, name: &str) -> Result<Self> {
        let serving = queue.state().serving;
        Ok(Self {
            queue: Arc::clone(queue),
            name: name.to_owned(),
            thread: Mutex::new((serving, Some(spawn(queue, serving, name)?))),
        })
    }

    /// Starts another thread in place of one that was left behind, where none serves.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn keep_serving(&self) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let serving = self.queue.state().serving;
        if thread.0 != serving {
            // the old one is dropped, not joined: it may never come back
            *thread = (serving, Some(spawn(&self.queue, serving, &self.name)?));
        }
        Ok(())
    }

    /// Ends what runs on a device that may hang; true where its thread does not come back.
    fn hangs(&self) -> bool {
        let queue = &*self.queue;
        let lost = || Error::new(ErrorKind::DeviceLost, "the device was closed under the run");
        let current = queue.state().current.clone();
        if let Some(current) = current {
            // one that waits for another gives up; one with the device ends by itself
            current.lose(lost());
        }
        let (mut state, _) = queue
            .idle
            .wait_timeout_while(queue.state(), PATIENCE, |state| state.current.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        let hangs = state.current.is_some();
        if hangs {
            // left behind, with all that it holds
            state.serving += 1;
        }
        let queued = std::mem::take(&mut state.queued);
        drop(state);
        for run in &queued {
            run.lose(lost());
        }
        hangs
    }
}

fn spawn<R: QueuedRun>(queue: &Arc<RunQueue<R>>, serving: u64, name: &str) -> Result<JoinHandle<()>> {
    let queue = Arc::clone(queue);
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            while let Some(run) = queue.next(serving) {
                run.compute();
            }
        })
        .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("no thread for runs: {error}")))
}

impl<R: QueuedRun> Drop for Runner<R> {
    fn drop(&mut self) {
        self.queue.state().stop = true;
        self.queue.news.notify_all();
        let hangs = R::MAY_HANG && self.hangs();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.1.take().filter(|_| !hangs) {
            // a run reports through its fence, so there is nothing to report here
            let _ = thread.join();
        }
    }
}
