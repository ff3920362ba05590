//! The thread that plans new sizes while runs continue.
//!
//! Invariants:
//! 1. It ends with the last clone of its session, after its current plan.
//! 2. Each size is requested once, and planned in order of request.
//! 3. A panic while planning ends neither the thread nor the wait for later sizes.
//!
//! Not a channel: a size that waits is not asked for again, and callers wait for a size to be done.
//!
//! Not here: the planning and its result (`specializations`).

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// Removes the first sizes from the queue when dropped, also if planning or the report of its panic panicked.
struct PlannedSizes<'a>(&'a Asked);

impl Drop for PlannedSizes<'_> {
    fn drop(&mut self) {
        self.0.lock().sizes.pop_front();
        self.0.changed.notify_all();
    }
}

impl Background {
    /// Starts the thread, which calls `plan` with each of the requested sizes. If that panics, it calls `panicked` with
    /// the message.
    pub(crate) fn start(
        plan: impl Fn(&Sizes) + Send + 'static,
        panicked: impl Fn(&Sizes, &str) + Send + 'static,
    ) -> std::io::Result<Background> {
        let asked = Arc::<Asked>::default();
        let of_thread = Arc::clone(&asked);
        let thread = std::thread::Builder::new()
            .name("polychip-plan".into())
            .spawn(move || {
                while let Some(sizes) = of_thread.next() {
                    let _finished = PlannedSizes(&of_thread);
                    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| plan(&sizes))) {
                        panicked(&sizes, message(&*payload));
                    }
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

/// The message of a panic.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panic_while_planning_is_reported_and_later_sizes_are_planned() {
        let sizes = |size: usize| Sizes::from_slice(&[size]);
        let (tell, told) = mpsc::channel();
        let tell_panic = tell.clone();
        let background = Background::start(
            move |sizes| {
                assert!(sizes[0] != 1, "no plan for size {}", sizes[0]);
                tell.send((sizes.clone(), String::new())).unwrap();
            },
            move |sizes, message| tell_panic.send((sizes.clone(), message.to_owned())).unwrap(),
        )
        .unwrap();
        for size in [1, 2] {
            background.ask(&sizes(size));
            background.wait_for(&sizes(size));
        }
        assert_eq!(background.pending(), 0);
        drop(background);
        let all: Vec<_> = told.iter().collect();
        let panic = (sizes(1), "no plan for size 1".to_owned());
        assert_eq!(all, [panic, (sizes(2), String::new())]);
    }
}
