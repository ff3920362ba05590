//! A device's queue of runs that compute on the host: its turns, and the threads that serve runs nobody waits for.
//!
//! `execute` must not wait, and handing a run of some microseconds to another thread costs as much as the run. So a
//! run is queued; a host that then waits computes it in place, and a host that does something else is served by
//! the [`Runner`]. A device computes one run at a time, or several on the places it has ([`RunQueue::with_places`]).
//!
//! Invariants:
//! 1. A thread of the runner takes the most urgent run that waits for nothing, the oldest of those; where all wait, the
//!    oldest. One of its threads at a time looks for one and waits for the places of one.
//! 2. Nothing is allocated once as many runs have been in flight as there will be.
//! 3. Dropping the [`Runner`] ends and joins its threads; the host's services are not used after that.
//! 4. Of a device that may hang ([`QueuedRun::MAY_HANG`]) only the runner computes runs: the most urgent that waits for
//!    nothing, the oldest of those; where all wait, the oldest, which waits for none of this queue, as a run waits only
//!    for those that were there before. Abandoning the queue ends all its runs as lost and leaves a thread behind that
//!    does not come back; no such thread is joined.
//! 5. While runs follow each other fast and their hosts compute them all, no push wakes the runner: waking a thread
//!    costs a host some microseconds, and the runner a core that the run may want. It looks by itself, within [`LONG_DOZE`].
//! 6. A thread of the runner holds places only for a run that waits for nothing but them.
//!
//! Not here: what a run is, and when a wait computes it in place (`run`); who goes first (`places`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::places::{Claim, Places};
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

/// Runs are made so many at once, before they are short: there are twice as many as are under way, and half of this.
/// Whoever signals a run holds it longer than whoever waits for it, on a busy machine for some milliseconds: the next
/// one needs another, and must not be the one to make it.
const GROWTH: usize = 8;

/// A run that waits in a [`RunQueue`].
pub trait QueuedRun: Send + Sync + 'static {
    /// Computing it may never come back.
    const MAY_HANG: bool;

    /// A run that is filled later.
    fn new() -> Self;

    /// Whether it is queued or computed.
    fn is_under_way(&self) -> bool;

    /// Makes a run that has ended as new. Allocates nothing.
    fn renew(&mut self);

    /// How urgent it is: the greater, the sooner.
    fn priority(&self) -> u8;

    /// When it was queued.
    fn since(&self) -> Instant;

    /// On how many of the device's places it computes; more than there are stands for all.
    fn places(&self) -> usize;

    /// Whether all that it waits for has ended, as far as can be told without waiting.
    fn is_ready(&self) -> bool;

    /// Computes it, unless another thread does or has, and tells its fence. Takes it out of the queue. In this turn
    /// where there is one, else it waits for its own.
    fn compute(&self, turn: Option<Turn<'_, Self>>)
    where
        Self: Sized;

    /// Ends it with this error, unless it has ended; true where a thread computes it, which then tells nobody.
    fn lose(&self, error: Error) -> bool;
}

struct State<R> {
    queued: VecDeque<Arc<R>>,
    places: Places,
    /// What the runner computes, of a device that may hang.
    current: Option<Arc<R>>,
    /// The runner's thread that serves; earlier ones were left behind.
    serving: u64,
    stop: bool,
    /// Threads of the runner, and how many of them wait for news: one does not while it is busy or watches.
    threads: usize,
    asleep: usize,
    /// One of those that are asleep has been woken and has not looked yet.
    rung: bool,
    /// A thread of the runner watches: it leaves a run its grace, dozes, or waits for a run's places.
    watch: Option<Watch<R>>,
    /// Places on which threads of the runner compute.
    served: usize,
    /// Runs pushed so far, wrapping.
    pushed: u32,
    /// Runs that left the queue since the runner took one last.
    in_place: u32,
}

/// What the runner's thread that watches does.
enum Watch<R> {
    /// It looks again by itself.
    Looks,
    /// It waits for the places of a run, until this bell rings.
    InLine(Arc<R>, Arc<Condvar>),
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
    /// Threads of the runner beside the first.
    others: Mutex<Vec<JoinHandle<()>>>,
}

/// Places of a device, to compute on; dropping it gives them back.
pub struct Turn<'a, R: QueuedRun> {
    queue: &'a RunQueue<R>,
    places: usize,
    /// Of a thread of the runner.
    served: bool,
}

