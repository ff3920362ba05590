//! A run, which is its own fence: held back, submitted, ended.
//!
//! Not `polychip_sdk::Run`: nothing here is a call that waits. The driver takes a run at once and a timeline tells its
//! end, so several are under way in one queue, and a waiting thread polls instead of computing.
//!
//! Invariants:
//! 1. A run ends once: with its outputs written, or with an error, after which the GPU's writes go nowhere that
//!    the host uses before a reset.
//! 2. A run is held back only where the GPU alone would not keep the order: it waits for a run of another command queue
//!    or device, or its inputs must be moved by the host. The thread that waits for it advances it, or else the
//!    runner does.
//! 3. Between `execute` and the end the run holds its part and its buffers.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use polychip_sdk::{
    Buffer, Error, ErrorKind, Fence, NO_TIMEOUT, Priority, Result, RunFence, SignalCallback, Submit, Timing,
};

use super::loaded_part::{Last, LoadedPart};
use super::port_binding::PortBinding;
use super::watch::Watch;
use crate::buffer::GpuBuffer;
use crate::driver::command_queue::Submission;
use crate::driver::launches::Launches;
use crate::shared::lock;

/// Not in use.
const IDLE: u8 = 0;
/// Waits for others.
const HELD: u8 = 1;
/// A thread submits it.
const CLAIMED: u8 = 2;
/// The GPU has it.
const SUBMITTED: u8 = 3;
/// The GPU is done, and a thread takes back what the run had; its fence is about to say so.
const FINISHING: u8 = 4;
/// It has ended.
const ENDED: u8 = 5;

/// Longest wait in the driver at a time: a loss is seen that soon.
const SLICE: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Work {
    part: Option<Arc<LoadedPart>>,
    bound: Vec<PortBinding>,
    waits: Vec<Arc<GpuRun>>,
    queue_index: usize,
    queued_ns: u64,
    start_ns: u64,
    deadline_ns: Option<u64>,
    submission: Option<(Submission, Instant)>,
    /// What the GPU executes.
    launches: Option<Launches>,
    /// Bytes on the way to or from memory that cannot be bound.
    bytes: Vec<u8>,
    copied_bytes: u64,
}

/// Runs of one device, used again, and what is under way of them.
pub(crate) struct Runs {
    all: Mutex<Vec<Arc<GpuRun>>>,
    pub(super) watch: Arc<Watch>,
}

impl Runs {
    /// Of a device that is lost when nothing ends for `hang`.
    pub(crate) fn new(hang: Duration) -> Runs {
        Runs {
            all: Mutex::default(),
            watch: Arc::new(Watch::new(hang)),
        }
    }

    /// A free run, or a new one.
    pub(super) fn take(&self) -> Arc<GpuRun> {
        let mut runs = lock(&self.all);
        for run in runs.iter_mut() {
            if let Some(free) = Arc::get_mut(run)
                && free.renew()
            {
                return Arc::clone(run);
            }
        }
        let run = Arc::new(GpuRun::new());
        runs.push(Arc::clone(&run));
        run
    }

    /// Puts the runs that have not ended into `list`.
    pub(super) fn in_flight(&self, list: &mut Vec<Arc<GpuRun>>) {
        list.clear();
        list.extend(lock(&self.all).iter().filter(|run| run.in_flight()).cloned());
    }

    /// Waits until all runs have ended, as the limit has it.
    pub(crate) fn drain(&self) {
        let mut list = Vec::new();
        loop {
            self.in_flight(&mut list);
            let Some(run) = list.first() else { return };
            // its fence reports how it ends
            let _ = run.wait(50_000_000);
        }
    }
}

/// A run.
pub struct GpuRun {
    fence: RunFence,
    state: AtomicU8,
    work: Mutex<Work>,
    /// Of its device, from the first use on.
    watch: OnceLock<Arc<Watch>>,
}

impl GpuRun {
    fn new() -> GpuRun {
        GpuRun {
            fence: RunFence::new(),
            state: AtomicU8::new(IDLE),
            work: Mutex::default(),
            watch: OnceLock::new(),
        }
    }

    /// Resets a free run; false if it has not ended.
    fn renew(&mut self) -> bool {
        let free = matches!(*self.state.get_mut(), IDLE | ENDED);
        if free {
            self.fence.renew();
            *self.state.get_mut() = IDLE;
        }
        free
    }

