//! A mutex whose use debug builds check: locks are taken in one order, and none is held while a
//! plugin, a callback or a task's waker is called.
//!
//! Invariants:
//! 1. A thread takes a lock only while all locks that it holds have lower levels.
//! 2. [`assert_none_held`] stands before every call of foreign code. Every call of a device is such
//!    a call.
//! 3. Release builds check nothing. No build allocates here.
//!
//! Not here: the levels (the crate that owns the locks states them). Locks that are held across
//! device calls on purpose, to serialise them, are plain mutexes.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

thread_local! {
    /// The levels of the locks that this thread holds, one bit each.
    static HELD: Cell<u64> = const { Cell::new(0) };
}

/// A mutex at a level below 64. A poisoned lock is taken as it is.
#[derive(Debug, Default)]
pub struct CheckedMutex<T, const LEVEL: u8>(std::sync::Mutex<T>);

/// A taken lock.
#[derive(Debug)]
pub struct CheckedGuard<'a, T, const LEVEL: u8> {
    // dropped first
    guard: MutexGuard<'a, T>,
    held: Held<LEVEL>,
}

/// The mark of a lock that this thread holds.
#[derive(Debug)]
struct Held<const LEVEL: u8>;

impl<const LEVEL: u8> Held<LEVEL> {
    const BIT: u64 = 1 << LEVEL;

    /// # Panics
    /// In debug builds, if the thread holds a lock of this level or a higher one.
    #[track_caller]
    fn new() -> Held<LEVEL> {
        if cfg!(debug_assertions) {
            let held = HELD.try_with(Cell::get).unwrap_or(0);
            // a second panic while one unwinds would hide the first
            assert!(
                held < Self::BIT || std::thread::panicking(),
                "lock order: level {LEVEL} is taken while level {} is held",
                held.checked_ilog2().unwrap_or(0)
            );
            let _ = HELD.try_with(|all| all.set(all.get() | Self::BIT));
        }
        Held
    }
}

impl<const LEVEL: u8> Drop for Held<LEVEL> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            let _ = HELD.try_with(|all| all.set(all.get() & !Self::BIT));
        }
    }
}

/// States that foreign code is called next.
///
/// # Panics
/// In debug builds, if the thread holds a [`CheckedMutex`].
#[track_caller]
pub fn assert_none_held(call: &str) {
    if cfg!(debug_assertions) {
        let held = HELD.try_with(Cell::get).unwrap_or(0);
        assert!(
            held == 0 || std::thread::panicking(),
            "{call} is called while a lock of level {} is held",
            held.checked_ilog2().unwrap_or(0)
        );
    }
}

impl<T, const LEVEL: u8> CheckedMutex<T, LEVEL> {
    /// Holds `value`.
    pub const fn new(value: T) -> CheckedMutex<T, LEVEL> {
        CheckedMutex(std::sync::Mutex::new(value))
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock of this level or a higher one.
    #[track_caller]
    pub fn lock(&self) -> CheckedGuard<'_, T, LEVEL> {
        let held = Held::new();
        CheckedGuard {
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }
}

impl<'a, T, const LEVEL: u8> CheckedGuard<'a, T, LEVEL> {
    /// Waits for a notification.
    #[must_use]
    pub fn wait(self, changed: &Condvar) -> CheckedGuard<'a, T, LEVEL> {
        CheckedGuard {
            guard: changed.wait(self.guard).unwrap_or_else(PoisonError::into_inner),
            held: self.held,
        }
    }

    /// Waits for a notification, at most `timeout`.
    #[must_use]
    pub fn wait_timeout(self, changed: &Condvar, timeout: Duration) -> CheckedGuard<'a, T, LEVEL> {
        let waited = changed.wait_timeout(self.guard, timeout);
        CheckedGuard {
            guard: waited.unwrap_or_else(PoisonError::into_inner).0,
            held: self.held,
        }
    }
}

impl<T, const LEVEL: u8> Deref for CheckedGuard<'_, T, LEVEL> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const LEVEL: u8> DerefMut for CheckedGuard<'_, T, LEVEL> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(attempt: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(attempt).is_err()
    }

    #[test]
    fn locks_are_taken_upwards_and_released_in_any_order() {
        let (outer, inner) = (CheckedMutex::<u32, 3>::default(), CheckedMutex::<u32, 5>::new(7));
        let first = outer.lock();
        let second = inner.lock();
        drop(first);
        assert_eq!(*second, 7);
        assert_eq!(
            is_refused(|| drop(outer.lock())),
            cfg!(debug_assertions),
            "downwards"
        );
        assert_eq!(is_refused(|| assert_none_held("a call")), cfg!(debug_assertions));
        drop(second);
        // what was refused above left no mark
        drop(outer.lock());
        assert_none_held("a call");
        // another thread's locks are its own
        let held = inner.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| assert_none_held("a call")).join().unwrap();
        });
        drop(held);
    }

    #[test]
    fn waiting_keeps_the_mark_of_the_lock() {
        let (lock, changed) = (CheckedMutex::<(), 1>::default(), Condvar::new());
        let held = lock.lock().wait_timeout(&changed, Duration::from_millis(1));
        assert_eq!(is_refused(|| assert_none_held("a call")), cfg!(debug_assertions));
        drop(held);
        assert_none_held("a call");
    }
}