impl<R: QueuedRun> Drop for Turn<'_, R> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.places.give_back(self.places);
        if self.served {
            state.served -= self.places;
        }
    }
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
        Self::made(host, lane, 1)
    }

    /// An empty queue of a device that computes several runs at once: it has so many places, and a run takes as many
    /// as [`QueuedRun::places`] says. Of a device that may hang the one thread computes its runs, whatever its places.
    #[must_use]
    pub fn with_places(host: HostServices, places: usize) -> Self {
        Self::made(host, 0, places)
    }

    fn made(host: HostServices, lane: usize, places: usize) -> Self {
        Self {
            host,
            lane,
            state: Mutex::new(State {
                queued: VecDeque::with_capacity(64),
                places: Places::new(places),
                current: None,
                serving: 0,
                stop: false,
                threads: 0,
                asleep: 0,
                rung: false,
                watch: None,
                served: 0,
                pushed: 0,
                in_place: 0,
            }),
            news: Condvar::new(),
            idle: Condvar::new(),
            runs: Mutex::new(Vec::new()),
            others: Mutex::new(Vec::new()),
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

    /// How many places the device has.
    pub fn places(&self) -> usize {
        self.state().places.all()
    }

    /// All places of the device, before any run that waits for some.
    pub fn turn(&self) -> Turn<'_, R> {
        self.wait_for(Claim {
            priority: u8::MAX,
            since: Instant::now(),
            places: usize::MAX,
        })
    }

    /// The turn of a run.
    pub(crate) fn turn_of(&self, run: &R) -> Turn<'_, R> {
        self.wait_for(claim_of(run))
    }

    /// The turn of a run that need not wait for it.
    pub(crate) fn try_turn_of(&self, run: &R) -> Option<Turn<'_, R>> {
        let claim = claim_of(run);
        let mut state = self.state();
        state.places.take(claim).then(|| self.granted(&state, claim))
    }

    fn wait_for(&self, claim: Claim) -> Turn<'_, R> {
        let mut state = self.state();
        if !state.places.take(claim) {
            let ticket = state.places.join(claim);
            let bell = Arc::clone(&ticket.bell);
            while !state.places.settle(&ticket) {
                state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.places.leave(ticket);
        }
        self.granted(&state, claim)
    }

    fn granted(&self, state: &State<R>, claim: Claim) -> Turn<'_, R> {
        Turn {
            queue: self,
            places: state.places.possible(claim).places,
            served: false,
        }
    }

    /// Wakes a thread of the runner that shall watch, where none does and one may be needed: where all places are
    /// with its threads, the first of them to end looks.
    fn wake(&self, state: &mut State<R>) -> bool {
        let needed =
            state.watch.is_none() && state.asleep > 0 && !state.rung && state.served < state.places.all();
        state.rung |= needed;
        needed
    }

    /// A run that nobody holds.
    pub fn take(&self) -> Arc<R> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = runs.iter().filter(|run| run.is_under_way()).count();
        let enough = 2 * (under_way + 1) + GROWTH / 2;
        let has_free = runs.iter().any(|run| Arc::strong_count(run) == 1);
        if runs.len() < enough || !has_free {
            runs.extend((0..GROWTH).map(|_| Arc::new(R::new())));
        }
        for run in runs.iter_mut() {
            if let Some(free) = Arc::get_mut(run) {
                free.renew();
                return Arc::clone(run);
            }
        }
        unreachable!("invariant: a run that was just made is free")
    }

    /// Queues a run that was filled.
    pub fn push(&self, run: &Arc<R>) {
        let mut state = self.state();
        state.queued.push_back(Arc::clone(run));
        state.pushed = state.pushed.wrapping_add(1);
        if let Some(Watch::InLine(other, bell)) = &state.watch
            && other.priority() < run.priority()
        {
            bell.notify_one();
        }
        let wakes = self.wake(&mut state);
        drop(state);
        if wakes {
            self.news.notify_one();
        }
    }

    /// Takes a run out that a thread has claimed.
    pub fn remove(&self, run: &R) {
        let mut state = self.state();
        if state.take(run) {
            state.in_place = state.in_place.saturating_add(1);
            if let Some(Watch::InLine(other, bell)) = &state.watch
                && std::ptr::eq(&**other, run)
            {
                bell.notify_one();
            }
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

    /// The next run for thread `serving`, and its turn where it need not wait for other runs first; `None` when the
    /// thread is to end.
    fn next(&self, serving: u64) -> Option<(Arc<R>, Option<Turn<'_, R>>)> {
        if R::MAY_HANG {
            self.next_ready(serving).map(|run| (run, None))
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
            let best = state.best().map_or(0, |(at, _)| at);
            if let Some(run) = state.queued.remove(best) {
                state.current = Some(Arc::clone(&run));
                return Some(run);
            }
            state = self.sleep(state);
        }
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State<R>>) -> MutexGuard<'a, State<R>> {
        state.asleep += 1;
        state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.asleep -= 1;
        state.rung = false;
        state
    }

    /// The next run, once its grace is over and there are places for it; `None` when the queue ends.
    fn next_unclaimed(&self) -> Option<(Arc<R>, Option<Turn<'_, R>>)> {
        let mut state = self.state();
        // when the queue was found empty last, and how much had been pushed then
        let (mut last, mut seen) = (None::<Instant>, state.pushed);
        let mut doze = DOZE;
        while !state.stop {
            if state.watch.is_some() {
                state = self.sleep(state);
                continue;
            }
            let Some((at, ready)) = state.best() else {
                let now = Instant::now();
                let fast = last.replace(now).is_some_and(|last| now - last < 2 * doze);
                let news = std::mem::replace(&mut seen, state.pushed) != state.pushed;
                if fast && news && state.in_place >= STREAM {
                    state.watch = Some(Watch::Looks);
                    state = match self.news.wait_timeout(state, doze) {
                        Ok((state, _)) => state,
                        Err(poisoned) => poisoned.into_inner().0,
                    };
                    state.watch = None;
                    doze = LONG_DOZE.min(2 * doze);
                } else {
                    doze = DOZE;
                    state = self.sleep(state);
                }
                continue;
            };
            let run = Arc::clone(&state.queued[at]);
            if run.since().elapsed() < GRACE {
                state.watch = Some(Watch::Looks);
                drop(state);
                std::thread::yield_now();
                state = self.state();
                state.watch = None;
                continue;
            }
            let claim = claim_of(&*run);
            let mut granted = ready && state.places.take(claim);
            if ready && !granted {
                let ticket = state.places.join(claim);
                state.watch = Some(Watch::InLine(Arc::clone(&run), Arc::clone(&ticket.bell)));
                let bell = Arc::clone(&ticket.bell);
                state = bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.watch = None;
                granted = state.places.settle(&ticket);
                state.places.leave(ticket);
                if !granted {
                    continue;
                }
            }
            let mut turn = granted.then(|| self.granted(&state, claim));
            // its host may have claimed it while this thread waited for its places
            let taken = state.take(&run);
            state.in_place *= u32::from(!taken);
            if let Some(turn) = turn.as_mut().filter(|_| taken) {
                turn.served = true;
                state.served += turn.places;
            }
            // another thread watches
            let wakes = taken && !state.queued.is_empty() && self.wake(&mut state);
            drop(state);
            if wakes {
                self.news.notify_one();
            }
            if taken {
                return Some((run, turn));
            }
            drop(turn);
            state = self.state();
        }
        None
    }

    /// Whether a thread of the runner that begins to compute leaves none behind that would serve the next run, while
    /// the device may have a place for it. The caller then starts one.
    fn needs_thread(&self) -> bool {
        let mut state = self.state();
        let needs = !R::MAY_HANG
            && !state.stop
            && state.asleep == 0
            && state.watch.is_none()
            && state.served < state.places.all()
            && state.threads < state.places.all();
        state.threads += usize::from(needs);
        needs
    }
}

