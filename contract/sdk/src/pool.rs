//! Fences that are used again: no allocation when warm.
//!
//! Invariants:
//! 1. A fence is taken from the pool only when nobody but the pool holds it.
//! 2. A fence signals once between two uses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polychip_abi::POLYCHIP_MAX_RANK;

use crate::{Error, ErrorKind, Fence, NO_TIMEOUT, Result, SignalCallback, Timing};

/// Fences that are made at once. Whoever signals a fence holds it a moment longer than whoever waits for it: the next
/// run needs another, and must not be the one to make it.
const GROWTH: usize = 4;

/// Fences of one device.
#[derive(Default)]
pub struct FencePool {
    fences: Mutex<Vec<Arc<RunFence>>>,
}

impl FencePool {
    /// An empty pool.
    #[must_use]
    pub fn new() -> FencePool {
        FencePool::default()
    }

    /// A fence that has not signalled: one that nobody holds any more, or a new one.
    #[must_use]
    pub fn take(&self) -> Arc<RunFence> {
        let mut fences = lock(&self.fences);
        for fence in fences.iter_mut() {
            if let Some(free) = Arc::get_mut(fence) {
                free.renew();
                return Arc::clone(fence);
            }
        }
        let fence = Arc::new(RunFence::new());
        fences.push(Arc::clone(&fence));
        fences.extend((1..GROWTH).map(|_| Arc::new(RunFence::new())));
        fence
    }
}

struct State {
    result: Option<Result<()>>,
    timing: Option<Timing>,
    shapes: Vec<Shape>,
    callbacks: Vec<SignalCallback>,
}

struct Shape {
    port: u32,
    rank: usize,
    dims: [i64; POLYCHIP_MAX_RANK],
}

/// The end of a run on real time.
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
                shapes: Vec::new(),
                callbacks: Vec::new(),
            }),
            signalled: Condvar::new(),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Makes a fence that nobody else holds ready to signal again; what it has allocated stays.
    pub fn renew(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.result = None;
        state.timing = None;
        state.shapes.clear();
        state.callbacks.clear();
        *self.cancelled.get_mut() = false;
    }

    /// Says what was measured; before [`RunFence::signal`].
    pub fn set_timing(&self, timing: Timing) {
        lock(&self.state).timing = Some(timing);
    }

    /// Says the actual extents of an output; before [`RunFence::signal`]. Extents beyond the contract's
    /// largest rank are dropped.
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

    /// The run's result, where it has ended.
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
                return Err(Error::new(ErrorKind::Timeout, "the run goes on"));
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
            return Err(Error::new(ErrorKind::Timeout, "the run goes on"));
        }
        state
            .timing
            .ok_or_else(|| Error::unsupported("nothing was measured of this run"))
    }

    fn output_shape(&self, port: u32, dims: &mut [i64]) -> Result<usize> {
        let state = lock(&self.state);
        if state.result.is_none() {
            return Err(Error::new(ErrorKind::Timeout, "the run goes on"));
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
    fn a_fence_comes_back_only_when_nobody_holds_it() {
        let pool = FencePool::new();
        let first = pool.take();
        let second = pool.take();
        assert!(!Arc::ptr_eq(&first, &second));
        let address = Arc::as_ptr(&first);
        first.set_output_shape(1, &[2, 3]);
        first.signal(Ok(()));
        drop(first);
        let third = pool.take();
        assert_eq!(Arc::as_ptr(&third), address);
        assert_eq!(third.wait(0).unwrap_err().kind(), ErrorKind::Timeout);
        third.signal(Err(Error::unsupported("no")));
        third.signal(Ok(()));
        assert_eq!(third.wait(NO_TIMEOUT).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(third.timing().unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(third.output_shape(1, &mut [0; 2]).is_err());
    }

    #[test]
    fn a_waiter_wakes_when_another_thread_signals() {
        let pool = FencePool::new();
        let fence = pool.take();
        fence.set_output_shape(4, &[7, 8]);
        std::thread::scope(|scope| {
            scope.spawn(|| fence.signal(Ok(())));
            fence.wait(NO_TIMEOUT).unwrap();
        });
        let mut dims = [0; 1];
        assert_eq!((fence.output_shape(4, &mut dims).unwrap(), dims), (2, [7]));
    }
}
