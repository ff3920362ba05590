//! The thread that plans new sizes while runs continue.
//!
//! Invariants:
//! 1. It ends with the last clone of its session, after its current plan.
//! 2. Each size is requested once, and planned in order of request.
//!
//! Not a channel: a size that waits is not asked for again, and callers wait for a size to be done.
//!
//! Not here: the planning and its result (`specializations`).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::session::buckets::Sizes;

/// The thread and what it was asked for.
#[derive(Debug)]
pub(crate) struct Background {
    asked: Arc<Asked>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Asked {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The first one is being planned for.
    sizes: VecDeque<Sizes>,
    closing: bool,
}

impl Asked {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sizes to plan for next; none where the session has ended.
    fn next(&self) -> Option<Sizes> {
        let mut state = self.lock();
        loop {
            if state.closing {
                return None;
            }
            if let Some(sizes) = state.sizes.front() {
                return Some(sizes.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Removes the first sizes from the queue when dropped, also if planning failed.
struct PlannedSizes<'a>(&'a Asked);

impl Drop for PlannedSizes<'_> {
    fn drop(&mut self) {
        self.0.lock().sizes.pop_front();
        self.0.changed.notify_all();
    }
}

impl Background {
    /// Starts the thread, which calls `plan` with each of the requested sizes.
    pub(crate) fn start(plan: impl Fn(&Sizes) + Send + 'static) -> std::io::Result<Background> {
        let asked = Arc::<Asked>::default();
        let of_thread = Arc::clone(&asked);
        let thread = std::thread::Builder::new()
            .name("polychip-plan".into())
            .spawn(move || {
                while let Some(sizes) = of_thread.next() {
                    let _finished = PlannedSizes(&of_thread);
                    plan(&sizes);
                }
            })?;
        Ok(Background {
            asked,
            thread: Some(thread),
        })
    }

    /// Asks for the plan over all devices for these sizes.
    pub(crate) fn ask(&self, sizes: &Sizes) {
        let mut state = self.asked.lock();
        if !state.sizes.contains(sizes) {
            state.sizes.push_back(sizes.clone());
        }
        drop(state);
        self.asked.changed.notify_all();
    }

    /// Waits until these sizes are planned for, where they were asked for.
    pub(crate) fn wait_for(&self, sizes: &Sizes) {
        let mut state = self.asked.lock();
        while state.sizes.contains(sizes) {
            let changed = &self.asked.changed;
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sizes that are not planned for yet.
    pub(crate) fn pending(&self) -> usize {
        self.asked.lock().sizes.len()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.asked.lock().closing = true;
        self.asked.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // a panic of the thread was reported when it happened
            let _ = thread.join();
        }
    }
}