impl<R: QueuedRun> State<R> {
    /// The most urgent run that is ready, the oldest of those, else the oldest of all; where it is, and whether it is
    /// ready.
    fn best(&self) -> Option<(usize, bool)> {
        let mut best: Option<usize> = None;
        for (at, run) in self.queued.iter().enumerate() {
            let more = best.is_none_or(|best| run.priority() > self.queued[best].priority());
            if more && run.is_ready() {
                best = Some(at);
            }
        }
        let oldest = (!self.queued.is_empty()).then_some((0, false));
        best.map(|at| (at, true)).or(oldest)
    }

    /// Takes a run out of the queue, where it is in it.
    fn take(&mut self, run: &R) -> bool {
        let mut queued = self.queued.iter();
        let at = queued.position(|queued| std::ptr::eq(&**queued, run));
        at.is_some_and(|at| self.queued.remove(at).is_some())
    }
}

fn claim_of<R: QueuedRun>(run: &R) -> Claim {
    Claim {
        priority: run.priority(),
        since: run.since(),
        places: run.places(),
    }
}

/// The threads that serve runs nobody waits for: as many as the device has places, each made when the others are busy.
pub struct Runner<R: QueuedRun> {
    queue: Arc<RunQueue<R>>,
    name: String,
    /// The first thread, and its number.
    thread: Mutex<(u64, Option<JoinHandle<()>>)>,
}

impl<R: QueuedRun> Runner<R> {
    /// Starts the first under this name.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(queue: &Arc<RunQueue<R>>, name: &str) -> Result<Self> {
        let mut state = queue.state();
        let serving = state.serving;
        state.threads = 1;
        drop(state);
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
    let own = name.to_owned();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            while let Some((run, turn)) = queue.next(serving) {
                if queue.needs_thread() {
                    start_another(&queue, serving, &own);
                }
                run.compute(turn);
            }
        })
        .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("no thread for runs: {error}")))
}

/// Starts a thread that serves beside others; where the system has none left, they do alone.
fn start_another<R: QueuedRun>(queue: &Arc<RunQueue<R>>, serving: u64, name: &str) {
    if let Ok(thread) = spawn(queue, serving, name) {
        let mut others = queue.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push(thread);
    }
}

impl<R: QueuedRun> Drop for Runner<R> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.stop = true;
        if let Some(Watch::InLine(_, bell)) = &state.watch {
            bell.notify_one();
        }
        drop(state);
        self.queue.news.notify_all();
        let hangs = R::MAY_HANG && self.hangs();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut next = thread.1.take().filter(|_| !hangs);
        while let Some(thread) = next {
            // a run reports through its fence, so there is nothing to report here
            let _ = thread.join();
            // whoever was joined starts no more
            let mut others = self.queue.others.lock().unwrap_or_else(PoisonError::into_inner);
            next = others.pop();
        }
    }
}
