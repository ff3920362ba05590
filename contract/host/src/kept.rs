//! What the process keeps for ever, because a device that hung may still write into it.
//!
//! Invariants:
//! 1. What is kept is never freed and never given out again; it stays reachable, so that tools which look for
//!    leaks tell it from one.
//!
//! Not here: who hung (`fence`, `submission`).

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

static KEPT: Mutex<Vec<Arc<dyn Any + Send + Sync>>> = Mutex::new(Vec::new());

/// Keeps `what` until the process ends.
pub(crate) fn keep<T: Any + Send + Sync>(what: &Arc<T>) {
    let what: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(what);
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_outlives_its_owner() {
        let memory = Arc::new([7u8; 16]);
        let seen = Arc::downgrade(&memory);
        keep(&memory);
        drop(memory);
        assert_eq!(seen.upgrade().as_deref(), Some(&[7; 16]));
    }
}
