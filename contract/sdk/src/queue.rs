//! A device's queue of runs that compute on the host, its execution slots, and the threads that
//! serve runs without a waiting host.
//!
//! `execute` must not wait, and passing a run of a few microseconds to another thread costs as much
//! as the run. A run is therefore queued. If the host waits for it, the host's thread computes it;
//! otherwise the [`Runner`] does. A device computes one run at a time, or several at once if it has
//! several slots ([`RunQueue::with_slots`]).
//!
//! Invariants:
//! 1. A runner thread takes the most urgent run that is ready (its dependencies have ended), the
//!    oldest of those. If none is ready, it takes the oldest. One runner thread at a time looks for
//!    a run and waits for its slots.
//! 2. Nothing is allocated once the number of runs in flight has reached its maximum.
//! 3. Dropping the [`Runner`] ends and joins its threads; the host's services are not used
//!    afterwards.
//! 4. On a device that may hang ([`QueuedRun::MAY_HANG`]) only the runner computes runs, in the
//!    order of 1. The oldest run waits for no run of this queue, because a run waits only for
//!    earlier runs. Abandoning the queue ends all its runs as lost and leaves behind a thread that
//!    does not return; such a thread is never joined.
//! 5. While runs follow each other quickly and their hosts compute them all, no push wakes the
//!    runner: waking a thread costs a host some microseconds, and the runner a core that the run
//!    may need. The runner then polls, at most [`LONGEST_POLL`] apart.
//! 6. A runner thread holds slots only for a run that waits for nothing else.
//!
//! Not a channel of crossbeam's: a runner takes the most urgent run that is ready, hosts take theirs
//! out of the middle, and nothing may be allocated.
//!
//! Not here: the run itself, and when a wait computes it (`run`); the order of runs
//! (`execution_slots`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::execution_slots::{Claim, ExecutionSlots};
use crate::{Error, ErrorKind, HostServices, Result};

/// Time for which the runner leaves a run to a host that is about to wait for it: longer than from
/// `execute` to `fence_wait`, shorter than waking a thread twice.
const GRACE: Duration = Duration::from_micros(20);

/// First polling interval of the runner during a stream of runs that hosts compute. Every interval
/// is twice the one before.
const FIRST_POLL: Duration = Duration::from_micros(500);

/// Longest polling interval. Waking takes a virtual machine's core some 30 µs.
const LONGEST_POLL: Duration = Duration::from_millis(4);

/// Number of consecutive runs computed by their hosts after which the next ones are expected to be,
/// too.
const STREAM: u32 = 16;

/// Time for which closing a queue waits for the run that is on a device that may hang.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of runs allocated at once, before they run out: the pool holds twice as many as are in
/// flight, plus half of this. A signalling thread holds a run longer than its waiter does, on a
/// busy machine for some milliseconds. The next run then needs another object, and must not be the
/// one to allocate it.
const GROWTH: usize = 8;

/// A run in a [`RunQueue`].
pub trait QueuedRun: Send + Sync + 'static {
    /// Whether computing a run may hang.
    const MAY_HANG: bool;

    /// An empty run, to be filled later.
    fn new() -> Self;

    /// Whether it is queued or being computed.
    fn is_under_way(&self) -> bool;

    /// Resets a run that has ended. Does not allocate.
    fn renew(&mut self);

    /// Urgency; higher goes first.
    fn priority(&self) -> u8;

    /// Time at which it was queued.
    fn since(&self) -> Instant;

    /// Number of execution slots that it occupies; a number above the device's means all.
    fn slots(&self) -> usize;

    /// Whether all runs that this run depends on have ended, as far as is known without waiting.
    fn is_ready(&self) -> bool;

    /// Removes the run from the queue, computes it and signals its fence. Does nothing if another
    /// thread has claimed the run. Computes on the slots of `grant`; without a grant, waits for slots.
    fn compute(&self, grant: Option<QueueGrant<'_, Self>>)
    where
        Self: Sized;

    /// Ends the run with this error, unless it has ended. Returns true if a thread is computing the
    /// run; that thread's result is then discarded.
    fn lose(&self, error: Error) -> bool;
}

