//! What the executables of a device share with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::Session;

/// Of one device.
pub(crate) struct Shared {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: Epoch,
}

/// Counts resets of a device.
#[derive(Debug, Default)]
pub(crate) struct Epoch(AtomicU64);

impl Epoch {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