    fn in_flight(&self) -> bool {
        !matches!(self.state.load(Ordering::Acquire), IDLE | ENDED)
    }

    fn claim(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes what a submit says and puts the run on its way.
    pub(super) fn start(
        self: &Arc<Self>,
        part: &Arc<LoadedPart>,
        submit: &Submit<'_, GpuBuffer, GpuRun>,
    ) -> Result<()> {
        let shared = &part.shared;
        self.watch.get_or_init(|| Arc::clone(&part.watch));
        let mut guard = lock(&self.work);
        let work = &mut *guard;
        work.queue_index = match submit.priority() {
            Priority::Urgent => part.per_queue.len() - 1,
            Priority::Batch | Priority::Normal => 0,
        };
        work.queued_ns = shared.host.now_ns();
        work.start_ns = work.queued_ns;
        work.copied_bytes = 0;
        work.deadline_ns = submit.deadline_ns();
        work.submission = None;
        work.bound.clear();
        work.waits.clear();
        for binding in submit.bindings() {
            match part.bound(&binding.buffer, binding.port, binding.offset, binding.bytes) {
                Ok(bound) => work.bound.push(bound),
                Err(error) => {
                    work.bound.clear();
                    return Err(error);
                }
            }
        }
        let staged = work.bound.iter().any(|bound| bound.staged.is_some());
        for wait in submit.waits() {
            let on_gpu = !staged && wait.is_before(part, work.queue_index);
            if !on_gpu {
                work.waits.push(Arc::clone(&wait));
            }
        }
        work.part = Some(Arc::clone(part));
        part.watch.started();
        if work.waits.is_empty() && part.is_free(work.queue_index) {
            self.state.store(CLAIMED, Ordering::Release);
            match self.submit(work) {
                Ok(()) => self.state.store(SUBMITTED, Ordering::Release),
                Err(error) => self.end(guard, Err(error)),
            }
        } else {
            self.state.store(HELD, Ordering::Release);
            part.watch.hurry();
        }
        Ok(())
    }

    /// Whether the GPU itself puts what this command queue gets from now on behind this run.
    fn is_before(&self, part: &LoadedPart, queue_index: usize) -> bool {
        if self.state.load(Ordering::Acquire) != SUBMITTED {
            return false;
        }
        let Ok(work) = self.work.try_lock() else {
            return false;
        };
        // a run whose outputs the host moves has not ended when the GPU has
        let staged = work.bound.iter().any(|bound| bound.staged.is_some());
        work.submission.is_some()
            && !staged
            && work.queue_index == queue_index
            && work
                .part
                .as_ref()
                .is_some_and(|other| other.gpu.number == part.gpu.number)
    }

    /// Hands the run to the GPU.
    fn submit(&self, work: &mut Work) -> Result<()> {
        let Some(part) = work.part.clone() else {
            return Err(Error::new(ErrorKind::Persistent, "the run has no part"));
        };
        let (gpu, queue_index) = (&part.gpu, work.queue_index);
        gpu.alive()?;
        if self.fence.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "the run was cancelled"));
        }
        work.start_ns = part.shared.host.now_ns();
        if work.deadline_ns.is_some_and(|deadline| work.start_ns > deadline) {
            let what = "the run's deadline passed before it began";
            return Err(Error::new(ErrorKind::Cancelled, what));
        }
        for bound in &work.bound {
            if let Some(staged) = bound.staged.as_ref().filter(|staged| !staged.output) {
                work.bytes.resize(staged.bytes, 0);
                staged.buffer.copy_out(staged.offset, &mut work.bytes)?;
                bound.buffer.copy_in(0, &work.bytes)?;
                work.copied_bytes += staged.bytes as u64;
            }
        }
        let mut last = lock(&part.last);
        if let Some(last) = last.as_ref().filter(|last| last.queue_index != queue_index) {
            // the arena is one: the other command queue's run ends first
            let since = Instant::now();
            while !gpu.command_queues[last.queue_index].wait(&last.submission, SLICE)? {
                gpu.alive()?;
                part.watch.watch_hang(gpu, since);
            }
        }
        let launches = work.launches.insert(part.take(queue_index, &work.bound)?);
        for (bound, port) in work.bound.iter().zip(&part.ports) {
            if port.output {
                bound.buffer.set_stale();
            }
        }
        let submission = launches.submit(gpu).inspect_err(|error| {
            if error.kind() == ErrorKind::DeviceLost {
                gpu.lose(error.to_string());
            }
        })?;
        gpu.alive()?;
        *last = Some(Last {
            queue_index,
            submission: submission.clone(),
        });
        work.submission = Some((submission, Instant::now()));
        Ok(())
    }

    /// Ends a claimed run.
    fn end(&self, mut guard: MutexGuard<'_, Work>, result: Result<()>) {
        let work = &mut *guard;
        let Some(part) = work.part.take() else {
            return;
        };
        let mut result = result;
        if result.is_ok() {
            result = Self::bring_back(work);
        }
        let (gpu, host) = (&part.gpu, &part.shared.host);
        let launches = work.launches.take();
        let ticks = launches
            .as_ref()
            .filter(|_| result.is_ok())
            .and_then(Launches::ticks);
        let span_ns = match gpu.clock.as_ref().zip(ticks) {
            Some((clock, ticks)) => clock.span(ticks, work.queued_ns, || host.now_ns(), || gpu.ticks()),
            None => (work.start_ns, host.now_ns()),
        };
        if result.is_ok() {
            let length = span_ns.1.saturating_sub(span_ns.0);
            part.expected_ns.store(length, Ordering::Relaxed);
        }
        // memory of a staged port is the run's own: what is copied to it is counted above
        let bound = work.bound.iter();
        let by_buffers: u64 = bound
            .map(|bound| match &bound.staged {
                Some(staged) => {
                    bound.buffer.take_copied_bytes();
                    staged.buffer.take_copied_bytes()
                }
                None => bound.buffer.take_copied_bytes(),
            })
            .sum();
        self.fence.set_timing(Timing {
            queued_ns: Some(work.queued_ns),
            span_ns: Some(span_ns),
            energy_uj: None,
            copied_bytes: Some(work.copied_bytes + part.carried_bytes + by_buffers),
        });
        // a GPU that is given up may still write there: what it writes to stays
        let given_up = matches!(&result, Err(error) if error.kind() == ErrorKind::DeviceLost);
        match launches {
            Some(launches) if given_up => gpu.keep(launches),
            Some(launches) => lock(&part.per_queue[work.queue_index].sets).give_back(&work.bound, launches),
            None => {}
        }
        for bound in work.bound.drain(..) {
            match bound.staged {
                Some(_) if given_up => std::mem::forget(bound.buffer),
                Some(staged) => lock(&part.spare).push((staged.port, bound.buffer)),
                None => {}
            }
        }
        work.waits.clear();
        work.submission = None;
        part.watch.ended();
        drop(guard);
        // the part is let go of before the host can know that the run has ended
        drop(part);
        self.state.store(ENDED, Ordering::Release);
        self.fence.signal(result);
    }

    /// Copies outputs to memory that could not be bound.
    fn bring_back(work: &mut Work) -> Result<()> {
        for bound in &work.bound {
            if let Some(staged) = bound.staged.as_ref().filter(|staged| staged.output) {
                work.bytes.resize(staged.bytes, 0);
                bound.buffer.copy_out(0, &mut work.bytes)?;
                staged.buffer.copy_in(staged.offset, &work.bytes)?;
                work.copied_bytes += staged.bytes as u64;
            }
        }
        Ok(())
    }

    /// Waits for what holds the run back, and submits it.
    fn release(&self, until: Option<Instant>) {
        if !self.claim(HELD, CLAIMED) {
            return;
        }
        let mut work = lock(&self.work);
        while let Some(wait) = work.waits.last() {
            if self.fence.is_cancelled() {
                let why = Error::new(ErrorKind::Cancelled, "the run was cancelled");
                return self.end(work, Err(why));
            }
            let left = until.map_or(SLICE, |until| {
                until.saturating_duration_since(Instant::now()).min(SLICE)
            });
            match wait.wait(left.as_nanos() as u64) {
                Ok(()) => drop(work.waits.pop()),
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    if until.is_some_and(|until| Instant::now() >= until) {
                        drop(work);
                        self.state.store(HELD, Ordering::Release);
                        return;
                    }
                }
                Err(error) => {
                    let what = format!("a run that this one waits for failed: {error}");
                    return self.end(work, Err(Error::new(error.kind(), what)));
                }
            }
        }
        match self.submit(&mut work) {
            Ok(()) => self.state.store(SUBMITTED, Ordering::Release),
            Err(error) => self.end(work, Err(error)),
        }
    }

    /// Looks whether the GPU is done, for at most so long, and ends the run where it is.
    fn look(&self, left: Duration) {
        let (part, submission, since, queue_index) = {
            let work = lock(&self.work);
            let (Some(part), Some((submission, since))) = (&work.part, &work.submission) else {
                return;
            };
            (Arc::clone(part), submission.clone(), *since, work.queue_index)
        };
        let (gpu, shared) = (&part.gpu, &part.shared);
        let command_queue = &gpu.command_queues[queue_index];
        let begin = Instant::now();
        // a thread wakes later than a short run ends: it sleeps until shortly before, and then looks and looks
        let expected = Duration::from_nanos(part.expected_ns.load(Ordering::Relaxed));
        let doze = (since + expected)
            .saturating_duration_since(begin)
            .saturating_sub(shared.spin)
            .min(left)
            .min(SLICE);
        let doze = if shared.spin.is_zero() {
            Duration::ZERO
        } else {
            doze
        };
        let spin = (doze + 2 * shared.spin).min(left);
        let mut rest = doze;
        let result = loop {
            let spent = begin.elapsed();
            let slice = if !rest.is_zero() {
                std::mem::take(&mut rest)
            } else if spent < spin {
                Duration::ZERO
            } else {
                left.saturating_sub(spent).min(SLICE)
            };
            match command_queue.wait(&submission, slice) {
                Ok(true) => break Some(gpu.alive()),
                Ok(false) if begin.elapsed() < spin => std::hint::spin_loop(),
                Ok(false) => {
                    part.watch.watch_hang(gpu, since);
                    break gpu.alive().err().map(Err);
                }
                Err(error) => {
                    gpu.lose(error.to_string());
                    break Some(gpu.alive());
                }
            }
        };
        if let Some(result) = result
            && self.claim(SUBMITTED, FINISHING)
        {
            // the last hold of the part is the run's own
            drop(part);
            self.end(lock(&self.work), result);
        }
    }

    /// Ends the run where its device is lost, or moves it on without waiting.
    pub(super) fn nudge(&self) {
        match self.state.load(Ordering::Acquire) {
            HELD => self.release(Some(Instant::now())),
            SUBMITTED => self.look(Duration::ZERO),
            _ => {}
        }
    }
}

