//! A run of a loaded part, and the fence that tells its end: the one state machine of runs whose computing is a
//! call that waits.
//!
//! ```text
//!          start              a waiter or the runner              the call returns
//!  idle ──────────> queued ─────────────────────────> claimed ──────────────────────> ended
//!   ^                  └──────────── the queue is abandoned ───────────┴───────────────┤
//!   └──────────────────────── nobody holds its fence any more ─────────────────────────┘
//! ```
//!
//! Why: `execute` must not wait, and handing a run of some microseconds to another thread costs as much as the run.
//! So a run is queued; a host that then waits computes it in place, and a host that does something else is served by
//! the queue's thread ([`Runner`](crate::Runner)). A device whose calls may hang ([`Compute::MAY_HANG`]) is served by
//! that thread alone.
//!
//! Invariants:
//! 1. Exactly one thread claims a run; it computes, lets go of executable and buffers, and signals.
//! 2. Whoever moves a run to `ended` signals its fence, once. A thread that finds its run ended by another (the queue
//!    was abandoned) tells nobody, and does not use the host any more.
//! 3. A run that began, or whose deadline passed before it could, has a timing, without a figure where the device is
//!    emulated. One that was cancelled before it
//!    began, or that waited for a failed one, has none: it never had the device.
//! 4. A run is used again only when nobody holds its fence any more; then nothing is allocated.
//!
//! Not here: the order of runs and the thread (`queue`), the memory of a fence (`pool`).

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use polychip_abi::POLYCHIP_MAX_RANK;
use polychip_ops::DType;

use crate::{
    Binding, Buffer, Error, ErrorKind, Fence, HostBuffer, NO_TIMEOUT, QueuedRun, Result, RunFence, RunQueue,
    SignalCallback, Step, Submit, Timing, Turn,
};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const CLAIMED: u8 = 2;
const ENDED: u8 = 3;

/// How often a run of a device that may hang, while it waits for another, looks whether it still shall.
const POLL_NS: u64 = 20_000_000;

/// Ports and waits of a run for which nothing is allocated, not even when it is used first.
const USUAL_PORTS: usize = 8;
const USUAL_WAITS: usize = 4;

/// A loaded part that computes its runs in a call that waits.
pub trait Compute: Send + Sync + Sized + 'static {
    /// Memory that its ports are bound to.
    type Buffer: Buffer;

    /// The call may never come back (a chip behind a driver): only the queue's thread makes it, and a reset leaves
    /// that thread behind ([`RunQueue::abandon`]).
    const MAY_HANG: bool = false;

    /// [`Compute::interrupt`] ends a call that is under way.
    const INTERRUPTS: bool = false;

    /// Refuses memory that runs cannot be computed on, before the run is queued.
    ///
    /// # Errors
    /// What is wrong with it.
    fn admit(&self, _port: u32, _bound: &Bound<Self::Buffer>) -> Result<()> {
        Ok(())
    }

    /// On how many of the places of its queue ([`RunQueue::with_places`]) a run computes; more than there are stands
    /// for all.
    fn places(&self) -> usize {
        usize::MAX
    }

    /// How long runs take, where that tells of the next one: a wait with a limit well above it may then compute the
    /// run itself. `None` where a run may take any time.
    fn pace(&self) -> Option<&Pace> {
        None
    }

    /// Whether times of runs are the device's: those of one that is emulated are the computer's that emulates.
    fn is_measured(&self) -> bool {
        true
    }

    /// Computes a run over memory bound to the ports, in the order of ports. Called in the device's turn.
    ///
    /// # Errors
    /// The run's own error. A panic ends the run with an error too.
    fn compute(&self, bound: &[Bound<Self::Buffer>], run: &RunContext<'_>) -> Result<Span>;

    /// Asks the call that computes now to come back early; only where [`Compute::INTERRUPTS`].
    ///
    /// # Errors
    /// Where it cannot be stopped.
    fn interrupt(&self) -> Result<()> {
        Ok(())
    }
}