struct State<R> {
    queued: VecDeque<Arc<R>>,
    slots: ExecutionSlots,
    /// The run that the runner computes, on a device that may hang.
    current: Option<Arc<R>>,
    /// Number of the runner's serving thread. Earlier threads were left behind.
    serving: u64,
    stop: bool,
    /// Threads of the runner, and how many of them sleep. A thread that is busy or watches does not
    /// sleep.
    threads: usize,
    asleep: usize,
    /// One of the sleeping threads has been woken and has not looked yet.
    woken: bool,
    /// A runner thread watches: it gives a run its grace time, polls, or waits for a run's slots.
    watch: Option<Watch<R>>,
    /// Slots on which runner threads compute.
    runner_slots: usize,
    /// Number of runs pushed so far, wrapping.
    pushed: u32,
    /// Number of runs that left the queue since the runner last took one.
    computed_by_hosts: u32,
}

/// Activity of the runner thread that watches.
enum Watch<R> {
    /// It polls.
    Looks,
    /// It waits for the slots of a run, until this condition variable is notified.
    WaitsForSlots(Arc<R>, Arc<Condvar>),
}

/// The runs of one device. Thread-safe.
pub struct RunQueue<R> {
    host: HostServices,
    queue_index: usize,
    state: Mutex<State<R>>,
    news: Condvar,
    /// Notified when the runner has no run.
    idle: Condvar,
    runs: Mutex<Vec<Arc<R>>>,
    /// Threads of the runner beside the first.
    others: Mutex<Vec<JoinHandle<()>>>,
}

/// Permission to compute on some execution slots of a device. Dropping it releases them.
pub struct QueueGrant<'a, R: QueuedRun> {
    queue: &'a RunQueue<R>,
    slots: usize,
    /// Held by a runner thread.
    is_runners: bool,
}

impl<R: QueuedRun> Drop for QueueGrant<'_, R> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.slots.give_back(self.slots);
        if self.is_runners {
            state.runner_slots -= self.slots;
        }
    }
}

impl<R: QueuedRun> RunQueue<R> {
    /// An empty queue of a device with one slot.
    #[must_use]
    pub fn new(host: HostServices) -> Self {
        Self::with_index(host, 0)
    }

    /// An empty queue with this index, for a device with several queues that run separately.
    #[must_use]
    pub fn with_index(host: HostServices, queue_index: usize) -> Self {
        Self::made(host, queue_index, 1)
    }

    /// An empty queue of a device that computes several runs at once on `slots` slots. A run
    /// occupies as many as [`QueuedRun::slots`] states. On a device that may hang, one thread
    /// computes all runs, whatever the number of slots.
    #[must_use]
    pub fn with_slots(host: HostServices, slots: usize) -> Self {
        Self::made(host, 0, slots)
    }

    fn made(host: HostServices, queue_index: usize, slots: usize) -> Self {
        Self {
            host,
            queue_index,
            state: Mutex::new(State {
                queued: VecDeque::with_capacity(64),
                slots: ExecutionSlots::new(slots),
                current: None,
                serving: 0,
                stop: false,
                threads: 0,
                asleep: 0,
                woken: false,
                watch: None,
                runner_slots: 0,
                pushed: 0,
                computed_by_hosts: 0,
            }),
            news: Condvar::new(),
            idle: Condvar::new(),
            runs: Mutex::new(Vec::new()),
            others: Mutex::new(Vec::new()),
        }
    }

    /// Index among the queues of the device; 0 if it has one.
    pub fn queue_index(&self) -> usize {
        self.queue_index
    }

    /// Time on the host's clock, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn state(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of execution slots of the device.
    pub fn slots(&self) -> usize {
        self.state().slots.all()
    }

