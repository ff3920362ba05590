//! A run of a loaded part, which is also its fence: the one state machine for runs whose
//! computation is a blocking call.
//!
//! ```text
//!          start              a waiter or the runner              the call returns
//!  idle ──────────> queued ─────────────────────────> claimed ──────────────────────> ended
//!   ^                  └──────────── the queue is abandoned ───────────┴───────────────┤
//!   └──────────────────────── its fence has been destroyed ────────────────────────────┘
//! ```
//!
//! `execute` must not wait, and passing a run of a few microseconds to another thread costs as much
//! as the run. A run is therefore queued. If the host waits for it, the host's thread computes it;
//! otherwise the queue's thread does ([`Runner`](crate::Runner)). For a device whose calls may hang
//! ([`Compute::MAY_HANG`]), only that thread computes.
//!
//! Invariants:
//! 1. Exactly one thread claims a run. It computes, releases executable and buffers, and signals.
//! 2. The thread that moves a run to `ended` signals its fence, once. A thread that finds its run
//!    ended by another (the queue was abandoned) signals nothing and no longer uses the host.
//! 3. A run that started, or whose deadline passed before it could, has a timing, without a figure
//!    if the device is emulated. A run that was cancelled before it started, or that waited for a
//!    failed run, has none: it never had the device.
//! 4. A run is reused only after its fence has been destroyed. Reuse does not allocate.
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
    Binding, Buffer, Error, ErrorKind, Fence, HostBuffer, NO_TIMEOUT, QueueGrant, QueuedRun, Result,
    RunFence, RunQueue, SignalCallback, Step, Submit, Timing,
};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const CLAIMED: u8 = 2;
const ENDED: u8 = 3;

/// Interval at which a waiting run of a device that may hang checks whether it should still wait,
/// in nanoseconds.
const POLL_NS: u64 = 20_000_000;

/// Ports and waits of a run for which nothing is allocated, not even on first use.
const USUAL_PORTS: usize = 8;
const USUAL_WAITS: usize = 4;

/// A loaded part that computes its runs in a blocking call.
pub trait Compute: Send + Sync + Sized + 'static {
    /// Memory bound to its ports.
    type Buffer: Buffer;

    /// The call may never return (a chip behind a driver): only the queue's thread makes it, and a
    /// reset leaves that thread behind ([`RunQueue::abandon`]).
    const MAY_HANG: bool = false;

    /// [`Compute::interrupt`] can end a call in progress.
    const INTERRUPTS: bool = false;

    /// Refuses unsuitable memory before the run is queued.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn admit(&self, _port: u32, _bound: &PortBuffer<Self::Buffer>) -> Result<()> {
        Ok(())
    }

    /// Number of execution slots of its queue ([`RunQueue::with_slots`]) that a run occupies; a
    /// number above the queue's means all.
    fn slots(&self) -> usize {
        usize::MAX
    }

    /// Time of the last run, if run times are steady. A thread whose wait has a limit well above this
    /// time may then compute the run itself. `None` if run times vary.
    fn pace(&self) -> Option<&Pace> {
        None
    }

    /// Whether run times are the device's. On an emulated device they are those of the emulating
    /// computer.
    fn is_measured(&self) -> bool {
        true
    }

    /// Computes a run over the memory bound to the ports, in port order. Called while the run holds
    /// its slots.
    ///
    /// # Errors
    /// The run's own error. A panic also ends the run with an error.
    fn compute(&self, bound: &[PortBuffer<Self::Buffer>], run: &RunContext<'_>) -> Result<Span>;

    /// Asks the call in progress to return early; called only if [`Compute::INTERRUPTS`].
    ///
    /// # Errors
    /// The call cannot be stopped.
    fn interrupt(&self) -> Result<()> {
        Ok(())
    }
}

/// Time during which a device worked on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The duration of the call.
    Call,
    /// This many nanoseconds before the end of the call.
    Device(u64),
}

/// Time of the last run of a part.
#[derive(Debug)]
pub struct Pace(AtomicU64);

impl Default for Pace {
    fn default() -> Pace {
        Pace(AtomicU64::new(u64::MAX))
    }
}

impl Pace {
    /// The time in nanoseconds; `u64::MAX` before the first run.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn took(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }
}

/// Access of a computing run to its options and results.
pub struct RunContext<'a> {
    fence: &'a RunFence,
    queue_index: usize,
    measures_steps: bool,
    copied_bytes: Cell<u64>,
}

