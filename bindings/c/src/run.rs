//! Runs in flight, and their results.
//!
//! Invariants:
//! 1. A run ends once, and every later query returns the same result.
//! 2. One thread at a time waits on the device. Others wait for that thread; if it gives up, one of
//!    them takes over.
//! 3. Cancelling never waits for a waiting thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polychip::{OutputView, Outputs, Run};
use self_cell::self_cell;

use crate::entry::caught;
use crate::failure::{Failure, Result};
use crate::handle::{Kind, Object, Table};
use crate::status::POLYCHIP_ERROR_TIMEOUT;

/// A thread that waits looks so often whether the run was cancelled meanwhile.
const SLICE: Duration = Duration::from_millis(5);

/// A run.
pub(crate) struct RunObject {
    state: Mutex<State>,
    changed: Condvar,
    cancelled: AtomicBool,
}

enum State {
    /// No thread waits for the device.
    Going(Box<Run>),
    /// A thread waits for the device.
    Waited,
    Ended(Result<Box<RunOutputs>>),
}

/// The outputs and times of a run.
struct RunOutputs {
    latency: Duration,
    late_by: Option<Duration>,
    outputs: Opened,
}

/// Outputs that C was given, which stay open as long as the run's handle.
#[derive(Default)]
struct Views<'a>(Mutex<Vec<(usize, OutputView<'a>)>>);

self_cell! {
    struct Opened {
        owner: Outputs,
        #[not_covariant]
        dependent: Views,
    }
}

/// One output, in place.
pub(crate) struct OutputWords {
    pub(crate) dtype: u32,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: *const u8,
    pub(crate) bytes: u64,
}

impl RunObject {
    pub(crate) fn new(run: Run) -> RunObject {
        RunObject::with(State::Going(Box::new(run)))
    }

    /// A run that has given its outputs.
    pub(crate) fn ended(outputs: Outputs) -> RunObject {
        RunObject::with(State::Ended(Ok(given(outputs))))
    }

    fn with(state: State) -> RunObject {
        RunObject {
            state: Mutex::new(state),
            changed: Condvar::new(),
            cancelled: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the run has ended; for ever without a limit.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.lock();
        loop {
            match std::mem::replace(&mut *state, State::Waited) {
                State::Ended(ended) => {
                    let answer = ended.as_ref().map(drop).map_err(Clone::clone);
                    *state = State::Ended(ended);
                    return answer;
                }
                State::Going(going) => {
                    drop(state);
                    let next = self.wait_with_device(going, end);
                    state = self.lock();
                    let goes_on = matches!(next, State::Going(_));
                    *state = next;
                    self.changed.notify_all();
                    if goes_on {
                        return Err(timeout(limit));
                    }
                }
                State::Waited => {
                    let left = left(end);
                    if left == Some(Duration::ZERO) {
                        return Err(timeout(limit));
                    }
                    state = match left {
                        Some(left) => {
                            let woken = self.changed.wait_timeout(state, left);
                            woken.unwrap_or_else(PoisonError::into_inner).0
                        }
                        None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                    };
                }
            }
        }
    }

    /// Waits with the device, no longer than until `end`; what has become of the run.
    fn wait_with_device(&self, mut run: Box<Run>, end: Option<Instant>) -> State {
        let mut told = false;
        let waited = caught(|| {
            loop {
                if !told && self.cancelled.load(Ordering::Acquire) {
                    run.cancel();
                    told = true;
                }
                let left = left(end);
                let slice = left.unwrap_or(SLICE).min(SLICE);
                match run.poll(slice) {
                    Ok(None) if left.is_none_or(|left| left > slice) => {}
                    other => return other,
                }
            }
        });
        State::Ended(match waited {
            Ok(Ok(None)) => return State::Going(run),
            Ok(Ok(Some(outputs))) => Ok(given(outputs)),
            Ok(Err(error)) => Err(error.into()),
            Err(failure) => Err(failure),
        })
    }

    /// Asks the run to end early.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        if let State::Going(run) = &*self.lock() {
            run.cancel();
        }
    }

    fn given<T>(&self, read: impl FnOnce(&RunOutputs) -> Result<T>) -> Result<T> {
        match &*self.lock() {
            State::Ended(Ok(given)) => read(given),
            State::Ended(Err(failure)) => Err(failure.clone()),
            State::Going(_) | State::Waited => Err(Failure::new(
                crate::status::POLYCHIP_ERROR_IN_FLIGHT,
                "the run has not ended: wait for it first (polychip_run_wait)",
            )),
        }
    }

    /// How long the run took, and by how much it was late.
    pub(crate) fn timing(&self) -> Result<(Duration, Option<Duration>)> {
        self.given(|given| Ok((given.latency, given.late_by)))
    }

    /// An output, where it lies until the run is destroyed.
    pub(crate) fn output(&self, index: usize) -> Result<OutputWords> {
        self.given(|given| {
            given.outputs.with_dependent(|outputs, views| {
                let mut views = views.0.lock().unwrap_or_else(PoisonError::into_inner);
                let at = match views.iter().position(|(opened, _)| *opened == index) {
                    Some(at) => at,
                    None => {
                        views.push((index, outputs.at(index)?));
                        views.len() - 1
                    }
                };
                let view = &views[at].1;
                Ok(OutputWords {
                    dtype: view.dtype().code(),
                    shape: view.shape().to_vec(),
                    data: view.bytes().as_ptr(),
                    bytes: view.bytes().len() as u64,
                })
            })
        })
    }
}

fn given(outputs: Outputs) -> Box<RunOutputs> {
    Box::new(RunOutputs {
        latency: outputs.latency(),
        late_by: outputs.late_by(),
        outputs: Opened::new(outputs, |_| Views::default()),
    })
}

/// What is left until `end`; none if there is no end.
fn left(end: Option<Instant>) -> Option<Duration> {
    end.map(|end| end.saturating_duration_since(Instant::now()))
}

fn timeout(limit: Option<Duration>) -> Failure {
    let limit = limit.unwrap_or_default();
    Failure::new(
        POLYCHIP_ERROR_TIMEOUT,
        format!("the run has not ended after {} ms", limit.as_millis()),
    )
}

impl Object for RunObject {
    fn table() -> &'static Table<RunObject> {
        static TABLE: Table<RunObject> = Table::new(Kind::Run);
        &TABLE
    }
}
