//! What a session makes ready on a thread for callers that never wait.
//!
//! Not here: the calls and the thread (`try_submit`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;

/// Names and shapes of a run's inputs.
pub(super) type NamedShapes = Vec<(String, Vec<usize>)>;

/// Whether a call may wait for runs, plans and devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    AsAllowed,
    Never,
}

/// What the thread is at, and the failure of the last one.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Mutex<AheadState>);

#[derive(Debug, Default)]
pub(super) struct AheadState {
    pub(super) is_busy: bool,
    pub(super) failed: Option<(NamedShapes, Error)>,
}

impl Ahead {
    pub(super) fn lock(&self) -> MutexGuard<'_, AheadState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
