//! The governor thread, which looks at fixed intervals and on late runs.
//!
//! Invariant: it ends with the last clone of its session.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::wakeup::{Wake, Woken};
use crate::session::specialization_state::Inner;

/// Between two late runs that wake the thread: far less than a frame that somebody sees.
const BETWEEN: Duration = Duration::from_millis(5);

/// The thread that reads sensors; it ends with the last clone of its session.
#[derive(Debug)]
pub(crate) struct Watch {
    wake: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(in crate::session) fn start(
        inner: Arc<Inner>,
        wake: Arc<Wake>,
        every: Duration,
    ) -> std::io::Result<Watch> {
        let woken = Arc::clone(&wake);
        let thread = std::thread::Builder::new()
            .name("polychip-govern".into())
            .spawn(move || {
                let Some(governing) = &inner.governing else {
                    return;
                };
                let mut next = Instant::now() + every;
                loop {
                    let left = next.saturating_duration_since(Instant::now());
                    match woken.wait(left, |flags| flags.stop || flags.late) {
                        Woken::ToStop => return,
                        Woken::ByLateRun => {
                            governing.hear(&inner);
                            // runs that are all late do not keep it busy
                            let pause = BETWEEN.min(next.saturating_duration_since(Instant::now()));
                            if woken.wait(pause, |flags| flags.stop) == Woken::ToStop {
                                return;
                            }
                        }
                        Woken::ByTime => {
                            governing.step(&inner);
                            next = Instant::now() + every;
                        }
                    }
                }
            })?;
        Ok(Watch {
            wake,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.wake.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
