//! The thread that lets a session's governor look, so often.
//!
//! Invariant: it ends with the last clone of its session, and does not outlive it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::session::inner::Inner;

/// The thread that reads sensors; it ends with the last clone of its session.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(in crate::session) fn start(inner: Arc<Inner>, every: Duration) -> std::io::Result<Watch> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("polychip-govern".into())
            .spawn(move || {
                let (flag, wake) = &*stopped;
                loop {
                    let flag = flag.lock().unwrap_or_else(PoisonError::into_inner);
                    let (flag, _) = wake
                        .wait_timeout_while(flag, every, |stop| !*stop)
                        .unwrap_or_else(PoisonError::into_inner);
                    if *flag {
                        return;
                    }
                    drop(flag);
                    if let Some(governing) = &inner.governing {
                        governing.step(&inner);
                    }
                }
            })?;
        Ok(Watch {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
