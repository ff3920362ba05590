//! The reusable fence of a run on real time: no allocation when warm.
//!
//! Invariant: it signals once between two uses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polychip_abi::POLYCHIP_MAX_RANK;

use crate::{Error, ErrorKind, Fence, NO_TIMEOUT, Result, SignalCallback, Step, Timing};

/// Number of actual output shapes, and of callbacks, for which nothing is allocated even at first
/// use.
const USUAL_SHAPES: usize = 4;
const USUAL_CALLBACKS: usize = 4;

struct State {
    result: Option<Result<()>>,
    timing: Option<Timing>,
    steps: Option<Arc<[Step]>>,
    shapes: Vec<Shape>,
    callbacks: Vec<SignalCallback>,
}

struct Shape {
    port: u32,
    rank: usize,
    dims: [i64; POLYCHIP_MAX_RANK],
}

/// The end of a run on real time. Thread-safe.
pub struct RunFence {
    state: Mutex<State>,
    signalled: Condvar,
    cancelled: AtomicBool,
}

impl Default for RunFence {
    fn default() -> Self {
        RunFence::new()
    }
}

impl RunFence {
    /// A fence that has not signalled.
    #[must_use]
    pub fn new() -> RunFence {
        RunFence {
            state: Mutex::new(State {
                result: None,
                timing: None,
                steps: None,
                shapes: Vec::with_capacity(USUAL_SHAPES),
                callbacks: Vec::with_capacity(USUAL_CALLBACKS),
            }),
            signalled: Condvar::new(),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Resets the fence, so that it can signal again, and keeps its allocations. `&mut` ensures
    /// that nothing else holds it.
    pub fn renew(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.result = None;
        state.timing = None;
        state.steps = None;
        state.shapes.clear();
        state.callbacks.clear();
        *self.cancelled.get_mut() = false;
    }

    /// Stores the timing; to be called before [`RunFence::signal`].
    pub fn set_timing(&self, timing: Timing) {
        lock(&self.state).timing = Some(timing);
    }

    /// Stores the time of each step; to be called before [`RunFence::signal`]. Only the first call
    /// counts, and none after the end, because the host may be reading them.
    pub fn set_steps(&self, steps: Vec<Step>) {
        let mut state = lock(&self.state);
        if state.result.is_none() && state.steps.is_none() {
            state.steps = Some(steps.into());
        }
    }

    /// Stores the actual extents of an output; to be called before [`RunFence::signal`]. Extents
    /// beyond the contract's largest rank are dropped.
    pub fn set_output_shape(&self, port: u32, dims: &[i64]) {
        let rank = dims.len().min(POLYCHIP_MAX_RANK);
        let mut shape = Shape {
            port,
            rank,
            dims: [0; POLYCHIP_MAX_RANK],
        };
        shape.dims[..rank].copy_from_slice(&dims[..rank]);
        lock(&self.state).shapes.push(shape);
    }

    /// Whether the host asked the run to end early.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// The run's result, if it has ended.
    #[must_use]
    pub fn result(&self) -> Option<Result<()>> {
        lock(&self.state).result.clone()
    }

    /// Ends the run. Only the first call counts.
    pub fn signal(&self, result: Result<()>) {
        let mut state = lock(&self.state);
        if state.result.is_some() {
            return;
        }
        state.result = Some(result.clone());
        self.signalled.notify_all();
        while let Some(callback) = state.callbacks.pop() {
            drop(state);
            callback.call(&result);
            state = lock(&self.state);
        }
    }
}

impl Fence for RunFence {
    fn wait(&self, timeout_ns: u64) -> Result<()> {
        let mut state = lock(&self.state);
        let until = Instant::now().checked_add(Duration::from_nanos(timeout_ns));
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            let Some(until) = until.filter(|_| timeout_ns != NO_TIMEOUT) else {
                state = self.signalled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(ErrorKind::Timeout, "the run has not ended"));
            }
            state = self
                .signalled
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn on_signal(&self, signalled: SignalCallback) -> Result<()> {
        let mut state = lock(&self.state);
        match state.result.clone() {
            Some(result) => {
                drop(state);
                signalled.call(&result);
            }
            None => state.callbacks.push(signalled),
        }
        Ok(())
    }

    fn timing(&self) -> Result<Timing> {
        let state = lock(&self.state);
        if state.result.is_none() {
            return Err(Error::new(ErrorKind::Timeout, "the run has not ended"));
        }
        state
            .timing
            .ok_or_else(|| Error::unsupported("nothing was measured of this run"))
    }

    fn steps(&self) -> Result<Arc<[Step]>> {
        let state = lock(&self.state);
        if state.result.is_none() {
            return Err(Error::new(ErrorKind::Timeout, "the run has not ended"));
        }
        state
            .steps
            .clone()
            .ok_or_else(|| Error::unsupported("no steps were measured of this run"))
    }

    fn output_shape(&self, port: u32, dims: &mut [i64]) -> Result<usize> {
        let state = lock(&self.state);
        if state.result.is_none() {
            return Err(Error::new(ErrorKind::Timeout, "the run has not ended"));
        }
        let shape = state
            .shapes
            .iter()
            .find(|shape| shape.port == port)
            .ok_or_else(|| Error::bad_argument(format!("port {port} has no shape of its own")))?;
        for (to, from) in dims.iter_mut().zip(&shape.dims[..shape.rank]) {
            *to = *from;
        }
        Ok(shape.rank)
    }

    fn cancel(&self) -> Result<()> {
        self.cancelled.store(true, Ordering::Release);
        Ok(())
    }
}

/// A poisoned lock means that a callback of the host unwound; the state itself is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewed_fence_signals_again() {
        let mut fence = RunFence::new();
        fence.set_output_shape(1, &[2, 3]);
        fence.signal(Ok(()));
        fence.renew();
        assert_eq!(fence.wait(0).unwrap_err().kind(), ErrorKind::Timeout);
        fence.signal(Err(Error::unsupported("no")));
        fence.signal(Ok(()));
        assert_eq!(fence.wait(NO_TIMEOUT).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(fence.timing().unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(fence.output_shape(1, &mut [0; 2]).is_err());
        // too late: the host may have asked
        fence.set_steps(Vec::new());
        assert_eq!(fence.steps().unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn waiter_wakes_when_another_thread_signals() {
        let fence = RunFence::new();
        fence.set_output_shape(4, &[7, 8]);
        std::thread::scope(|scope| {
            scope.spawn(|| fence.signal(Ok(())));
            fence.wait(NO_TIMEOUT).unwrap();
        });
        let mut dims = [0; 1];
        assert_eq!((fence.output_shape(4, &mut dims).unwrap(), dims), (2, [7]));
    }
}