    /// Waits for all slots of the device, ahead of every waiting run. Blocks.
    pub fn acquire_all(&self) -> QueueGrant<'_, R> {
        self.wait_for(Claim {
            priority: u8::MAX,
            since: Instant::now(),
            slots: usize::MAX,
        })
    }

    /// Waits for the slots of a run.
    pub(crate) fn acquire(&self, run: &R) -> QueueGrant<'_, R> {
        self.wait_for(claim_of(run))
    }

    /// Takes the slots of a run if they are free now.
    pub(crate) fn try_acquire(&self, run: &R) -> Option<QueueGrant<'_, R>> {
        let claim = claim_of(run);
        let mut state = self.state();
        state.slots.take(claim).then(|| self.granted(&state, claim))
    }

    fn wait_for(&self, claim: Claim) -> QueueGrant<'_, R> {
        let mut state = self.state();
        if !state.slots.take(claim) {
            let ticket = state.slots.join(claim);
            let condvar = Arc::clone(&ticket.condvar);
            while !state.slots.settle(&ticket) {
                state = condvar.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.slots.leave(ticket);
        }
        self.granted(&state, claim)
    }

    fn granted(&self, state: &State<R>, claim: Claim) -> QueueGrant<'_, R> {
        QueueGrant {
            queue: self,
            slots: state.slots.possible(claim).slots,
            is_runners: false,
        }
    }

    /// Decides whether to wake a runner thread to watch: none watches and one may be needed. If
    /// runner threads occupy all slots, the first of them to finish looks.
    fn wake(&self, state: &mut State<R>) -> bool {
        let needed = state.watch.is_none()
            && state.asleep > 0
            && !state.woken
            && state.runner_slots < state.slots.all();
        state.woken |= needed;
        needed
    }

    /// An unused run from the pool.
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

    /// Queues a filled run.
    pub fn push(&self, run: &Arc<R>) {
        let mut state = self.state();
        state.queued.push_back(Arc::clone(run));
        state.pushed = state.pushed.wrapping_add(1);
        if let Some(Watch::WaitsForSlots(other, condvar)) = &state.watch
            && other.priority() < run.priority()
        {
            condvar.notify_one();
        }
        let wakes = self.wake(&mut state);
        drop(state);
        if wakes {
            self.news.notify_one();
        }
    }

    /// Removes a run that a thread has claimed.
    pub fn remove(&self, run: &R) {
        let mut state = self.state();
        if state.take(run) {
            state.computed_by_hosts = state.computed_by_hosts.saturating_add(1);
            if let Some(Watch::WaitsForSlots(other, condvar)) = &state.watch
                && std::ptr::eq(&**other, run)
            {
                condvar.notify_one();
            }
        }
    }

    /// Records the end of a run, before its fence signals it.
    pub(crate) fn ended(&self, run: &R) {
        if R::MAY_HANG {
            self.state()
                .current
                .take_if(|current| std::ptr::eq(&**current, run));
            self.idle.notify_all();
        }
    }

    /// Ends all runs as lost, because the device was reset. Returns true if one was on the device:
    /// its thread is left behind with everything that the run holds, and [`Runner::keep_serving`]
    /// starts another.
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

    /// The next run for thread `serving`, with its grant if it need not wait for other runs first.
    /// `None` if the thread must end.
    fn next(&self, serving: u64) -> Option<(Arc<R>, Option<QueueGrant<'_, R>>)> {
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
        state.woken = false;
        state
    }

    /// The next run, after its grace time and once its slots are free; `None` if the queue ends.
    fn next_unclaimed(&self) -> Option<(Arc<R>, Option<QueueGrant<'_, R>>)> {
        let mut state = self.state();
        // time at which the queue was last found empty, and the number of pushes then
        let (mut last, mut seen) = (None::<Instant>, state.pushed);
        let mut poll = FIRST_POLL;
        while !state.stop {
            if state.watch.is_some() {
                state = self.sleep(state);
                continue;
            }
            let Some((at, ready)) = state.best() else {
                let now = Instant::now();
                let fast = last.replace(now).is_some_and(|last| now - last < 2 * poll);
                let news = std::mem::replace(&mut seen, state.pushed) != state.pushed;
                if fast && news && state.computed_by_hosts >= STREAM {
                    state.watch = Some(Watch::Looks);
                    state = match self.news.wait_timeout(state, poll) {
                        Ok((state, _)) => state,
                        Err(poisoned) => poisoned.into_inner().0,
                    };
                    state.watch = None;
                    poll = LONGEST_POLL.min(2 * poll);
                } else {
                    poll = FIRST_POLL;
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
            let mut granted = ready && state.slots.take(claim);
            if ready && !granted {
                let ticket = state.slots.join(claim);
                state.watch = Some(Watch::WaitsForSlots(
                    Arc::clone(&run),
                    Arc::clone(&ticket.condvar),
                ));
                let condvar = Arc::clone(&ticket.condvar);
                state = condvar.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.watch = None;
                granted = state.slots.settle(&ticket);
                state.slots.leave(ticket);
                if !granted {
                    continue;
                }
            }
            let mut grant = granted.then(|| self.granted(&state, claim));
            // its host may have claimed it while this thread waited for the slots
            let taken = state.take(&run);
            state.computed_by_hosts *= u32::from(!taken);
            if let Some(grant) = grant.as_mut().filter(|_| taken) {
                grant.is_runners = true;
                state.runner_slots += grant.slots;
            }
            // let another thread watch
            let wakes = taken && !state.queued.is_empty() && self.wake(&mut state);
            drop(state);
            if wakes {
                self.news.notify_one();
            }
            if taken {
                return Some((run, grant));
            }
            drop(grant);
            state = self.state();
        }
        None
    }

    /// Whether a runner thread that starts to compute leaves none to serve the next run, although
    /// the device may have a slot for it. The caller then starts another thread.
    fn needs_thread(&self) -> bool {
        let mut state = self.state();
        let needs = !R::MAY_HANG
            && !state.stop
            && state.asleep == 0
            && state.watch.is_none()
            && state.runner_slots < state.slots.all()
            && state.threads < state.slots.all();
        state.threads += usize::from(needs);
        needs
    }
}

impl<R: QueuedRun> State<R> {
    /// The position of the most urgent ready run, the oldest of those, else of the oldest run; and
    /// whether it is ready.
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

    /// Removes a run from the queue, if it is there.
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
        slots: run.slots(),
    }
}

