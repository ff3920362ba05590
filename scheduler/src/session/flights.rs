//! The runs of a session that are in flight, and the callers that wait for their place among them.
//!
//! Invariants:
//! 1. A run has its place until it has given its outputs or an error; outputs that the app keeps take no place.
//! 2. Callers that wait get their places in the order in which they came; one that does not wait gets none before them.
//! 3. Nothing is allocated here, but where a caller gives up before its turn.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The places of a session.
#[derive(Debug)]
pub(crate) struct Flights {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    out: usize,
    /// Numbers of the next caller to come, and of the first that still waits.
    next: u64,
    first: u64,
    /// Callers that gave up while others wait before them.
    gone: Vec<u64>,
}

impl State {
    /// The callers before this one have all been served, or gave up.
    fn advance(&mut self) {
        self.first += 1;
        while let Some(at) = self.gone.iter().position(|gone| *gone == self.first) {
            self.gone.swap_remove(at);
            self.first += 1;
        }
    }
}

/// One of the runs that may be in flight.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<Flights>);

impl Flights {
    /// Places for `most` runs.
    pub(crate) fn new(most: usize) -> Flights {
        Flights {
            most,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, where one is free and nobody waits; at most `most` are taken where that is fewer.
    pub(crate) fn take(self: &Arc<Self>, most: usize) -> Option<Ticket> {
        let mut state = self.lock();
        let free = state.out < self.most.min(most) && state.first == state.next;
        free.then(|| {
            state.out += 1;
            Ticket(Arc::clone(self))
        })
    }

    /// A place, once one is free and whoever came before has one; `None` where that takes longer than `patience`.
    /// Meanwhile `look` is called from time to time: it may free a place that nobody tells of.
    pub(crate) fn wait(self: &Arc<Self>, most: usize, patience: Duration, look: impl Fn()) -> Option<Ticket> {
        /// Runs that were given up end without a word.
        const LOOK: Duration = Duration::from_millis(20);
        let most = self.most.min(most);
        let until = Instant::now().checked_add(patience);
        let mut state = self.lock();
        let own = state.next;
        state.next += 1;
        loop {
            if state.first == own && state.out < most {
                state.out += 1;
                state.advance();
                drop(state);
                // the next one may have its place too
                self.changed.notify_all();
                return Some(Ticket(Arc::clone(self)));
            }
            let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                if state.first == own {
                    state.advance();
                } else {
                    state.gone.push(own);
                }
                drop(state);
                self.changed.notify_all();
                return None;
            }
            let waited = self.changed.wait_timeout(state, left.min(LOOK));
            let (guard, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timed_out.timed_out() {
                drop(state);
                look();
                state = self.lock();
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.out -= 1;
        let waited_for = state.first != state.next;
        drop(state);
        if waited_for {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn places_are_given_in_the_order_of_coming_and_nobody_jumps_the_queue() {
        let flights = Arc::new(Flights::new(1));
        let first = flights.take(9).unwrap();
        assert!(flights.take(9).is_none());
        assert!(flights.wait(9, Duration::from_millis(1), || {}).is_none());
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (flights, order) = (&flights, &order);
                scope.spawn(move || {
                    let ticket = flights.wait(9, LONG, || {}).unwrap();
                    order.lock().unwrap().push(number);
                    drop(ticket);
                });
                while flights.lock().next < number + 2 {
                    std::thread::yield_now();
                }
            }
            // a place is free in a moment, but others wait for it
            drop(first);
            assert!(flights.take(9).is_none() || order.lock().unwrap().len() == 8);
        });
        assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<u64>>());
        assert!(flights.take(9).is_some());
    }

    #[test]
    fn who_gives_up_holds_nobody_up() {
        let flights = Arc::new(Flights::new(2));
        let (one, two) = (flights.take(2).unwrap(), flights.take(2).unwrap());
        std::thread::scope(|scope| {
            let waits = |patience: Duration| {
                let flights = &flights;
                move || flights.wait(2, patience, || {}).is_some()
            };
            let come = |count: u64| {
                while flights.lock().next < count {
                    std::thread::yield_now();
                }
            };
            let long = scope.spawn(waits(LONG));
            come(1);
            let short = scope.spawn(waits(Duration::from_millis(5)));
            come(2);
            let last = scope.spawn(waits(LONG));
            come(3);
            assert!(!short.join().unwrap());
            drop((one, two));
            assert!(long.join().unwrap() && last.join().unwrap());
        });
        let state = flights.lock();
        assert_eq!(state.first, state.next);
    }

    #[test]
    fn looking_may_free_a_place() {
        let flights = Arc::new(Flights::new(1));
        let kept = Mutex::new(flights.take(1));
        assert!(
            flights
                .wait(1, LONG, || drop(kept.lock().unwrap().take()))
                .is_some()
        );
    }
}