/// When a device worked on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// As long as the call took.
    Call,
    /// For so many nanoseconds, up to the end of the call.
    Device(u64),
}

/// How long the last run of a part took.
#[derive(Debug)]
pub struct Pace(AtomicU64);

impl Default for Pace {
    fn default() -> Pace {
        Pace(AtomicU64::new(u64::MAX))
    }
}

impl Pace {
    /// In nanoseconds; without end before the first run.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn took(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }
}

/// What a run may ask and say while it computes.
pub struct RunContext<'a> {
    fence: &'a RunFence,
    lane: usize,
    measures_steps: bool,
    copied_bytes: Cell<u64>,
}

impl RunContext<'_> {
    /// Whether the host asked the run to end early.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.fence.is_cancelled()
    }

    /// The error of a run that looks and finds itself cancelled.
    ///
    /// # Errors
    /// Where the host asked the run to end early.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(cancelled());
        }
        Ok(())
    }

    /// Whether the host wants to know what each step takes ([`RunContext::set_steps`]).
    #[must_use]
    pub fn measures_steps(&self) -> bool {
        self.measures_steps
    }

    /// Says what each step took.
    pub fn set_steps(&self, steps: Vec<Step>) {
        self.fence.set_steps(steps);
    }

    /// Says that bytes of a port were copied or converted, instead of being used where they lie.
    pub fn add_copied_bytes(&self, bytes: usize) {
        self.copied_bytes.set(self.copied_bytes.get() + bytes as u64);
    }

    /// Says the actual extents of an output that states upper bounds.
    pub fn set_output_shape(&self, port: u32, dims: &[i64]) {
        self.fence.set_output_shape(port, dims);
    }

    /// The lane of the queue that the run is in ([`RunQueue::of_lane`]).
    #[must_use]
    pub fn lane(&self) -> usize {
        self.lane
    }
}

/// A buffer bound to a port of a run.
pub struct Bound<B> {
    buffer: Arc<B>,
    offset: usize,
    bytes: usize,
    dims: [i64; POLYCHIP_MAX_RANK],
    rank: usize,
}

impl<B: Buffer> Bound<B> {
    fn new(binding: &Binding<'_, B>) -> Bound<B> {
        let mut bound = Bound {
            buffer: Arc::clone(&binding.buffer),
            offset: binding.offset,
            bytes: binding.bytes,
            dims: [0; POLYCHIP_MAX_RANK],
            rank: 0,
        };
        if let Some(dims) = binding.dims {
            bound.rank = dims.len().min(POLYCHIP_MAX_RANK);
            bound.dims[..bound.rank].copy_from_slice(&dims[..bound.rank]);
        }
        bound
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &Arc<B> {
        &self.buffer
    }

    /// Where the tensor starts in the buffer, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes from there that belong to the tensor.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Actual extents of an input whose port states upper bounds; empty where the host gave none.
    #[must_use]
    pub fn dims(&self) -> &[i64] {
        &self.dims[..self.rank]
    }
}

impl Bound<HostBuffer> {
    /// The first byte.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.buffer.as_ptr().wrapping_add(self.offset)
    }

    /// Copies bytes of the tensor out, from byte `from` on.
    ///
    /// # Errors
    /// Where the range leaves the buffer.
    pub fn copy_out(&self, from: usize, to: &mut [u8]) -> Result<()> {
        self.buffer.copy_out(self.offset + from, to)
    }

    /// Copies bytes to the start of the tensor.
    ///
    /// # Errors
    /// Where the range leaves the buffer.
    pub fn copy_in(&self, from: &[u8]) -> Result<()> {
        self.buffer.copy_in(self.offset, from)
    }

    /// Refuses an address at which elements of this type cannot be read in place.
    ///
    /// # Errors
    /// `BadArgument` where the memory is not aligned to an element.
    pub fn check_aligned(&self, port: u32, dtype: DType) -> Result<()> {
        let align = dtype.byte_width().unwrap_or(1).min(8);
        if (self.address() as usize).is_multiple_of(align) {
            return Ok(());
        }
        let what = format!("port {port} is bound to memory that is not aligned to {align} bytes");
        Err(Error::bad_argument(what).at_tensor(port))
    }
}

