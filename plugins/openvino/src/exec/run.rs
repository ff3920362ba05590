//! A run and its fence: computed by the first thread that waits for it, or by the device's own.
//!
//! Why not the library's asynchronous call: it hands the run to a thread of its own, its callback is not told how
//! the run ended, and whoever asks for that must be woken by a third thread. Here a host that waits computes in
//! place (the library's own threads help), and one that does something else is served by the runner.
//!
//! Invariants:
//! 1. Exactly one thread claims a run; it computes, signals, and lets go of executable and buffers.
//! 2. A run is used again only when nobody holds its fence any more.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polychip_sdk::{
    Error, ErrorKind, Fence, HostBuffer, NO_TIMEOUT, Priority, QueuedRun, Result, RunFence, RunQueue,
    SignalCallback, Submit, Timing,
};

use super::OpenvinoExecutable;

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const CLAIMED: u8 = 2;

/// A buffer bound to a port.
pub(super) struct Bound {
    buffer: Arc<HostBuffer>,
    offset: usize,
    bytes: usize,
}

impl Bound {
    /// The first byte.
    pub(super) fn address(&self) -> *mut u8 {
        self.buffer.as_ptr().wrapping_add(self.offset)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn copy_out(&self, from: usize, to: &mut [u8]) -> Result<()> {
        self.buffer.copy_out(self.offset + from, to)
    }

    pub(super) fn copy_in(&self, from: &[u8]) -> Result<()> {
        self.buffer.copy_in(self.offset, from)
    }
}

#[derive(Default)]
struct Work {
    executable: Option<Arc<OpenvinoExecutable>>,
    queue: Option<Arc<RunQueue<OpenvinoRun>>>,
    bound: Vec<Bound>,
    waits: Vec<Arc<OpenvinoRun>>,
    queued_ns: u64,
    deadline_ns: Option<u64>,
    expected_ns: u64,
}

/// A run, and the fence that tells its end.
pub struct OpenvinoRun {
    fence: RunFence,
    state: AtomicU8,
    priority: AtomicU8,
    work: Mutex<Work>,
    /// What computes it now, for who cancels.
    running: Mutex<Option<Arc<OpenvinoExecutable>>>,
    /// When it was queued, on the process's own clock.
    queued: Mutex<Option<Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QueuedRun for OpenvinoRun {
    fn new() -> OpenvinoRun {
        OpenvinoRun {
            fence: RunFence::new(),
            state: AtomicU8::new(IDLE),
            priority: AtomicU8::new(0),
            work: Mutex::new(Work::default()),
            running: Mutex::new(None),
            queued: Mutex::new(None),
        }
    }

    /// Makes a run that nobody holds ready to be used again.
    fn renew(&mut self) {
        self.fence.renew();
        *self.state.get_mut() = IDLE;
    }

    fn priority(&self) -> u8 {
        self.priority.load(Ordering::Relaxed)
    }

    /// How long ago it was queued.
    fn age(&self) -> Duration {
        lock(&self.queued).map_or(Duration::ZERO, |at| at.elapsed())
    }

    fn compute(&self) {
        self.compute_in(None);
    }
}

impl OpenvinoRun {
    /// Takes what a submit says.
    pub(super) fn fill(
        &self,
        executable: &Arc<OpenvinoExecutable>,
        queue: &Arc<RunQueue<OpenvinoRun>>,
        submit: &Submit<'_, HostBuffer, OpenvinoRun>,
    ) -> Result<()> {
        let mut work = lock(&self.work);
        work.bound.clear();
        work.waits.clear();
        for binding in submit.bindings() {
            let bound = Bound {
                buffer: Arc::clone(&binding.buffer),
                offset: binding.offset,
                bytes: binding.bytes,
            };
            let port = &executable.ports[binding.port as usize];
            let align = port.dtype.byte_width().unwrap_or(1).min(8);
            if !(bound.address() as usize).is_multiple_of(align) {
                work.bound.clear();
                let what = format!(
                    "port {} is bound to memory that is not aligned to {align} bytes",
                    binding.port
                );
                return Err(Error::bad_argument(what).at_tensor(binding.port));
            }
            work.bound.push(bound);
        }
        work.waits.extend(submit.waits().map(|wait| Arc::clone(&wait)));
        work.queued_ns = queue.now_ns();
        work.deadline_ns = submit.deadline_ns();
        work.expected_ns = executable.expected_ns();
        work.executable = Some(Arc::clone(executable));
        work.queue = Some(Arc::clone(queue));
        drop(work);
        let priority = match submit.priority() {
            Priority::Batch => 0,
            Priority::Normal => 1,
            Priority::Urgent => 2,
        };
        self.priority.store(priority, Ordering::Relaxed);
        *lock(&self.queued) = Some(Instant::now());
        self.state.store(QUEUED, Ordering::Release);
        Ok(())
    }