impl Fence for GpuRun {
    fn wait(&self, timeout_ns: u64) -> Result<()> {
        let begin = Instant::now();
        let until = (timeout_ns != NO_TIMEOUT)
            .then(|| begin.checked_add(Duration::from_nanos(timeout_ns)))
            .flatten();
        loop {
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
            match self.state.load(Ordering::Acquire) {
                HELD => self.release(until),
                SUBMITTED => self.look(left),
                // the run is over, whatever time the caller had left; the fence follows at once
                FINISHING | ENDED => return self.fence.wait(NO_TIMEOUT),
                // another thread moves it on
                _ => {
                    let short = left.min(Duration::from_millis(1));
                    match self.fence.wait(short.as_nanos() as u64) {
                        Err(error) if error.kind() == ErrorKind::Timeout => {}
                        ended => return ended,
                    }
                }
            }
            if let Some(result) = self.fence.result() {
                return result;
            }
            // a run that another thread began to end meanwhile is over
            let is_over = matches!(self.state.load(Ordering::Acquire), FINISHING | ENDED);
            if !is_over && until.is_some_and(|until| Instant::now() >= until) {
                return Err(Error::new(ErrorKind::Timeout, "the run has not ended"));
            }
        }
    }

    fn on_signal(&self, signalled: SignalCallback) -> Result<()> {
        self.fence.on_signal(signalled)?;
        if let Some(watch) = self.watch.get() {
            watch.hurry();
        }
        Ok(())
    }

    fn timing(&self) -> Result<Timing> {
        self.fence.timing()
    }

    fn cancel(&self) -> Result<()> {
        self.fence.cancel()?;
        if self.claim(HELD, FINISHING) {
            let why = Error::new(ErrorKind::Cancelled, "the run was cancelled");
            self.end(lock(&self.work), Err(why));
        }
        Ok(())
    }
}
