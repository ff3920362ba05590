//! A thread that drives one slot's run if a part waits for something that no device waits for, or
//! if a task awaits the run.
//!
//! Invariants:
//! 1. A slot is moved in and out as a whole: no lock is held while a device is called.
//! 2. Moving a slot in or out allocates nothing.
//! 3. A waker is woken once, after the slot is available, and with no lock held.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polychip_host::{CallLimit, CheckedGuard, CheckedMutex, Clock, assert_none_held};

use crate::error::Result;
use crate::lock_order::{AWAITS, MAIL};
use crate::session::run_state::{Progress, RunState};
use crate::session::wiring::Wiring;

/// A step of waiting: how soon a stop or a cancellation is noticed while a device is busy.
const STEP: Duration = Duration::from_millis(50);

enum Mail {
    Idle,
    Start(Box<RunState>),
    Running,
    Done(Box<RunState>, Result<()>),
    Stop,
}

struct Post {
    mail: CheckedMutex<Mail, MAIL>,
    /// The task that awaits the run. Locked after `mail`.
    awaits: CheckedMutex<Option<Waker>, AWAITS>,
    changed: Condvar,
    cancelled: AtomicBool,
}

/// The thread of one slot.
pub(crate) struct RunDriver {
    post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
}

impl RunDriver {
    /// `call_limit`: how long the calls of its thread may take to plugins in processes of their own.
    pub(crate) fn new(
        wiring: Arc<Wiring>,
        clock: Clock,
        patience: Duration,
        call_limit: Option<Duration>,
    ) -> std::io::Result<RunDriver> {
        let post = Arc::new(Post {
            mail: CheckedMutex::new(Mail::Idle),
            awaits: CheckedMutex::new(None),
            changed: Condvar::new(),
            cancelled: AtomicBool::new(false),
        });
        let own = Arc::clone(&post);
        let thread = std::thread::Builder::new()
            .name("polychip-run".into())
            .spawn(move || {
                let _limit = call_limit.map(CallLimit::new);
                drive_runs(&own, &wiring, &clock, patience);
            })?;
        Ok(RunDriver {
            post,
            thread: Some(thread),
        })
    }

    /// Asks the run to end early.
    pub(crate) fn cancel(&self) {
        self.post.cancelled.store(true, Ordering::Release);
    }

    /// Hands a slot over.
    pub(crate) fn start(&self, slot: Box<RunState>) {
        self.post.cancelled.store(false, Ordering::Release);
        // who awaited the run before it does so no more
        let before = self.post.awaits.lock().take();
        drop(before);
        *self.lock() = Mail::Start(slot);
        self.post.changed.notify_all();
    }

    /// The slot back, where the run has ended within `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<(Box<RunState>, Result<()>)> {
        let deadline = Instant::now().checked_add(timeout);
        let mut mail = self.lock();
        loop {
            if let Mail::Done(..) = *mail {
                let Mail::Done(slot, result) = std::mem::replace(&mut *mail, Mail::Idle) else {
                    unreachable!("the variant was just seen")
                };
                return Some((slot, result));
            }
            let left = deadline.map_or(Duration::from_secs(3600), |end| {
                end.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return None;
            }
            mail = mail.wait_timeout(&self.post.changed, left);
        }
    }

    /// The slot back, where the run has ended; else the waker is woken when it has.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<(Box<RunState>, Result<()>)> {
        // the executor's code clones and drops a waker, so no lock is held
        let mut waker = Some(waker.clone());
        let mut mail = self.lock();
        if let Mail::Done(..) = *mail {
            let Mail::Done(slot, result) = std::mem::replace(&mut *mail, Mail::Idle) else {
                unreachable!("the variant was just seen")
            };
            return Some((slot, result));
        }
        std::mem::swap(&mut *self.post.awaits.lock(), &mut waker);
        drop(mail);
        None
    }

    fn lock(&self) -> CheckedGuard<'_, Mail, MAIL> {
        self.post.mail.lock()
    }
}

impl Drop for RunDriver {
    fn drop(&mut self) {
        let last = std::mem::replace(&mut *self.lock(), Mail::Stop);
        self.post.changed.notify_all();
        drop(last);
        // a waker that it wakes may let go of the last of a session; then the thread ends by itself
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !is_own(thread))
            && thread.join().is_err()
        {
            tracing::error!("a run's thread panicked");
        }
    }
}

fn drive_runs(post: &Post, wiring: &Wiring, clock: &Clock, patience: Duration) {
    let lock = || post.mail.lock();
    let mut mail = lock();
    loop {
        match std::mem::replace(&mut *mail, Mail::Running) {
            Mail::Start(mut slot) => {
                drop(mail);
                let stopped = || post.cancelled.load(Ordering::Acquire) || matches!(*lock(), Mail::Stop);
                let result = drive(&mut slot, wiring, clock, patience, stopped);
                if result.is_err() {
                    slot.cancel();
                    slot.give_up(wiring, patience);
                }
                mail = lock();
                if matches!(*mail, Mail::Stop) {
                    // devices are called where the slot is dropped
                    drop(mail);
                    drop(slot);
                    mail = lock();
                } else {
                    *mail = Mail::Done(slot, result);
                    post.changed.notify_all();
                    let awaits = post.awaits.lock().take();
                    if let Some(waker) = awaits {
                        drop(mail);
                        assert_none_held("a task's waker");
                        waker.wake();
                        mail = lock();
                    }
                }
            }
            Mail::Stop => return,
            other => {
                *mail = other;
                mail = mail.wait(&post.changed);
            }
        }
    }
}

fn drive(
    slot: &mut RunState,
    wiring: &Wiring,
    clock: &Clock,
    patience: Duration,
    stopped: impl Fn() -> bool,
) -> Result<()> {
    let check = |slot: &mut RunState| {
        if stopped() {
            return Err(crate::Error::new(
                crate::ErrorKind::Cancelled,
                "the run was cancelled",
            ));
        }
        if slot.age(clock) >= patience {
            return Err(slot.hang(wiring, patience));
        }
        Ok(())
    };
    while slot.issue(wiring, clock, Some(STEP))? == Progress::Waiting {
        check(slot)?;
    }
    while slot.finish_all(wiring, STEP)? == Progress::Waiting {
        check(slot)?;
    }
    Ok(())
}
