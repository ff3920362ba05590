//! When an ungoverned session checks temperatures next.
//!
//! Invariant: between two checks, and without a limit in the policy, a run pays one atomic load.

use std::sync::atomic::{AtomicU64, Ordering};

use polychip_partitioner::MilliCelsius;

/// Chips warm and cool within seconds; to ask a driver for a temperature takes up to milliseconds.
const LOOK_NS: u64 = 1_000_000_000;

/// When to look next whether a device is too hot, or has cooled.
#[derive(Debug)]
pub(crate) struct ThermalTimer(AtomicU64);

impl ThermalTimer {
    /// Of a plan that was made now.
    pub(crate) fn new(limit: Option<MilliCelsius>, is_governed: bool, now_ns: u64) -> ThermalTimer {
        let timer = ThermalTimer(AtomicU64::new(u64::MAX));
        if limit.is_some() && !is_governed {
            timer.look_later(now_ns);
        }
        timer
    }

    /// Sets the next check to one interval from now.
    pub(crate) fn look_later(&self, now_ns: u64) {
        self.0.store(now_ns.saturating_add(LOOK_NS), Ordering::Relaxed);
    }

    /// Whether the next check is due.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.0.load(Ordering::Relaxed)
    }
}
