//! A resource that one run at a time uses, and returns however it ends.
//!
//! Invariant: a forgotten resource is not returned; its holder drops it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A resource for exclusive use.
pub(super) struct Exclusive<T>(Mutex<State<T>>);

struct State<T> {
    /// `None` while it is in use, and once it is forgotten.
    value: Option<T>,
    is_taken: bool,
    is_forgotten: bool,
}

impl<T> Exclusive<T> {
    pub(super) fn new(value: T) -> Exclusive<T> {
        Exclusive(Mutex::new(State {
            value: Some(value),
            is_taken: false,
            is_forgotten: false,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The resource, if it is not in use.
    pub(super) fn acquire(&self) -> Option<ExclusiveGuard<'_, T>> {
        let mut state = self.state();
        let value = state.value.take()?;
        state.is_taken = true;
        Some(ExclusiveGuard {
            owner: self,
            value: Some(value),
        })
    }

    /// Drops the resource. Returns `true` if it is in use; its holder then drops it.
    pub(super) fn forget(&self) -> bool {
        let mut state = self.state();
        state.is_forgotten = true;
        state.value = None;
        state.is_taken
    }
}

/// Exclusive use of the resource, until dropped.
pub(super) struct ExclusiveGuard<'a, T> {
    owner: &'a Exclusive<T>,
    value: Option<T>,
}

impl<T> ExclusiveGuard<'_, T> {
    pub(super) fn with<R>(&mut self, used: impl FnOnce(&mut T) -> R) -> R {
        used(self.value.as_mut().expect("invariant: only the drop returns it"))
    }
}

impl<T> Drop for ExclusiveGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.owner.state();
        state.is_taken = false;
        if !state.is_forgotten {
            state.value = self.value.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn panicking_run_returns_its_resource() {
        let context = Exclusive::new(7);
        let run = || context.acquire().unwrap().with(|_| panic!("the bug of a run"));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(context.acquire().unwrap().with(|context| *context), 7);
        assert!(!context.forget());
        assert!(context.acquire().is_none());
    }

    #[test]
    fn forgotten_resource_is_not_returned() {
        let context = Exclusive::new(7);
        let guard = context.acquire().unwrap();
        assert!(context.acquire().is_none());
        assert!(context.forget());
        drop(guard);
        assert!(!context.forget());
        assert!(context.acquire().is_none());
    }
}
