//! What one run at a time has, and gives back however it ends.
//!
//! Invariant: what was forgotten is not given back: who has it then ends it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Something to lend.
pub(super) struct Lendable<T>(Mutex<State<T>>);

struct State<T> {
    /// `None` while it is lent, and once it is forgotten.
    thing: Option<T>,
    is_lent: bool,
    is_forgotten: bool,
}

impl<T> Lendable<T> {
    pub(super) fn new(thing: T) -> Lendable<T> {
        Lendable(Mutex::new(State {
            thing: Some(thing),
            is_lent: false,
            is_forgotten: false,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thing, where it is here.
    pub(super) fn lend(&self) -> Option<Lent<'_, T>> {
        let mut state = self.state();
        let thing = state.thing.take()?;
        state.is_lent = true;
        Some(Lent {
            owner: self,
            thing: Some(thing),
        })
    }

    /// Ends the thing. `true` where it is lent: who has it then ends it.
    pub(super) fn forget(&self) -> bool {
        let mut state = self.state();
        state.is_forgotten = true;
        state.thing = None;
        state.is_lent
    }
}

/// The thing, until it is dropped.
pub(super) struct Lent<'a, T> {
    owner: &'a Lendable<T>,
    thing: Option<T>,
}

impl<T> Lent<'_, T> {
    pub(super) fn with<R>(&mut self, used: impl FnOnce(&mut T) -> R) -> R {
        used(
            self.thing
                .as_mut()
                .expect("invariant: it is given back by the drop alone"),
        )
    }
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        let mut state = self.owner.state();
        state.is_lent = false;
        if !state.is_forgotten {
            state.thing = self.thing.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn panicking_run_returns_its_resource() {
        let context = Lendable::new(7);
        let run = || context.lend().unwrap().with(|_| panic!("the bug of a run"));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(context.lend().unwrap().with(|context| *context), 7);
        assert!(!context.forget());
        assert!(context.lend().is_none());
    }

    #[test]
    fn forgotten_resource_is_not_returned() {
        let context = Lendable::new(7);
        let lent = context.lend().unwrap();
        assert!(context.lend().is_none());
        assert!(context.forget());
        drop(lent);
        assert!(!context.forget());
        assert!(context.lend().is_none());
    }
}