/// What a run works on.
struct Work<C: Compute> {
    executable: Option<Arc<C>>,
    queue: Option<Arc<RunQueue<Run<C>>>>,
    bound: Vec<Bound<C::Buffer>>,
    waits: Vec<Arc<Run<C>>>,
    queued_ns: u64,
    deadline_ns: Option<u64>,
    /// How long it is expected to take, in nanoseconds.
    expected_ns: u64,
    measures_steps: bool,
}

impl<C: Compute> Work<C> {
    fn clear(&mut self) {
        self.bound.clear();
        self.waits.clear();
    }
}

/// A run, and the fence that tells its end.
pub struct Run<C: Compute> {
    fence: RunFence,
    state: AtomicU8,
    priority: AtomicU8,
    places: AtomicUsize,
    work: Mutex<Work<C>>,
    /// What computes it now, for who cancels; only where [`Compute::INTERRUPTS`].
    running: Mutex<Option<Arc<C>>>,
    /// When it was queued, on the process's own clock.
    queued: Mutex<Option<Instant>>,
}

/// A poisoned lock means that a callback of the host unwound; the state itself is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the run was cancelled")
}

fn panicked(payload: &(dyn Any + Send)) -> Error {
    let words = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("without words");
    Error::new(ErrorKind::Persistent, format!("the run panicked: {words}"))
}

impl<C: Compute> QueuedRun for Run<C> {
    const MAY_HANG: bool = C::MAY_HANG;

    fn new() -> Run<C> {
        Run {
            fence: RunFence::new(),
            state: AtomicU8::new(IDLE),
            priority: AtomicU8::new(0),
            places: AtomicUsize::new(usize::MAX),
            work: Mutex::new(Work {
                executable: None,
                queue: None,
                bound: Vec::with_capacity(USUAL_PORTS),
                waits: Vec::with_capacity(USUAL_WAITS),
                queued_ns: 0,
                deadline_ns: None,
                expected_ns: u64::MAX,
                measures_steps: false,
            }),
            running: Mutex::new(None),
            queued: Mutex::new(None),
        }
    }

    fn is_under_way(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), QUEUED | CLAIMED)
    }

    fn renew(&mut self) {
        self.fence.renew();
        *self.state.get_mut() = IDLE;
    }

    fn priority(&self) -> u8 {
        self.priority.load(Ordering::Relaxed)
    }

    fn since(&self) -> Instant {
        lock(&self.queued).unwrap_or_else(Instant::now)
    }

    fn places(&self) -> usize {
        self.places.load(Ordering::Relaxed)
    }

    fn is_ready(&self) -> bool {
        // the queue asks, and who has the lock may be about to ask the queue
        let work = match self.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(work)) => work.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        work.waits.iter().all(|wait| wait.fence.result().is_some())
    }

    fn compute(&self, turn: Option<Turn<'_, Self>>) {
        self.compute_in(turn);
    }

    fn lose(&self, error: Error) -> bool {
        if self.claim(QUEUED, ENDED) {
            let mut work = lock(&self.work);
            work.clear();
            let held = (work.executable.take(), work.queue.take());
            drop(work);
            drop(held.0);
            self.fence.signal(Err(error));
            return false;
        }
        // what a claimed run holds stays with the thread that computes it
        let computing = self.claim(CLAIMED, ENDED);
        if computing {
            self.fence.signal(Err(error));
        }
        computing
    }
}

impl<C: Compute> Run<C> {
    /// Queues a run of a part and gives it as its own fence: what [`crate::Executable::execute`] does.
    ///
    /// # Errors
    /// Where [`Compute::admit`] refuses a binding.
    pub fn start(
        executable: &Arc<C>,
        queue: &Arc<RunQueue<Run<C>>>,
        submit: &Submit<'_, C::Buffer, Run<C>>,
    ) -> Result<Arc<Run<C>>> {
        let run = queue.take();
        run.fill(executable, queue, submit)?;
        queue.push(&run);
        Ok(run)
    }

