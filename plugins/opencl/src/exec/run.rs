//! A run and its fence: handed to the driver and waited for by the first thread that waits for it, or by the
//! lane's own.
//!
//! Invariants:
//! 1. Exactly one thread claims a run; it computes, signals, and lets go of executable and buffers.
//! 2. A run is used again only when nobody holds its fence any more.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use polychip_sdk::{
    Error, ErrorKind, Fence, NO_TIMEOUT, Priority, QueuedRun, Result, RunFence, RunQueue, SignalCallback,
    Submit, Timing,
};

use super::{OpenclExecutable, lock};
use crate::buffer::OpenclBuffer;

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const CLAIMED: u8 = 2;

/// A buffer bound to a port.
pub(super) struct Bound {
    pub(super) buffer: Arc<OpenclBuffer>,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

#[derive(Default)]
struct Work {
    executable: Option<Arc<OpenclExecutable>>,
    lane: usize,
    bound: Vec<Bound>,
    waits: Vec<Arc<OpenclRun>>,
    queued_ns: u64,
    deadline_ns: Option<u64>,
    expected_ns: u64,
}

/// A run, and the fence that tells its end.
pub struct OpenclRun {
    fence: RunFence,
    state: AtomicU8,
    priority: AtomicU8,
    work: Mutex<Work>,
    /// When it was queued, on the process's own clock.
    queued: Mutex<Option<Instant>>,
}

impl QueuedRun for OpenclRun {
    fn new() -> OpenclRun {
        OpenclRun {
            fence: RunFence::new(),
            state: AtomicU8::new(IDLE),
            priority: AtomicU8::new(0),
            work: Mutex::new(Work::default()),
            queued: Mutex::new(None),
        }
    }

    fn renew(&mut self) {
        self.fence.renew();
        *self.state.get_mut() = IDLE;
    }

    fn priority(&self) -> u8 {
        self.priority.load(Ordering::Relaxed)
    }

    fn age(&self) -> Duration {
        lock(&self.queued).map_or(Duration::ZERO, |at| at.elapsed())
    }

    fn compute(&self) {
        self.compute_in(None);
    }
}

impl OpenclRun {
    /// Takes what a submit says.
    pub(super) fn fill(
        &self,
        executable: &Arc<OpenclExecutable>,
        lane: usize,
        submit: &Submit<'_, OpenclBuffer, OpenclRun>,
    ) -> Result<()> {
        let mut work = lock(&self.work);
        work.bound.clear();
        work.waits.clear();
        work.bound.extend(submit.bindings().map(|binding| Bound {
            buffer: Arc::clone(&binding.buffer),
            offset: binding.offset,
            bytes: binding.bytes,
        }));
        work.waits.extend(submit.waits().map(|wait| Arc::clone(&wait)));
        work.queued_ns = executable.shared.lanes[lane].now_ns();
        work.deadline_ns = submit.deadline_ns();
        work.expected_ns = executable.expected_ns();
        work.executable = Some(Arc::clone(executable));
        work.lane = lane;
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

    /// Claims a queued run and computes it, whatever that takes, in the lane's turn where the caller has it.
    fn compute_in(&self, turn: Option<MutexGuard<'_, ()>>) {
        if self
            .state
            .compare_exchange(QUEUED, CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let mut work = lock(&self.work);
        let Some(executable) = work.executable.take() else {
            return;
        };
        let queue = Arc::clone(&executable.shared.lanes[work.lane]);
        queue.remove(self);
        let result = self.perform(&work, &executable, &queue, turn);
        work.bound.clear();
        work.waits.clear();
        drop(work);
        // the executable is let go of before the host can know that the run has ended
        drop(executable);
        self.fence.signal(result);
    }

    /// The queue of a run that surely takes less than a wait, which may then compute it in place: only where it
    /// is its turn at once, for a run before it may take any time.
    fn queue_of_short_run(&self, timeout_ns: u64) -> Option<Arc<RunQueue<OpenclRun>>> {
        let work = self.work.try_lock().ok()?;
        let short = work.waits.is_empty() && work.expected_ns.saturating_mul(4) < timeout_ns;
        let executable = work.executable.as_ref().filter(|_| short)?;
        Some(Arc::clone(&executable.shared.lanes[work.lane]))
    }

    fn perform(
        &self,
        work: &Work,
        executable: &Arc<OpenclExecutable>,
        queue: &RunQueue<OpenclRun>,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<()> {
        for wait in &work.waits {
            wait.wait(NO_TIMEOUT).map_err(|error| {
                let what = format!("a run that this one waits for failed: {error}");
                Error::new(error.kind(), what)
            })?;
        }
        let _turn = turn.unwrap_or_else(|| queue.turn());
        if self.fence.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"));
        }
        let start = queue.now_ns();
        let result = if work.deadline_ns.is_some_and(|deadline| start > deadline) {
            let what = "the run's deadline passed before it began";
            Err(Error::new(ErrorKind::Cancelled, what))
        } else {
            executable.compute(work.lane, &work.bound)
        };
        let end = queue.now_ns();
        // what the device measured ends where the host saw the end
        let span = match result {
            Ok(Some(spent)) => (end.saturating_sub(spent).max(start), end),
            _ => (start, end),
        };
        if result.is_ok() {
            let spent = end.saturating_sub(start);
            executable.last_ns.store(spent, Ordering::Relaxed);
        }
        self.fence.set_timing(Timing {
            queued_ns: Some(work.queued_ns),
            span_ns: Some(span),
            energy_uj: None,
        });
        result.map(|_| ())
    }
}

impl Fence for OpenclRun {
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
        self.fence.cancel()
    }
}
