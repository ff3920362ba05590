//! Wakes the governor thread: for a late run, or for the end of its session.
//!
//! Invariants:
//! 1. The waking thread waits only for the flags, and allocates nothing.
//! 2. A late run is reported once and not lost: one that comes while the thread pauses is reported
//!    afterwards.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the thread is woken for.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    flags: Mutex<Flags>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Flags {
    pub(super) stop: bool,
    pub(super) late: bool,
}

impl Wake {
    fn lock(&self) -> MutexGuard<'_, Flags> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run was late.
    pub(crate) fn late(&self) {
        self.lock().late = true;
        self.changed.notify_all();
    }

    /// The session ends.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits so long, or until there is something to do; a late run may have been forgotten meanwhile.
    pub(super) fn wait(&self, most: Duration, is_awaited: impl Fn(&Flags) -> bool) -> Woken {
        let (mut flags, _) = self
            .changed
            .wait_timeout_while(self.lock(), most, |flags| !is_awaited(flags))
            .unwrap_or_else(PoisonError::into_inner);
        if flags.stop {
            Woken::ToStop
        } else if is_awaited(&flags) && std::mem::take(&mut flags.late) {
            Woken::ByLateRun
        } else {
            Woken::ByTime
        }
    }
}

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    ToStop,
    ByLateRun,
    ByTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_run_ends_the_wait_once() {
        let wake = Wake::default();
        let long = Duration::from_secs(600);
        let any = |flags: &Flags| flags.stop || flags.late;
        wake.late();
        assert_eq!(wake.wait(long, any), Woken::ByLateRun);
        assert_eq!(wake.wait(Duration::ZERO, any), Woken::ByTime);
        // a late run during the pause is reported after it
        wake.late();
        assert_eq!(wake.wait(Duration::ZERO, |flags| flags.stop), Woken::ByTime);
        assert_eq!(wake.wait(long, any), Woken::ByLateRun);
        wake.lock().stop = true;
        assert_eq!(wake.wait(long, any), Woken::ToStop);
    }
}
