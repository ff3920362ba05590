//! The device's queue of runs and the thread that makes the library's calls, which wait.
//!
//! Invariants:
//! 1. The thread takes the most urgent run that waits for nothing, the oldest of those; where all wait, the oldest:
//!    it waits for no run of this queue, as one waits only for runs that were there before.
//! 2. Each run signals its fence once: with its result, as cancelled, or as lost by a reset.
//! 3. Nothing is allocated once as many runs have been in flight as there will be.
//! 4. A thread that was left behind, by a reset or at the end, touches neither host nor queue when it comes back.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use polychip_sdk::{
    Error, ErrorKind, Fence, FencePool, HostBuffer, HostServices, Priority, Result, RunFence, Submit,
};

use super::QnnExecutable;
use crate::telemetry::Stopwatch;

/// How long the end of a queue waits for a run that is with the device.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a run that waits for another looks whether it still shall, in nanoseconds.
const POLL_NS: u64 = 20_000_000;

/// One run.
struct Job {
    executable: Option<Arc<QnnExecutable>>,
    bindings: Vec<(Arc<HostBuffer>, usize)>,
    waits: Vec<Arc<RunFence>>,
    fence: Option<Arc<RunFence>>,
    priority: Priority,
    watch: Option<Stopwatch>,
}

impl Job {
    fn clear(&mut self) {
        self.executable = None;
        self.bindings.clear();
        self.waits.clear();
        self.fence = None;
        self.watch = None;
    }

    /// Whether all that it depends on has ended.
    fn is_ready(&self) -> bool {
        self.waits.iter().all(|wait| wait.result().is_some())
    }

