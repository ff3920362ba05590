//! A run and its fence: computed by the first thread that waits for it, or by the device's own.
//!
//! Why: `execute` must not wait, and handing a run of some microseconds to another thread costs as much as the
//! run. So a run is queued; a host that then waits computes it in place, and a host that does something else is
//! served by the runner thread (`polychip_sdk::RunQueue`).
//!
//! Invariants:
//! 1. Exactly one thread claims a run; it computes, signals, and lets go of executable and buffers.
//! 2. A run is used again only when nobody holds its fence any more.
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use polychip_sdk::{
    Error, ErrorKind, Fence, HostBuffer, NO_TIMEOUT, Priority, QueuedRun, Result, RunFence, RunQueue,
    SignalCallback, Submit, Timing,
};

use super::CpuExecutable;

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const CLAIMED: u8 = 2;

/// The largest rank of a port.
const RANK: usize = polychip_sdk::abi::POLYCHIP_MAX_RANK;

/// A buffer bound to a port.
pub(super) struct Bound {
    buffer: Arc<HostBuffer>,
    offset: usize,
    pub(super) bytes: usize,
    pub(super) dims: [i64; RANK],
    pub(super) rank: usize,
}

impl Bound {
    /// The first byte.
    pub(super) fn address(&self) -> *mut u8 {
        self.buffer.as_ptr().wrapping_add(self.offset)
    }
}

#[derive(Default)]
struct Work {
    executable: Option<Arc<CpuExecutable>>,
    queue: Option<Arc<RunQueue<CpuRun>>>,
    bound: Vec<Bound>,
    waits: Vec<Arc<CpuRun>>,
    queued_ns: u64,
    deadline_ns: Option<u64>,
    expected_ns: u64,
}

/// A run of the CPU, and the fence that tells its end.
pub struct CpuRun {
    fence: RunFence,
    state: AtomicU8,
    priority: AtomicU8,
    work: Mutex<Work>,
    /// When it was queued, on the process's own clock.
    queued: Mutex<Option<Instant>>,
}

impl QueuedRun for CpuRun {
    fn new() -> Self {
        Self {
            fence: RunFence::new(),
            state: AtomicU8::new(IDLE),
            priority: AtomicU8::new(0),
            work: Mutex::new(Work::default()),
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
    fn age(&self) -> std::time::Duration {
        let queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.map_or(std::time::Duration::ZERO, |at| at.elapsed())
    }

    fn compute(&self) {
        self.compute_in(None);
    }
}

impl CpuRun {
    /// Takes what a submit says.
    pub(super) fn fill(
        &self,
        executable: &Arc<CpuExecutable>,
        queue: &Arc<RunQueue<CpuRun>>,
        submit: &Submit<'_, HostBuffer, CpuRun>,
    ) -> Result<()> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.bound.clear();
        work.waits.clear();
        for (port, binding) in (0u32..).zip(submit.bindings()) {
            let binding = if binding.port == port {
                binding
            } else {
                submit.binding(port)
            };
            let mut bound = Bound {
                buffer: Arc::clone(&binding.buffer),
                offset: binding.offset,
                bytes: binding.bytes,
                dims: [0; RANK],
                rank: 0,
            };
            if let Some(dims) = binding.dims {
                bound.rank = dims.len().min(RANK);
                bound.dims[..bound.rank].copy_from_slice(&dims[..bound.rank]);
            }
            let dtype = executable.ports[port as usize].dtype;
            let align = dtype.byte_width().unwrap_or(1).min(8);
            if !(bound.address() as usize).is_multiple_of(align) {
                work.bound.clear();
                return Err(Error::bad_argument(format!(
                    "port {port} is bound to memory that is not aligned to {align} bytes"
                ))
                .at_tensor(port));
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
        *self.queued.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
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
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(executable), Some(queue)) = (work.executable.take(), work.queue.take()) else {
            return false;
        };
        queue.remove(self);
        let result = self.perform(&mut work, &executable, &queue, turn);
        work.bound.clear();
        work.waits.clear();
        drop(work);
        // the executable is let go of before the host can know that the run has ended
        drop(executable);
        self.fence.signal(result);
        true
    }

    /// The queue of a run that surely takes less than a wait, which may then compute it in place: only
    /// where it is its turn at once, for a run before it may take any time.
    fn queue_of_short_run(&self, timeout_ns: u64) -> Option<Arc<RunQueue<CpuRun>>> {
        let work = self.work.try_lock().ok()?;
        let short = work.waits.is_empty() && work.expected_ns.saturating_mul(4) < timeout_ns;
        work.queue.clone().filter(|_| short)
    }

    fn perform(
        &self,
        work: &mut Work,
        executable: &CpuExecutable,
        queue: &RunQueue<CpuRun>,
        turn: Option<MutexGuard<'_, ()>>,
    ) -> Result<()> {
        for wait in &work.waits {
            wait.wait(NO_TIMEOUT).map_err(|error| {
                Error::new(
                    error.kind(),
                    format!("a run that this one waits for failed: {error}"),
                )
            })?;
        }
        let _turn = turn.unwrap_or_else(|| queue.turn());
        if self.fence.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"));
        }
        let start = queue.now_ns();
        if work.deadline_ns.is_some_and(|deadline| start > deadline) {
            return Err(Error::new(
                ErrorKind::Cancelled,
                "the run's deadline passed before it began",
            ));
        }
        let result = executable.compute(
            &work.bound,
            || self.fence.is_cancelled(),
            |port, dims| self.fence.set_output_shape(port, dims),
        );
        let end = queue.now_ns();
        if result.is_ok() {
            executable.took(end.saturating_sub(start));
        }
        self.fence.set_timing(Timing {
            queued_ns: Some(work.queued_ns),
            span_ns: Some((start, end)),
            energy_uj: None,
        });
        result
    }
}

impl Fence for CpuRun {
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

    fn output_shape(&self, port: u32, dims: &mut [i64]) -> Result<usize> {
        self.fence.output_shape(port, dims)
    }

    fn cancel(&self) -> Result<()> {
        self.fence.cancel()
    }
}
