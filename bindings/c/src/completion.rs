//! Threads that notify the app of the end of runs.
//!
//! Invariants:
//! 1. A callback is called once, after its run has ended, on a thread of the library.
//! 2. No run waits for the callback of another: there are as many threads as runs with callbacks in
//!    flight.
//! 3. A thread without work for a second ends.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::entry::caught;
use crate::failure::{Failure, Result};
use crate::run::RunObject;
use crate::status::{POLYCHIP_ERROR_IO, POLYCHIP_OK, polychip_status_t};

/// How long a thread waits for the next run.
const IDLE: Duration = Duration::from_secs(1);

/// A run with a completion callback of the app.
pub(crate) struct Watched {
    run: Arc<RunObject>,
    callback: unsafe extern "C" fn(user: *mut c_void, status: polychip_status_t),
    user: *mut c_void,
}

// SAFETY: the app promised that the callback may be called with `user` from any thread.
unsafe impl Send for Watched {}

impl Watched {
    /// # Safety
    /// The callback may be called with `user` from any thread.
    pub(crate) unsafe fn new(
        run: Arc<RunObject>,
        callback: unsafe extern "C" fn(user: *mut c_void, status: polychip_status_t),
        user: *mut c_void,
    ) -> Watched {
        Watched { run, callback, user }
    }

    fn see_to_the_end(self) {
        let ended = caught(|| self.run.wait(None));
        let status = match ended {
            Ok(Ok(())) => POLYCHIP_OK,
            Ok(Err(failure)) | Err(failure) => failure.status,
        };
        // outputs are the app's from here on, and go when it destroys the run
        drop(self.run);
        // SAFETY: what `Watched::new` was promised.
        unsafe { (self.callback)(self.user, status) };
    }
}

struct Pool {
    queue: Mutex<Queue>,
    work: Condvar,
}

/// Not a channel: a run passes to another thread only if a thread is idle, which the same lock counts.
struct Queue {
    waiting: VecDeque<Watched>,
    /// Threads that wait for work.
    idle: usize,
}

static POOL: Pool = Pool {
    queue: Mutex::new(Queue {
        waiting: VecDeque::new(),
        idle: 0,
    }),
    work: Condvar::new(),
};

/// Has the app told when a run has ended.
///
/// # Errors
/// No thread can be started.
pub(crate) fn watch(run: Watched) -> Result<()> {
    let mut queue = POOL.queue.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.waiting.len() < queue.idle {
        queue.waiting.push_back(run);
        drop(queue);
        POOL.work.notify_one();
        return Ok(());
    }
    drop(queue);
    let thread = std::thread::Builder::new().name("polychip-done".to_owned());
    let started = thread.spawn(move || serve(run));
    started
        .map(drop)
        .map_err(|error| Failure::new(POLYCHIP_ERROR_IO, format!("starting a thread: {error}")))
}

fn serve(first: Watched) {
    let mut next = Some(first);
    while let Some(run) = next {
        run.see_to_the_end();
        let mut queue = POOL.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.idle += 1;
        let waited = POOL
            .work
            .wait_timeout_while(queue, IDLE, |queue| queue.waiting.is_empty());
        queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        queue.idle -= 1;
        next = queue.waiting.pop_front();
    }
}