    /// Waits for what it depends on, and runs.
    fn run(&self) -> Result<()> {
        for wait in &self.waits {
            // looks up now and then, as the run may be lost or cancelled while it waits
            while let Err(error) = wait.wait(POLL_NS) {
                if error.kind() != ErrorKind::Timeout || wait.result().is_some() {
                    return Err(error);
                }
                self.fence.as_ref().and_then(|fence| fence.result()).transpose()?;
                if self.fence.as_ref().is_some_and(|fence| fence.is_cancelled()) {
                    return Err(cancelled());
                }
            }
        }
        if self.fence.as_ref().is_some_and(|fence| fence.is_cancelled()) {
            return Err(cancelled());
        }
        match &self.executable {
            Some(executable) => executable.run(&self.bindings),
            None => Ok(()),
        }
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the run was cancelled before it began")
}

fn lost() -> Error {
    Error::new(ErrorKind::DeviceLost, "the device was reset under the run")
}

#[derive(Default)]
struct State {
    queued: VecDeque<Job>,
    /// The fence of the run that computes.
    current: Option<Arc<RunFence>>,
    /// Emptied runs, for their memory.
    spare: Vec<Job>,
    stop: bool,
    /// The thread that serves; earlier ones were left behind by a reset.
    serving: u64,
}

/// Runs of one device.
pub(crate) struct Queue {
    host: HostServices,
    fences: FencePool,
    emulated: bool,
    state: Mutex<State>,
    news: Condvar,
    /// A run has come back.
    idle: Condvar,
}

impl Queue {
    pub(crate) fn new(host: HostServices, emulated: bool) -> Queue {
        Queue {
            host,
            fences: FencePool::new(),
            emulated,
            state: Mutex::new(State {
                queued: VecDeque::with_capacity(16),
                ..State::default()
            }),
            news: Condvar::new(),
            idle: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a run and gives its fence.
    pub(super) fn push(
        &self,
        executable: &Arc<QnnExecutable>,
        submit: &Submit<'_, HostBuffer, RunFence>,
    ) -> Result<Arc<RunFence>> {
        let fence = self.fences.take();
        let mut state = self.state();
        let mut job = state.spare.pop().unwrap_or_else(|| Job {
            executable: None,
            bindings: Vec::new(),
            waits: Vec::new(),
            fence: None,
            priority: Priority::Normal,
            watch: None,
        });
        job.executable = Some(Arc::clone(executable));
        for binding in submit.bindings() {
            job.bindings.push((Arc::clone(&binding.buffer), binding.offset));
        }
        for wait in submit.waits() {
            job.waits.push(Arc::clone(&wait));
        }
        job.fence = Some(Arc::clone(&fence));
        job.priority = submit.priority();
        job.watch = (!self.emulated).then(|| Stopwatch::queued(&self.host));
        state.queued.push_back(job);
        drop(state);
        self.news.notify_one();
        Ok(fence)
    }

    /// The most urgent run for thread `serving`; `None` when it is to end.
    fn next(&self, serving: u64) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.stop || state.serving != serving {
                return None;
            }
            let mut best: Option<usize> = None;
            for (at, job) in state.queued.iter().enumerate() {
                if best.is_none_or(|best| job.priority > state.queued[best].priority) && job.is_ready() {
                    best = Some(at);
                }
            }
            let oldest = (!state.queued.is_empty()).then_some(0);
            if let Some(job) = best.or(oldest).and_then(|at| state.queued.remove(at)) {
                state.current.clone_from(&job.fence);
                return Some(job);
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn serve(&self, serving: u64) {
        while let Some(mut job) = self.next(serving) {
            if let Some(watch) = &mut job.watch {
                watch.start(&self.host);
            }
            let result = job.run();
            let mut state = self.state();
            if state.serving != serving {
                // a reset has signalled the fence, and may have ended the host's services
                return;
            }
            state.current = None;
            let fence = job.fence.take();
            let watch = job.watch.take();
            job.clear();
            state.spare.push(job);
            drop(state);
            self.idle.notify_all();
            if let Some(fence) = fence {
                if let Some(watch) = watch {
                    fence.set_timing(watch.stop(&self.host));
                }
                fence.signal(result);
            }
        }
    }

    /// Ends all runs as lost. `true` where one was with the device: its thread is left behind.
    pub(crate) fn abandon(&self) -> bool {
        let mut state = self.state();
        let mut fences: Vec<Arc<RunFence>> = state.queued.drain(..).filter_map(|job| job.fence).collect();
        let running = state.current.take();
        let left = running.is_some();
        if left {
            state.serving += 1;
        }
        fences.extend(running);
        drop(state);
        for fence in fences {
            fence.signal(Err(lost()));
        }
        left
    }
}

/// The thread that serves a queue.
pub(crate) struct Runner {
    queue: Arc<Queue>,
    /// The thread and its number.
    thread: Mutex<(u64, Option<JoinHandle<()>>)>,
}

impl Runner {
    /// Starts it.
    pub(crate) fn start(queue: &Arc<Queue>) -> Result<Runner> {
        let serving = queue.state().serving;
        Ok(Runner {
            queue: Arc::clone(queue),
            thread: Mutex::new((serving, Some(spawn(queue, serving)?))),
        })
    }

    /// Starts another thread in place of one that was left behind, where none serves.
    pub(crate) fn keep_serving(&self) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let serving = self.queue.state().serving;
        if thread.0 != serving {
            // the old one is dropped, not joined: it may never come back
            *thread = (serving, Some(spawn(&self.queue, serving)?));
        }
        Ok(())
    }
}

fn spawn(queue: &Arc<Queue>, serving: u64) -> Result<JoinHandle<()>> {
    let queue = Arc::clone(queue);
    std::thread::Builder::new()
        .name("polychip-qnn-runs".to_owned())
        .spawn(move || queue.serve(serving))
        .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("no thread for runs: {error}")))
}

impl Drop for Runner {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.stop = true;
        let current = state.current.clone();
        drop(state);
        self.queue.news.notify_all();
        if let Some(current) = current {
            // one that waits for another gives up; one with the device ends by itself
            current.signal(Err(lost()));
        }
        let (mut state, _) = self
            .queue
            .idle
            .wait_timeout_while(self.queue.state(), PATIENCE, |state| state.current.is_some())
            .unwrap_or_else(PoisonError::into_inner);
        let hangs = state.current.is_some();
        if hangs {
            // left behind, with all that it holds
            state.serving += 1;
        }
        let queued: Vec<Job> = state.queued.drain(..).collect();
        drop(state);
        for job in queued {
            if let Some(fence) = job.fence {
                fence.signal(Err(lost()));
            }
        }
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.1.take().filter(|_| !hangs) {
            // a panic was ours and is in the log of the process
            let _ = thread.join();
        }
    }
}
