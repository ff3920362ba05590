//! State that a device shares with its executables, and the loop of its timer.
//!
//! Invariant: it changes under one lock, which is never held during a callback.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use polychip_sdk::{HostServices, Priority};

use crate::chip::Chip;
use crate::fence::NullFence;
use crate::record::Record;
use crate::script::{DeviceScript, Giving};
use crate::telemetry::Meter;

/// State that a device shares with its executables.
pub(crate) struct Shared {
    pub(crate) host: HostServices,
    pub(crate) script: DeviceScript,
    /// The chip that prices runs, and which unit of it this is.
    pub(crate) chip: Option<(Arc<dyn Chip>, usize)>,
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) state: Mutex<State>,
    pub(crate) woken: Condvar,
}

pub(crate) struct State {
    pub(crate) meter: Meter,
    pub(crate) runs: u64,
    pub(crate) compilations: u64,
    pub(crate) loads: u64,
    pub(crate) resets: u64,
    pub(crate) lost: bool,
    pub(crate) generation: u64,
    pub(crate) in_flight: Vec<Arc<NullFence>>,
    pub(crate) closing: bool,
}

impl State {
    /// Runs that give way to one of this priority.
    pub(crate) fn less_urgent(&self, priority: Priority) -> impl Iterator<Item = &Arc<NullFence>> {
        let less = move |fence: &&Arc<NullFence>| (fence.priority as u32) < priority as u32;
        self.in_flight.iter().filter(less)
    }

    /// When a run that is ready at `ready_ns` starts instead of less urgent ones; none where nothing gives way to it.
    pub(crate) fn instead_from(
        &self,
        script: &DeviceScript,
        priority: Priority,
        ready_ns: u64,
    ) -> Option<u64> {
        if script.preemption == Giving::None {
            return None;
        }
        let ends = |fence: &Arc<NullFence>| Some(fence.outcome()?.0);
        let as_urgent = |fence: &&Arc<NullFence>| fence.priority as u32 >= priority as u32;
        let before = self.in_flight.iter().filter(as_urgent).filter_map(ends).max();
        let free_ns = ready_ns.max(before.unwrap_or(0));
        let less = self.less_urgent(priority).filter_map(ends);
        let busy_until_ns = less.max().filter(|end_ns| *end_ns > free_ns)?;
        Some(busy_until_ns.min(free_ns.saturating_add(script.preemption_bound_ns)))
    }
}

impl Shared {
    /// Records a call, if the script requests it.
    pub(crate) fn note(&self, call: &str) {
        if let Some(record) = &self.record {
            record.add(call);
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the timer to check the runs in flight.
    pub(crate) fn wake_timer(&self) {
        self.woken.notify_all();
    }

    /// Tells those who asked when runs end. A real device has an interrupt for this.
    pub(crate) fn run_timer(&self) {
        let mut state = self.state();
        while !state.closing {
            // an ended run whose callbacks were made needs no timer
            state
                .in_flight
                .retain(|fence| !fence.has_ended() || fence.end_to_tell().is_some());
            let next = state
                .in_flight
                .iter()
                .filter_map(|fence| Some((fence.end_to_tell()?, Arc::clone(fence))))
                .min_by_key(|(end_ns, _)| *end_ns);
            match next {
                None if state.in_flight.is_empty() => {
                    state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                None => {
                    // a callback may be asked for without anybody waking us
                    let pause = std::time::Duration::from_millis(1);
                    let woken = self.woken.wait_timeout(state, pause);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some((end_ns, fence)) => {
                    drop(state);
                    self.host.sleep_until_ns(end_ns);
                    if fence.has_ended() {
                        fence.tell();
                    }
                    state = self.state();
                }
            }
        }
    }
}
