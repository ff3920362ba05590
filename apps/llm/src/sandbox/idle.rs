//! Sandboxes that wait for a job.

use std::sync::{Mutex, PoisonError};

use super::limits::MAX_IDLE;
use super::process::Process;

/// Idle sandboxes of one kind.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Vec<Process>>);

impl Idle {
    pub(crate) const fn new() -> Idle {
        Idle(Mutex::new(Vec::new()))
    }

    /// An idle sandbox that is alive.
    pub(crate) fn take(&self) -> Option<Process> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut process) = idle.pop() {
            if process.is_alive() {
                return Some(process);
            }
        }
        None
    }

    /// Keeps a sandbox for the next job; one too many is ended.
    pub(crate) fn give_back(&self, process: Process) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(process);
        }
    }
}
