//! The thread that polls runs without a waiting caller.
//!
//! Invariant: a run that has callbacks, or that is held back, is looked at without rest; others some times a second,
//! so that what they hold is let go of.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polychip_sdk::{Error, ErrorKind, Fence as _, Result};

use super::run::Runs;
use crate::shared::lock;

/// Polling interval of runs without a waiting caller.
const ROUND: Duration = Duration::from_millis(50);
/// After so long without a run the thread sleeps until there is one.
const LINGER: Duration = Duration::from_secs(2);

/// The thread.
pub(crate) struct Runner {
    runs: Arc<Runs>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(runs: &Arc<Runs>) -> Result<Runner> {
        let own = Arc::clone(runs);
        let thread = std::thread::Builder::new()
            .name("polychip-gpu-runs".to_owned())
            .spawn(move || serve(&own))
            .map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("no thread for runs: {error}")))?;
        Ok(Runner {
            runs: Arc::clone(runs),
            thread: Some(thread),
        })
    }
}

fn serve(runs: &Runs) {
    let watch = &*runs.watch;
    let mut list = Vec::new();
    let mut quiet = Instant::now();
    loop {
        let hurry = {
            let mut state = lock(&watch.state);
            if state.stop {
                return;
            }
            if watch.in_flight.load(Ordering::Acquire) > 0 {
                quiet = Instant::now();
            } else {
                state.hurry = false;
            }
            if !state.hurry {
                let rest = if quiet.elapsed() > LINGER {
                    Duration::MAX
                } else {
                    ROUND
                };
                state.asleep = rest == Duration::MAX;
                state = match rest {
                    Duration::MAX => watch
                        .news
                        .wait(state)
                        .unwrap_or_else(std::sync::PoisonError::into_inner),
                    rest => {
                        watch
                            .news
                            .wait_timeout(state, rest)
                            .unwrap_or_else(std::sync::PoisonError::into_inner)
                            .0
                    }
                };
                state.asleep = false;
            }
            if state.stop {
                return;
            }
            state.hurry
        };
        runs.in_flight(&mut list);
        for run in &list {
            run.nudge();
        }
        if let Some(run) = list.first().filter(|_| hurry) {
            // how it ends is told by its fence
            let _ = run.wait(1_000_000);
        }
        list.clear();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        lock(&self.runs.watch.state).stop = true;
        self.runs.watch.news.notify_all();
        if let Some(thread) = self.thread.take() {
            // a run reports through its fence, so there is nothing to report here
            let _ = thread.join();
        }
    }
}
