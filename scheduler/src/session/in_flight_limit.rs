//! The limit on runs in flight of a session, and the callers that wait for a permit.
//!
//! Invariants:
//! 1. A run holds its permit until it has returned its outputs or an error; outputs that the app
//!    keeps hold none.
//! 2. Waiting callers get permits in order of arrival; a caller that does not wait gets none before
//!    them.
//! 3. Nothing is allocated here unless a caller times out or is refused.
//! 4. A waiting caller sleeps until a permit is free; it polls only while an abandoned run may end
//!    unseen.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

/// Maximum number of runs that an error names; it counts the others.
const NAMED: usize = 8;

/// The permits of a session.
#[derive(Debug)]
pub(crate) struct InFlightLimit {
    most: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    out: Vec<Flight>,
    /// The number of the run that got the last permit.
    last_run: u64,
    /// No run gets a permit any more.
    is_closed: bool,
    /// Numbers of the next caller to come, and of the first that still waits.
    next: u64,
    first: u64,
    /// Callers that gave up while others wait before them.
    gone: Vec<u64>,
}

/// A run in flight.
#[derive(Debug)]
struct Flight {
    run: u64,
    since: Instant,
    /// It failed, or the app dropped it: only its end frees the permit, and its end sends no notification.
    is_given_up: bool,
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

    /// A caller waits no more, and got no place.
    fn give_up(&mut self, own: u64) {
        if self.first == own {
            self.advance();
        } else {
            self.gone.push(own);
        }
    }

    fn begin(&mut self) -> u64 {
        self.last_run += 1;
        self.out.push(Flight {
            run: self.last_run,
            since: Instant::now(),
            is_given_up: false,
        });
        self.last_run
    }
}

/// One of the runs that may be in flight.
#[derive(Debug)]
pub(crate) struct Permit {
    in_flight_limit: Arc<InFlightLimit>,
    run: u64,
}

impl Permit {
    /// The number of the run among those of its session, from 1.
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// As [`InFlightLimit::give_up`], of this run.
    pub(crate) fn give_up(&self) {
        self.in_flight_limit.give_up(self.run);
    }
}

