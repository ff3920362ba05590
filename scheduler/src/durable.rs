//! Writes sessions' measurements to the profile file while they run, so that they survive if the
//! app is killed.
//!
//! Invariants:
//! 1. Nothing here is on the path of a run: one thread of the runtime wakes every 30 s.
//! 2. The thread exists only with a profile file, from the first session on, and ends with the
//!    runtime.
//!
//! Not here: the written rows (`session/loaded`, `planned/settled`).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two writes.
const EVERY: Duration = Duration::from_secs(30);

/// What is written from time to time.
pub(crate) trait Figures: std::fmt::Debug + Send + Sync {
    /// Writes what is new.
    fn write_figures(&self);
}

/// The sessions of a runtime whose figures are written.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    state: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    sessions: Mutex<Sessions>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sessions {
    all: Vec<Weak<dyn Figures>>,
    closing: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions after the next pause; none at the end.
    fn next(&self) -> Option<Vec<Arc<dyn Figures>>> {
        let until = Instant::now() + EVERY;
        let mut sessions = self.lock();
        loop {
            if sessions.closing {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                sessions.all.retain(|session| session.strong_count() > 0);
                return Some(sessions.all.iter().filter_map(Weak::upgrade).collect());
            }
            let waited = self.changed.wait_timeout(sessions, left);
            sessions = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Durable {
    /// From now on the figures of this session are written.
    pub(crate) fn add(&self, session: Weak<dyn Figures>) {
        self.state.lock().all.push(session);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return;
        }
        let state = Arc::clone(&self.state);
        let made = std::thread::Builder::new()
            .name("polychip-profile".into())
            .spawn(move || {
                while let Some(sessions) = state.next() {
                    for session in sessions {
                        session.write_figures();
                    }
                }
            });
        match made {
            Ok(made) => *thread = Some(made),
            Err(error) => tracing::warn!(
                "measured times are written only when sessions end: cannot start a thread: {error}"
            ),
        }
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        self.state.lock().closing = true;
        self.state.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // the thread itself may let go of the last session, and so of the runtime
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = thread.filter(|thread| !is_own(thread)) {
            // a panic of the thread was reported when it happened
            let _ = thread.join();
        }
    }
}