    /// Takes what a submit says.
    fn fill(
        &self,
        executable: &Arc<C>,
        queue: &Arc<RunQueue<Run<C>>>,
        submit: &Submit<'_, C::Buffer, Run<C>>,
    ) -> Result<()> {
        let mut work = lock(&self.work);
        work.clear();
        for binding in submit.bindings() {
            let bound = Bound::new(&binding);
            if let Err(error) = executable.admit(binding.port, &bound) {
                work.clear();
                return Err(error);
            }
            work.bound.push(bound);
        }
        work.waits.extend(submit.waits().map(|wait| Arc::clone(&wait)));
        work.queued_ns = queue.now_ns();
        work.deadline_ns = submit.deadline_ns();
        work.expected_ns = executable.pace().map_or(u64::MAX, Pace::ns);
        // those of an emulated device are the computer's that emulates
        work.measures_steps = submit.measures_steps() && executable.is_measured();
        work.executable = Some(Arc::clone(executable));
        work.queue = Some(Arc::clone(queue));
        drop(work);
        self.priority.store(submit.priority() as u8, Ordering::Relaxed);
        self.places.store(executable.places(), Ordering::Relaxed);
        *lock(&self.queued) = Some(Instant::now());
        self.state.store(QUEUED, Ordering::Release);
        Ok(())
    }

    fn claim(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Claims a queued run and computes it, whatever that takes, in the device's turn where the caller has it.
    fn compute_in(&self, turn: Option<Turn<'_, Self>>) {
        if !self.claim(QUEUED, CLAIMED) {
            return;
        }
        let mut work = lock(&self.work);
        let (Some(executable), Some(queue)) = (work.executable.take(), work.queue.take()) else {
            return;
        };
        queue.remove(self);
        let mut turn = turn;
        let (start_ns, copied_bytes, result) = self.perform(&work, &executable, &queue, &mut turn);
        let lost = !self.claim(CLAIMED, ENDED);
        if let Some(start_ns) = start_ns.filter(|_| !lost) {
            self.measure(&work, &executable, &queue, (start_ns, copied_bytes), &result);
        }
        work.clear();
        drop(work);
        drop(turn);
        // the executable is let go of before the host can know that the run has ended
        drop(executable);
        queue.ended(self);
        if !lost {
            self.fence.signal(result.map(drop));
        }
    }

    /// Waits for what the run depends on and for the device's turn, and computes; when the run began, or would have
    /// but for its deadline, the bytes that were copied for it, and how it went.
    fn perform<'q>(
        &self,
        work: &Work<C>,
        executable: &Arc<C>,
        queue: &'q RunQueue<Run<C>>,
        turn: &mut Option<Turn<'q, Self>>,
    ) -> (Option<u64>, u64, Result<Span>) {
        for wait in &work.waits {
            if let Err(error) = self.wait_for(wait) {
                return (None, 0, Err(error));
            }
        }
        // the one thread of a device that may hang needs no turn, and one that was left behind must not keep it
        if !C::MAY_HANG && turn.is_none() {
            *turn = Some(queue.turn_of(self));
        }
        {
            // from here on a cancellation reaches the call
            let mut running = C::INTERRUPTS.then(|| lock(&self.running));
            if self.fence.is_cancelled() {
                return (None, 0, Err(cancelled()));
            }
            if let Some(running) = &mut running {
                **running = Some(Arc::clone(executable));
            }
        }
        let start_ns = queue.now_ns();
        let mut copied_bytes = 0;
        let result = if work.deadline_ns.is_some_and(|deadline| start_ns > deadline) {
            let what = "the run's deadline passed before it began";
            Err(Error::new(ErrorKind::Cancelled, what))
        } else {
            let context = RunContext {
                fence: &self.fence,
                lane: queue.lane(),
                measures_steps: work.measures_steps,
                copied_bytes: Cell::new(0),
            };
            let result = catch_unwind(AssertUnwindSafe(|| executable.compute(&work.bound, &context)))
                .unwrap_or_else(|payload| Err(panicked(&*payload)));
            let by_buffers = work.bound.iter().map(|bound| bound.buffer.take_copied_bytes());
            copied_bytes = context.copied_bytes.get() + by_buffers.sum::<u64>();
            result
        };
        if C::INTERRUPTS {
            *lock(&self.running) = None;
        }
        (Some(start_ns), copied_bytes, result)
    }

