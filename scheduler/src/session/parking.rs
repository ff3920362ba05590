//! What is known of a session's parking: when it was used, what it frees and how long it takes to load again.
//!
//! Not here: parking (`park`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::memory_account::Charge;

/// What parking a session needs to know.
#[derive(Debug)]
pub(crate) struct Parking {
    /// Bytes that were freed when it was parked; 0 if it is not parked.
    freed: AtomicU64,
    /// Time of its last load in nanoseconds; 0 if it was not loaded again so far.
    rebuild_ns: AtomicU64,
    used_ns: AtomicU64,
    /// Of its graph and costs, which stay when it is parked.
    graph: Mutex<Option<Charge>>,
}

impl Parking {
    pub(super) fn new(now_ns: u64) -> Parking {
        Parking {
            freed: AtomicU64::new(0),
            rebuild_ns: AtomicU64::new(0),
            used_ns: AtomicU64::new(now_ns),
            graph: Mutex::default(),
        }
    }

    /// Keeps the charge of the session's graph.
    pub(super) fn keep(&self, graph: Option<Charge>) {
        *self.graph.lock().unwrap_or_else(PoisonError::into_inner) = graph;
    }

    /// A run begins.
    pub(super) fn is_used(&self, now_ns: u64) {
        self.used_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When a run began last, in nanoseconds of the runtime's clock.
    pub(super) fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    /// Time of the last load in nanoseconds; none if it was not loaded again so far.
    pub(super) fn rebuild_ns(&self) -> Option<u64> {
        Some(self.rebuild_ns.load(Ordering::Relaxed)).filter(|known| *known > 0)
    }

    /// The session is parked, which freed so many bytes, at least one.
    pub(super) fn set_freed(&self, bytes: u64) {
        self.freed.store(bytes, Ordering::Release);
    }

    /// Bytes that were freed when it was parked; 0 if it is not parked.
    pub(super) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Acquire)
    }

    pub(super) fn is_parked(&self) -> bool {
        self.freed() > 0
    }

    /// It is loaded again; whether it was parked.
    pub(super) fn resumed(&self, took: Duration) -> bool {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.rebuild_ns.store(took_ns, Ordering::Relaxed);
        self.freed.swap(0, Ordering::AcqRel) > 0
    }
}