impl RunContext<'_> {
    /// Whether the host asked the run to end early.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.fence.is_cancelled()
    }

    /// Returns an error if the run is cancelled.
    ///
    /// # Errors
    /// The host asked the run to end early.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(cancelled());
        }
        Ok(())
    }

    /// Whether the host requests the time of each step ([`RunContext::set_steps`]).
    #[must_use]
    pub fn measures_steps(&self) -> bool {
        self.measures_steps
    }

    /// Reports the time of each step.
    pub fn set_steps(&self, steps: Vec<Step>) {
        self.fence.set_steps(steps);
    }

    /// Reports bytes of a port that were copied or converted instead of being used in place.
    pub fn add_copied_bytes(&self, bytes: usize) {
        self.copied_bytes.set(self.copied_bytes.get() + bytes as u64);
    }

    /// Reports the actual extents of an output that states upper bounds.
    pub fn set_output_shape(&self, port: u32, dims: &[i64]) {
        self.fence.set_output_shape(port, dims);
    }

    /// Index of the queue that the run is in ([`RunQueue::with_index`]).
    #[must_use]
    pub fn queue_index(&self) -> usize {
        self.queue_index
    }
}

/// A buffer bound to a port of a run.
pub struct PortBuffer<B> {
    buffer: Arc<B>,
    offset: usize,
    bytes: usize,
    dims: [i64; POLYCHIP_MAX_RANK],
    rank: usize,
}

impl<B: Buffer> PortBuffer<B> {
    fn new(binding: &Binding<'_, B>) -> PortBuffer<B> {
        let mut bound = PortBuffer {
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

    /// Start of the tensor in the buffer, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes from `offset` that belong to the tensor.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Actual extents of an input whose port states upper bounds; empty if the host gave none.
    #[must_use]
    pub fn dims(&self) -> &[i64] {
        &self.dims[..self.rank]
    }
}

impl PortBuffer<HostBuffer> {
    /// Address of the first byte.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.buffer.as_ptr().wrapping_add(self.offset)
    }

    /// Copies bytes of the tensor out, starting at byte `from`.
    ///
    /// # Errors
    /// The range exceeds the buffer.
    pub fn copy_out(&self, from: usize, to: &mut [u8]) -> Result<()> {
        self.buffer.copy_out(self.offset + from, to)
    }

    /// Copies bytes to the start of the tensor.
    ///
    /// # Errors
    /// The range exceeds the buffer.
    pub fn copy_in(&self, from: &[u8]) -> Result<()> {
        self.buffer.copy_in(self.offset, from)
    }

    /// Refuses an address at which elements of this type cannot be read in place.
    ///
    /// # Errors
    /// `BadArgument` if the memory is not aligned to an element.
    pub fn check_aligned(&self, port: u32, dtype: DType) -> Result<()> {
        let align = dtype.byte_width().unwrap_or(1).min(8);
        if (self.address() as usize).is_multiple_of(align) {
            return Ok(());
        }
        let what = format!("port {port} is bound to memory that is not aligned to {align} bytes");
        Err(Error::bad_argument(what).at_tensor(port))
    }
}

/// Executable, bindings and options of a run.
struct Work<C: Compute> {
    executable: Option<Arc<C>>,
    queue: Option<Arc<RunQueue<Run<C>>>>,
    bound: Vec<PortBuffer<C::Buffer>>,
    waits: Vec<Arc<Run<C>>>,
    queued_ns: u64,
    deadline_ns: Option<u64>,
    /// Expected time, in nanoseconds.
    expected_ns: u64,
    measures_steps: bool,
}

impl<C: Compute> Work<C> {
    fn clear(&mut self) {
        self.bound.clear();
        self.waits.clear();
    }
}

/// A run, and the fence of its end. Thread-safe.
pub struct Run<C: Compute> {
    fence: RunFence,
    state: AtomicU8,
    priority: AtomicU8,
    slots: AtomicUsize,
    work: Mutex<Work<C>>,
    /// The part that computes it now, for cancellation; only if [`Compute::INTERRUPTS`].
    running: Mutex<Option<Arc<C>>>,
    /// Time at which it was queued, on the process's own clock.
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
        .unwrap_or("no message");
    Error::new(ErrorKind::Persistent, format!("the run panicked: {words}"))
}

impl<C: Compute> QueuedRun for Run<C> {
    const MAY_HANG: bool = C::MAY_HANG;

