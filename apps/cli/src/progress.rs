//! A line on the terminal for anything that takes over a second.
//!
//! Invariant: nothing is drawn where standard error is no terminal, nor in the first second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Total and words that were said since the last drawing.
    said: Arc<Mutex<Option<(u64, String)>>>,
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
        Progress::draw(words, steps, "{msg} {bar:30} {pos}/{len} {eta}")
    }

    fn draw(words: String, steps: Option<u64>, template: &'static str) -> Progress {
        let done = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = channel::<()>();
        let seen = Arc::clone(&done);
        let said = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&said);
        let draw = move || {
            if stopped.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = match steps {
                Some(steps) => ProgressBar::new(steps).with_style(
                    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
                ),
                None => ProgressBar::new_spinner(),
            };
            bar.set_message(words);
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(seen.load(Ordering::Relaxed));
                let now: Option<(u64, String)> = heard.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some((total, words)) = now {
                    bar.set_length(total);
                    bar.set_message(words);
                }
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
            said,
            stop: Some(stop),
            thread,
        }
    }

    /// Steps whose time left is known better than by counting them: it stands in the words of [`Progress::at`].
    pub(crate) fn told(words: impl Into<String>) -> Progress {
        Progress::draw(words.into(), Some(1), "{bar:30} {pos}/{len} {msg}")
    }

    /// So many of so many steps are done.
    pub(crate) fn at(&self, done: u64, total: u64, words: String) {
        self.done.store(done, Ordering::Relaxed);
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some((total, words));
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