    /// Claims a queued run and computes it, whatever that takes, in the device's turn where the caller has it;
    /// false where another thread has it.
    fn compute_in(&self, turn: Option<MutexGuard<'_, ()>>) -> bool {
        if self
            .state
            .compare_exchange(QUEUED, CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        let mut work = lock(&self.work);
        let (Some(executable), Some(queue)) = (work.executable.take(), work.queue.take()) else {
            return false;
        };
        queue.remove(self);
        let result = self.perform(&work, &executable, &queue, turn);
        work.bound.clear();
        work.waits.clear();
        drop(work);
        // the executable is let go of before the host can know that the run has ended
        drop(executable);
        self.fence.signal(result);
        true
    }

    /// The queue of a run that surely takes less than a wait, which may then compute it in place: only where it
    /// is its turn at once, for a run before it may take any time.
    fn queue_of_short_run(&self, timeout_ns: u64) -> Option<Arc<RunQueue<OpenvinoRun>>> {
        let work = self.work.try_lock().ok()?;
        let short = work.waits.is_empty() && work.expected_ns.saturating_mul(4) < timeout_ns;
        work.queue.clone().filter(|_| short)
    }

    fn perform(
        &self,
        work: &Work,
        executable: &Arc<OpenvinoExecutable>,
        queue: &RunQueue<OpenvinoRun>,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<()> {
        for wait in &work.waits {
            wait.wait(NO_TIMEOUT).map_err(|error| {
                let what = format!("a run that this one waits for failed: {error}");
                Error::new(error.kind(), what)
            })?;
        }
        let _turn = turn.unwrap_or_else(|| queue.turn());
        {
            // from here on a cancellation reaches the library
            let mut running = lock(&self.running);
            if self.fence.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"));
            }
            *running = Some(Arc::clone(executable));
        }
        let start = queue.now_ns();
        let result = if work.deadline_ns.is_some_and(|deadline| start > deadline) {
            Err(Error::new(
                ErrorKind::Cancelled,
                "the run's deadline passed before it began",
            ))
        } else {
            executable.compute(&work.bound, || self.fence.is_cancelled())
        };
        let end = queue.now_ns();
        *lock(&self.running) = None;
        if result.is_ok() {
            executable
                .last_ns
                .store(end.saturating_sub(start), Ordering::Relaxed);
        }
        self.fence.set_timing(Timing {
            queued_ns: Some(work.queued_ns),
            span_ns: Some((start, end)),
            energy_uj: None,
        });
        result
    }
}

impl Fence for OpenvinoRun {
    fn wait(&self, timeout_ns: u64) -> Result<()> {
        if self.state.load(Ordering::Acquire) == QUEUED {
            if timeout_ns == NO_TIMEOUT {
                self.compute();
            } else if let Some(queue) = self.queue_of_short_run(timeout_ns)
                && let Some(turn) = queue.try_turn()
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

    fn cancel(&self) -> Result<()> {
        self.fence.cancel()?;
        match &*lock(&self.running) {
            Some(executable) => executable.cancel(),
            None => Ok(()),
        }
    }
}
