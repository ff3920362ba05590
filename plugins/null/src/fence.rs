//! The end of a scripted run: known when it starts, reached when the host's clock gets there.
//!
//! This is not `polychip_sdk::Run`: nothing is computed between start and end, so no thread claims
//! it; virtual time ends it.
//!
//! Invariants:
//! 1. A run has ended when the clock is past its end. A waiter advances a virtual clock to it.
//! 2. Callbacks are made once, by the first observer of the end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polychip_sdk::{
    Error, ErrorKind, Fence, HostServices, NO_TIMEOUT, Priority, Result, SignalCallback, Timing,
};

use crate::record::Record;

/// Interval at which a wait checks for cancellation, in nanoseconds of the host's clock.
const LOOK_UP_NS: u64 = 10_000_000;

/// The end of one run.
pub struct NullFence {
    host: HostServices,
    record: Option<Arc<Record>>,
    pub(crate) priority: Priority,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// When the run ends; `None` while it hangs.
    end_ns: Option<u64>,
    /// Cancelling does not end it.
    stuck: bool,
    result: Result<()>,
    timing: Timing,
    shapes: Vec<(u32, Vec<i64>)>,
    callbacks: Vec<SignalCallback>,
}

/// Result of a run.
pub(crate) struct End {
    pub(crate) priority: Priority,
    pub(crate) end_ns: Option<u64>,
    pub(crate) stuck: bool,
    pub(crate) result: Result<()>,
    pub(crate) timing: Timing,
    pub(crate) shapes: Vec<(u32, Vec<i64>)>,
}

impl NullFence {
    pub(crate) fn new(host: HostServices, record: Option<Arc<Record>>, end: End) -> Arc<NullFence> {
        Arc::new(NullFence {
            host,
            record,
            priority: end.priority,
            state: Mutex::new(State {
                end_ns: end.end_ns,
                stuck: end.stuck,
                result: end.result,
                timing: end.timing,
                shapes: end.shapes,
                callbacks: Vec::new(),
            }),
            changed: Condvar::new(),
        })
    }

    fn note(&self, call: &str) {
        if let Some(record) = &self.record {
            record.add(call);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the run ends and how, as a later run of the same device sees it; `None` while it hangs.
    pub(crate) fn outcome(&self) -> Option<(u64, Result<()>)> {
        let state = self.state();
        Some((state.end_ns?, state.result.clone()))
    }

    /// Whether the run has ended by now.
    pub(crate) fn has_ended(&self) -> bool {
        let now_ns = self.host.now_ns();
        self.state().end_ns.is_some_and(|end_ns| end_ns <= now_ns)
    }

    /// Whether somebody waits to be told and the run will end by itself.
    pub(crate) fn end_to_tell(&self) -> Option<u64> {
        let state = self.state();
        state.end_ns.filter(|_| !state.callbacks.is_empty())
    }

    /// A run that goes on from `from_ns` at the earliest ends so much later: it gives way to another one.
    pub(crate) fn give_way(&self, from_ns: u64, by_ns: u64) {
        let mut state = self.state();
        if let Some(end_ns) = &mut state.end_ns
            && *end_ns > from_ns
        {
            *end_ns = end_ns.saturating_add(by_ns);
            let later_ns = *end_ns;
            if let Some((_, end_ns)) = &mut state.timing.span_ns {
                *end_ns = later_ns;
            }
        }
    }

    /// Ends a run that has not ended.
    pub(crate) fn end_early(&self, error: Error) {
        let now_ns = self.host.now_ns();
        let mut state = self.state();
        if state.end_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            return;
        }
        state.end_ns = Some(now_ns);
        state.result = Err(error);
        state.timing.span_ns = state
            .timing
            .span_ns
            .map(|(start_ns, _)| (start_ns.min(now_ns), now_ns));
        drop(state);
        self.tell();
    }

    /// Calls the callbacks of a run that has ended.
    pub(crate) fn tell(&self) {
        let mut state = self.state();
        let result = state.result.clone();
        let callbacks = std::mem::take(&mut state.callbacks);
        self.changed.notify_all();
        drop(state);
        for callback in callbacks {
            callback.call(&result);
        }
    }

    fn ended(&self) -> Result<MutexGuard<'_, State>> {
        let now_ns = self.host.now_ns();
        let state = self.state();
        if state.end_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            Ok(state)
        } else {
            Err(Error::new(ErrorKind::Timeout, "the run goes on"))
        }
    }
}

impl Fence for NullFence {
    fn wait(&self, timeout_ns: u64) -> Result<()> {
        self.note("fence_wait");
        let until_ns = self.host.now_ns().saturating_add(timeout_ns);
        loop {
            let now_ns = self.host.now_ns();
            let state = self.state();
            match state.end_ns {
                Some(end_ns) if end_ns <= now_ns => {
                    let result = state.result.clone();
                    drop(state);
                    self.tell();
                    return result;
                }
                _ if now_ns >= until_ns => return Err(Error::new(ErrorKind::Timeout, "the run goes on")),
                None if timeout_ns == NO_TIMEOUT => {
                    // only a cancel or a reset ends it; the clock must not race away
                    let wait = self.changed.wait_timeout(state, Duration::from_millis(50));
                    drop(wait.unwrap_or_else(PoisonError::into_inner));
                }
                end_ns => {
                    drop(state);
                    let step = until_ns.min(now_ns.saturating_add(LOOK_UP_NS));
                    self.host.sleep_until_ns(step.min(end_ns.unwrap_or(u64::MAX)));
                }
            }
        }
    }

    fn on_signal(&self, signalled: SignalCallback) -> Result<()> {
        self.note("fence_on_signal");
        self.state().callbacks.push(signalled);
        if self.has_ended() {
            self.tell();
        }
        Ok(())
    }

    fn timing(&self) -> Result<Timing> {
        self.note("fence_timing");
        Ok(self.ended()?.timing)
    }

    fn output_shape(&self, port: u32, dims: &mut [i64]) -> Result<usize> {
        let state = self.ended()?;
        let (_, shape) = state
            .shapes
            .iter()
            .find(|(of, _)| *of == port)
            .ok_or_else(|| Error::bad_argument(format!("port {port} is no output of the run")))?;
        for (to, from) in dims.iter_mut().zip(shape) {
            *to = *from;
        }
        Ok(shape.len())
    }

    fn cancel(&self) -> Result<()> {
        self.note("cancel");
        if self.state().stuck {
            return Ok(());
        }
        self.end_early(Error::new(ErrorKind::Cancelled, "cancelled on request"));
        Ok(())
    }
}