    fn new() -> Run<C> {
        Run {
            fence: RunFence::new(),
            state: AtomicU8::new(IDLE),
            priority: AtomicU8::new(0),
            slots: AtomicUsize::new(usize::MAX),
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

    fn slots(&self) -> usize {
        self.slots.load(Ordering::Relaxed)
    }

    fn is_ready(&self) -> bool {
        // called by the queue, and the lock's holder may be about to call the queue
        let work = match self.work.try_lock() {
            Ok(work) => work,
            Err(TryLockError::Poisoned(work)) => work.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        work.waits.iter().all(|wait| wait.fence.result().is_some())
    }

    fn compute(&self, grant: Option<QueueGrant<'_, Self>>) {
        self.compute_in(grant);
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
        // the resources of a claimed run stay with the thread that computes it
        let computing = self.claim(CLAIMED, ENDED);
        if computing {
            self.fence.signal(Err(error));
        }
        computing
    }
}

impl<C: Compute> Run<C> {
    /// Queues a run of a part and returns it as its own fence: the implementation of
    /// [`crate::Executable::execute`].
    ///
    /// # Errors
    /// [`Compute::admit`] refuses a binding.
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

    /// Copies the arguments of a submit.
    fn fill(
        &self,
        executable: &Arc<C>,
        queue: &Arc<RunQueue<Run<C>>>,
        submit: &Submit<'_, C::Buffer, Run<C>>,
    ) -> Result<()> {
        let mut work = lock(&self.work);
        work.clear();
        for binding in submit.bindings() {
            let bound = PortBuffer::new(&binding);
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
        // times of an emulated device would be those of the emulating computer
        work.measures_steps = submit.measures_steps() && executable.is_measured();
        work.executable = Some(Arc::clone(executable));
        work.queue = Some(Arc::clone(queue));
        drop(work);
        self.priority.store(submit.priority() as u8, Ordering::Relaxed);
        self.slots.store(executable.slots(), Ordering::Relaxed);
        *lock(&self.queued) = Some(Instant::now());
        self.state.store(QUEUED, Ordering::Release);
        Ok(())
    }

    fn claim(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Claims a queued run and computes it. Uses `grant` if there is one; otherwise waits for
    /// slots.
    fn compute_in(&self, grant: Option<QueueGrant<'_, Self>>) {
        if !self.claim(QUEUED, CLAIMED) {
            return;
        }
        let mut work = lock(&self.work);
        let (Some(executable), Some(queue)) = (work.executable.take(), work.queue.take()) else {
            return;
        };
        queue.remove(self);
        let mut grant = grant;
        let (start_ns, copied_bytes, result) = self.perform(&work, &executable, &queue, &mut grant);
        let lost = !self.claim(CLAIMED, ENDED);
        if let Some(start_ns) = start_ns.filter(|_| !lost) {
            self.measure(&work, &executable, &queue, (start_ns, copied_bytes), &result);
        }
        work.clear();
        drop(work);
        drop(grant);
        // the executable is released before the host can learn that the run has ended
        drop(executable);
        queue.ended(self);
        if !lost {
            self.fence.signal(result.map(drop));
        }
    }

    /// Waits for the run's dependencies and its slots, and computes. Returns the time at which the
    /// run started (or would have, but for its deadline), the bytes copied for it, and its result.
    fn perform<'q>(
        &self,
        work: &Work<C>,
        executable: &Arc<C>,
        queue: &'q RunQueue<Run<C>>,
        grant: &mut Option<QueueGrant<'q, Self>>,
    ) -> (Option<u64>, u64, Result<Span>) {
        for wait in &work.waits {
            if let Err(error) = self.wait_for(wait) {
                return (None, 0, Err(error));
            }
        }
        // the one thread of a device that may hang needs no grant, and must not keep one if it is left behind
        if !C::MAY_HANG && grant.is_none() {
            *grant = Some(queue.acquire(self));
        }
        {
            // from here on, cancellation reaches the call
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
                queue_index: queue.queue_index(),
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
            // lost meanwhile, or cancelled
            if self.fence.is_cancelled() || self.state.load(Ordering::Acquire) != CLAIMED {
                return Err(cancelled());
            }
        }
        Ok(())
    }

    /// Measures a run that still holds its slots.
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
        // the span that the device measured ends when the host saw the end
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

    /// The queue of a run that certainly ends before a wait of `timeout_ns` does, so that the
    /// waiting thread may compute it, provided that its slots are free now: an earlier run may take
    /// any time.
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
                && let Some(grant) = queue.try_acquire(self)
            {
                self.compute_in(Some(grant));
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