    /// Waits for another run.
    fn wait_for(&self, wait: &Run<C>) -> Result<()> {
        let failed = |error: Error| {
            let what = format!("a run that this one waits for failed: {error}");
            Error::new(error.kind(), what)
        };
        if !C::MAY_HANG {
            return wait.wait(NO_TIMEOUT).map_err(failed);
        }
        while let Err(error) = wait.wait(POLL_NS) {
            if error.kind() != ErrorKind::Timeout || wait.fence.result().is_some() {
                return Err(failed(error));
            }
            // lost meanwhile, or not wanted any more
            if self.fence.is_cancelled() || self.state.load(Ordering::Acquire) != CLAIMED {
                return Err(cancelled());
            }
        }
        Ok(())
    }

    /// Takes the measure of a run that has the device's turn still.
    fn measure(
        &self,
        work: &Work<C>,
        executable: &C,
        queue: &RunQueue<Run<C>>,
        (start_ns, copied_bytes): (u64, u64),
        result: &Result<Span>,
    ) {
        let end_ns = queue.now_ns();
        if result.is_ok()
            && let Some(pace) = executable.pace()
        {
            pace.took(end_ns.saturating_sub(start_ns));
        }
        if !executable.is_measured() {
            self.fence.set_timing(Timing {
                copied_bytes: Some(copied_bytes),
                ..Timing::default()
            });
            return;
        }
        // what the device measured ends where the host saw the end
        let start_ns = match result {
            Ok(Span::Device(ns)) => end_ns.saturating_sub(*ns).max(start_ns),
            _ => start_ns,
        };
        self.fence.set_timing(Timing {
            queued_ns: Some(work.queued_ns),
            span_ns: Some((start_ns, end_ns)),
            energy_uj: None,
            copied_bytes: Some(copied_bytes),
        });
    }

    /// The queue of a run that surely takes less than a wait, which may then compute it in place: only where it is
    /// its turn at once, for a run before it may take any time.
    fn queue_of_short_run(&self, timeout_ns: u64) -> Option<Arc<RunQueue<Run<C>>>> {
        let work = self.work.try_lock().ok()?;
        let short = work.waits.is_empty() && work.expected_ns.saturating_mul(4) < timeout_ns;
        work.queue.clone().filter(|_| short)
    }
}

impl<C: Compute> Fence for Run<C> {
    fn wait(&self, timeout_ns: u64) -> Result<()> {
        if !C::MAY_HANG && self.state.load(Ordering::Acquire) == QUEUED {
            if timeout_ns == NO_TIMEOUT {
                self.compute_in(None);
            } else if let Some(queue) = self.queue_of_short_run(timeout_ns)
                && let Some(turn) = queue.try_turn_of(self)
            {
                self.compute_in(Some(turn));
            }
        }
        self.fence.wait(timeout_ns)
    }

    fn on_signal(&self, signalled: SignalCallback) -> Result<()> {
        self.fence.on_signal(signalled)
    }

    fn timing(&self) -> Result<Timing> {
        self.fence.timing()
    }

    fn steps(&self) -> Result<Arc<[Step]>> {
        self.fence.steps()
    }

    fn output_shape(&self, port: u32, dims: &mut [i64]) -> Result<usize> {
        self.fence.output_shape(port, dims)
    }

    fn cancel(&self) -> Result<()> {
        self.fence.cancel()?;
        match &*lock(&self.running) {
            Some(executable) => executable.interrupt(),
            None => Ok(()),
        }
    }
}
