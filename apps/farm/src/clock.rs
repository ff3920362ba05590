//! Time of the driver: the machine's, or a virtual one that simulates hours in seconds.
//!
//! Invariant: virtual time advances only when every participating thread sleeps, and then to the earliest wake-up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// A source of time, shared by all threads of a run.
#[derive(Debug, Clone)]
pub struct Clock(Option<Arc<Mutex<Virtual>>>);

#[derive(Debug, Default)]
struct Virtual {
    now: Duration,
    /// Threads that take part and do not sleep.
    awake: usize,
    /// When who wakes; of two at once, the one that went to sleep first.
    sleepers: BinaryHeap<Reverse<(Duration, u64)>>,
    /// Sleepers by number; whoever is to wake is taken out.
    threads: BTreeMap<u64, Thread>,
    next: u64,
}

/// A thread takes part for as long as this lives.
#[derive(Debug)]
pub struct Presence(Clock);

impl Clock {
    /// The machine's.
    #[must_use]
    pub fn real() -> Clock {
        Clock(None)
    }

    /// A virtual one, which starts at 0.
    #[must_use]
    pub fn simulated() -> Clock {
        Clock(Some(Arc::default()))
    }

    fn state(&self) -> Option<MutexGuard<'_, Virtual>> {
        let state = self.0.as_ref()?;
        Some(state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Virtual time since the start; none of the machine's.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        Some(self.state()?.now)
    }

    /// A thread that is about to start takes part: time stands still until it sleeps.
    #[must_use]
    pub fn enter(&self) -> Presence {
        if let Some(mut state) = self.state() {
            state.awake += 1;
        }
        Presence(self.clone())
    }

    /// Sleeps. On virtual time, only a thread that takes part may.
    pub fn sleep(&self, time: Duration) {
        let Some(mut state) = self.state() else {
            return std::thread::sleep(time);
        };
        let number = state.next;
        state.next += 1;
        let wake = state.now + time;
        state.sleepers.push(Reverse((wake, number)));
        state.threads.insert(number, std::thread::current());
        state.awake -= 1;
        state.advance();
        while state.threads.contains_key(&number) {
            drop(state);
            std::thread::park();
            match self.state() {
                Some(again) => state = again,
                None => return,
            }
        }
    }
}

impl Virtual {
    fn advance(&mut self) {
        if self.awake > 0 {
            return;
        }
        if let Some(Reverse((wake, number))) = self.sleepers.pop() {
            self.now = wake;
            self.awake = 1;
            if let Some(thread) = self.threads.remove(&number) {
                thread.unpark();
            }
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(mut state) = self.0.state() {
            state.awake -= 1;
            state.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_wake_in_the_order_of_virtual_time() {
        let clock = Clock::simulated();
        let woken = Mutex::new(Vec::new());
        let presences: Vec<Presence> = (0..3).map(|_| clock.enter()).collect();
        std::thread::scope(|scope| {
            for (index, presence) in presences.into_iter().enumerate() {
                let (clock, woken) = (&clock, &woken);
                scope.spawn(move || {
                    let _presence = presence;
                    for turn in 1..=2 {
                        clock.sleep(Duration::from_secs(1000 * (3 - index as u64)));
                        woken
                            .lock()
                            .unwrap()
                            .push((clock.elapsed().unwrap().as_secs(), index, turn));
                    }
                });
            }
        });
        let woken = woken.into_inner().unwrap();
        let times: Vec<u64> = woken.iter().map(|(time, ..)| *time).collect();
        assert!(times.is_sorted(), "{woken:?}");
        assert_eq!(woken.len(), 6);
        assert_eq!(woken.last(), Some(&(6000, 0, 2)));
    }
}