/// The threads that serve runs without a waiting host: at most one per slot, each started when the
/// others are busy.
pub struct Runner<R: QueuedRun> {
    queue: Arc<RunQueue<R>>,
    name: String,
    /// The first thread, and its number.
    thread: Mutex<(u64, Option<JoinHandle<()>>)>,
}

impl<R: QueuedRun> Runner<R> {
    /// Starts the first thread, named `name`.
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

    /// Starts a thread to replace one that was left behind, if none serves.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn keep_serving(&self) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let serving = self.queue.state().serving;
        if thread.0 != serving {
            // the old one is dropped, not joined: it may never return
            *thread = (serving, Some(spawn(&self.queue, serving, &self.name)?));
        }
        Ok(())
    }

    /// Ends the runs of a device that may hang. Returns true if its thread does not return.
    fn hangs(&self) -> bool {
        let queue = &*self.queue;
        let lost = || Error::new(ErrorKind::DeviceLost, "the device was closed under the run");
        let current = queue.state().current.clone();
        if let Some(current) = current {
            // a run that waits for another gives up; a run on the device ends by itself
            current.lose(lost());
        }
        let (mut state, _) = queue
            .idle
            .wait_timeout_while(queue.state(), CLOSE_TIMEOUT, |state| state.current.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        let hangs = state.current.is_some();
        if hangs {
            // left behind, with everything that it holds
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
            while let Some((run, grant)) = queue.next(serving) {
                if queue.needs_thread() {
                    start_another(&queue, serving, &own);
                }
                run.compute(grant);
            }
        })
        .map_err(|error| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("cannot start a thread for runs: {error}"),
            )
        })
}

/// Starts another runner thread. If the system has none left, the existing ones serve alone.
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
        if let Some(Watch::WaitsForSlots(_, condvar)) = &state.watch {
            condvar.notify_one();
        }
        drop(state);
        self.queue.news.notify_all();
        let hangs = R::MAY_HANG && self.hangs();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut next = thread.1.take().filter(|_| !hangs);
        while let Some(thread) = next {
            // a run reports through its fence, so there is nothing to report here
            let _ = thread.join();
            // a joined thread starts no more threads
            let mut others = self.queue.others.lock().unwrap_or_else(PoisonError::into_inner);
            next = others.pop();
        }
    }
}
