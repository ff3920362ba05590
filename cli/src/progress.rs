//! A line on the terminal for anything that takes over a second.
//!
//! Invariant: nothing is drawn where standard error is no terminal, nor in the first second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// What takes less than this is not shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two drawings.
const TICK: Duration = Duration::from_millis(100);

/// Something that goes on; gone when dropped.
pub(crate) struct Progress {
    done: Arc<AtomicU64>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Something of unknown length.
    pub(crate) fn of(words: impl Into<String>) -> Progress {
        Progress::start(words.into(), None)
    }

    /// So many steps.
    pub(crate) fn steps(words: impl Into<String>, steps: u64) -> Progress {
        Progress::start(words.into(), Some(steps))
    }

    fn start(words: String, steps: Option<u64>) -> Progress {
        let done = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = channel::<()>();
        let seen = Arc::clone(&done);
        let draw = move || {
            if stopped.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = match steps {
                Some(steps) => ProgressBar::new(steps).with_style(
                    ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}")
                        .unwrap_or_else(|_| ProgressStyle::default_bar()),
                ),
                None => ProgressBar::new_spinner(),
            };
            bar.set_message(words);
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(seen.load(Ordering::Relaxed));
                bar.tick();
            }
            bar.finish_and_clear();
        };
        let is_shown = std::io::IsTerminal::is_terminal(&std::io::stderr());
        // a terminal that cannot have its line is no reason to fail
        let thread = is_shown
            .then(|| std::thread::Builder::new().spawn(draw).ok())
            .flatten();
        Progress {
            done,
            stop: Some(stop),
            thread,
        }
    }

    /// One step more is done.
    pub(crate) fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // a drawing that panicked has nothing to say
            let _ = thread.join();
        }
    }
}