impl InFlightLimit {
    /// Places for `most` runs.
    pub(crate) fn new(most: usize) -> InFlightLimit {
        InFlightLimit {
            most: AtomicUsize::new(most),
            state: Mutex::new(State {
                out: Vec::with_capacity(most),
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// Places for at least `most` runs from now on.
    pub(crate) fn raise(&self, most: usize) {
        if self.most.load(Ordering::Acquire) < most {
            let mut state = self.lock();
            let (room, out) = (most, state.out.len());
            state.out.reserve(room.saturating_sub(out));
            self.most.fetch_max(most, Ordering::AcqRel);
        }
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, state: &mut State) -> Permit {
        Permit {
            in_flight_limit: Arc::clone(self),
            run: state.begin(),
        }
    }

    /// A permit, if one is free and no caller waits. `most` lowers the limit for this call.
    pub(crate) fn take(self: &Arc<Self>, most: usize) -> Option<Permit> {
        let mut state = self.lock();
        let is_free =
            state.out.len() < self.most().min(most) && state.first == state.next && !state.is_closed;
        is_free.then(|| self.permit(&mut state))
    }

    /// A permit, once one is free and all earlier callers are served; `None` if that takes longer than `patience` or the
    /// limit is closed. While a run is abandoned, `look` is called periodically: it frees the permits of abandoned
    /// runs that have ended.
    pub(crate) fn wait(self: &Arc<Self>, most: usize, patience: Duration, look: impl Fn()) -> Option<Permit> {
        /// Abandoned runs end without a notification.
        const LOOK: Duration = Duration::from_millis(20);
        let most = self.most().min(most);
        let until = Instant::now().checked_add(patience);
        let mut state = self.lock();
        let own = state.next;
        state.next += 1;
        loop {
            if state.is_closed {
                state.give_up(own);
                return None;
            }
            if state.first == own && state.out.len() < most {
                let permit = self.permit(&mut state);
                state.advance();
                drop(state);
                // the next caller may get a permit too
                self.changed.notify_all();
                return Some(permit);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                state.give_up(own);
                drop(state);
                self.changed.notify_all();
                return None;
            }
            let looks = state.out.iter().any(|flight| flight.is_given_up);
            let step = match (looks, left) {
                (true, left) => Some(left.map_or(LOOK, |left| left.min(LOOK))),
                (false, left) => left,
            };
            state = match step {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(step) => {
                    let waited = self.changed.wait_timeout(state, step);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if looks {
                drop(state);
                look();
                state = self.lock();
            }
        }
    }

    /// A run failed, or the app dropped it, before it gave its outputs.
    pub(crate) fn give_up(&self, run: u64) {
        let mut state = self.lock();
        if let Some(flight) = state.out.iter_mut().find(|flight| flight.run == run) {
            flight.is_given_up = true;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether no other run is in flight.
    pub(crate) fn is_only(&self, run: u64) -> bool {
        let state = self.lock();
        state.out.iter().all(|flight| flight.run == run)
    }

    /// Whether no run began after this one.
    pub(crate) fn is_last(&self, run: u64) -> bool {
        self.lock().last_run == run
    }

    /// Grants no more permits, and ends all waits.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Why no place was to be had: the session is closed, or which runs have the places. `never`: for a caller that
    /// never waits.
    pub(crate) fn refusal(&self, stateful: bool, never: bool) -> Error {
        let state = self.lock();
        if state.is_closed {
            return Error::new(ErrorKind::Closed, "the session is closed: it starts no more runs");
        }
        let runs = named(&state.out);
        let is_given_up = state.out.iter().any(|flight| flight.is_given_up);
        drop(state);
        let mut words = match (stateful, self.most()) {
            (true, _) => format!(
                "a run is in flight, and the next one reads the state that it writes: {runs}. Wait for it \
                 (Run::wait, Session::submit_blocking)"
            ),
            (false, 1) => format!(
                "1 run is in flight, as many as the policy allows: {runs}. Wait for it (Run::wait, \
                 Session::submit_blocking), or raise Policy::in_flight"
            ),
            (false, most) => format!(
                "{most} runs are in flight, as many as the policy allows: {runs}. Wait for one (Run::wait, \
                 Session::submit_blocking), or raise Policy::in_flight"
            ),
        };
        if is_given_up {
            words.push_str("; a run that was given up keeps its place until its devices have ended it");
        }
        let kind = if never {
            ErrorKind::WouldBlock
        } else {
            ErrorKind::InFlight
        };
        Error::new(kind, words)
    }
}

/// Runs by number, with how long ago each was submitted.
fn named(out: &[Flight]) -> String {
    let mut words = String::new();
    for (at, flight) in out.iter().take(NAMED).enumerate() {
        let before = if at == 0 { "" } else { ", " };
        let age_ms = flight.since.elapsed().as_millis();
        let given_up = if flight.is_given_up { " and given up" } else { "" };
        let _ = write!(
            words,
            "{before}run {}, submitted {age_ms} ms ago{given_up}",
            flight.run
        );
    }
    if out.len() > NAMED {
        let _ = write!(words, " and {} more", out.len() - NAMED);
    }
    words
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.in_flight_limit.lock();
        state.out.retain(|flight| flight.run != self.run);
        let waited_for = state.first != state.next;
        drop(state);
        if waited_for {
            self.in_flight_limit.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn permits_are_granted_in_order_of_arrival() {
        let in_flight_limit = Arc::new(InFlightLimit::new(1));
        let first = in_flight_limit.take(9).unwrap();
        assert!(in_flight_limit.take(9).is_none());
        assert!(in_flight_limit.wait(9, Duration::from_millis(1), || {}).is_none());
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (in_flight_limit, order) = (&in_flight_limit, &order);
                scope.spawn(move || {
                    let permit = in_flight_limit.wait(9, LONG, || {}).unwrap();
                    order.lock().unwrap().push(number);
                    drop(permit);
                });
                while in_flight_limit.lock().next < number + 2 {
                    std::thread::yield_now();
                }
            }
            // a place is free in a moment, but others wait for it
            drop(first);
            assert!(in_flight_limit.take(9).is_none() || order.lock().unwrap().len() == 8);
        });
        assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<u64>>());
        assert!(in_flight_limit.take(9).is_some());
    }

    #[test]
    fn timed_out_waiter_does_not_block_the_queue() {
        let in_flight_limit = Arc::new(InFlightLimit::new(2));
        let (one, two) = (in_flight_limit.take(2).unwrap(), in_flight_limit.take(2).unwrap());
        std::thread::scope(|scope| {
            let waits = |patience: Duration| {
                let in_flight_limit = &in_flight_limit;
                move || in_flight_limit.wait(2, patience, || {}).is_some()
            };
            let come = |count: u64| {
                while in_flight_limit.lock().next < count {
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
        let state = in_flight_limit.lock();
        assert_eq!(state.first, state.next);
    }

    #[test]
    fn polling_frees_the_permit_of_an_abandoned_run() {
        let in_flight_limit = Arc::new(InFlightLimit::new(1));
        let permit = in_flight_limit.take(1);
        in_flight_limit.give_up(1);
        let kept = Mutex::new(permit);
        assert!(
            in_flight_limit
                .wait(1, LONG, || drop(kept.lock().unwrap().take()))
                .is_some()
        );
    }

    #[test]
    fn refusal_lists_the_permit_holders() {
        let in_flight_limit = Arc::new(InFlightLimit::new(2));
        drop(in_flight_limit.take(2).unwrap());
        let (second, third) = (in_flight_limit.take(2).unwrap(), in_flight_limit.take(2).unwrap());
        assert_eq!((second.run(), third.run()), (2, 3));
        in_flight_limit.give_up(3);
        let error = in_flight_limit.refusal(false, false);
        assert_eq!(error.kind(), ErrorKind::InFlight);
        let words = error.to_string();
        assert!(words.starts_with("2 runs are in flight"), "{words}");
        assert!(
            words.contains(": run 2, submitted") && words.contains(", run 3, submitted"),
            "{words}"
        );
        assert!(words.contains("ago and given up. Wait for one"), "{words}");
        assert!(!words.contains("run 1,"), "{words}");
    }

    #[test]
    fn close_ends_all_waits_with_an_error() {
        let in_flight_limit = Arc::new(InFlightLimit::new(1));
        let first = in_flight_limit.take(1).unwrap();
        std::thread::scope(|scope| {
            let wait = || in_flight_limit.wait(1, Duration::MAX, || {}).is_none();
            let waits = [scope.spawn(wait), scope.spawn(wait)];
            while in_flight_limit.lock().next < 2 {
                std::thread::yield_now();
            }
            in_flight_limit.close();
            for wait in waits {
                assert!(wait.join().unwrap());
            }
        });
        drop(first);
        assert!(in_flight_limit.take(1).is_none() && in_flight_limit.wait(1, LONG, || {}).is_none());
        let error = in_flight_limit.refusal(true, false);
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(error.to_string(), "the session is closed: it starts no more runs");
        let state = in_flight_limit.lock();
        assert_eq!(state.first, state.next);
    }
}
