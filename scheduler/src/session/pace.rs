//! The cadence of a session's runs: under which cadence each is recorded, and when it has changed
//! for good.
//!
//! Invariants:
//! 1. A run is recorded under its own cadence: the gap since the previous run's end, and its own
//!    time. The first run after a change is not recorded, nor, at a period, are those during which
//!    a device of the plan may still hold the earlier cadence's clock.
//! 2. A period near a class bound is no change, and neither are a few irregular runs.
//! 3. Nothing is allocated.
//!
//! Not here: the reaction to a change (`learn`).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use polychip_profile::Cadence;

/// Runs in a row that are clearly of another cadence before the session is.
const CHANGED: u32 = 8;
/// How fast the usual period follows the newest one.
const WEIGHT: f64 = 0.2;

/// How the runs of a session follow each other.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<State>);

#[derive(Debug)]
struct State {
    cadence: Cadence,
    /// When the last run ended.
    ended_ns: Option<u64>,
    /// Cadence of the last run.
    last: Option<Cadence>,
    /// When runs began to be of that cadence.
    since_ns: u64,
    /// Runs in a row that were clearly of another cadence than the session is.
    other: u32,
    /// From start to start as far as it is usual; zero where runs follow each other back to back.
    period_ns: Option<f64>,
}

/// What a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paced {
    /// What it is booked under; none of one that says nothing.
    pub(crate) booked: Option<Cadence>,
    /// The session runs at another cadence now.
    pub(crate) changed: Option<Cadence>,
}

impl Pace {
    /// For a session that is planned for this cadence.
    pub(crate) fn new(cadence: Cadence) -> Pace {
        Pace(Mutex::new(State {
            cadence,
            ended_ns: None,
            last: None,
            since_ns: 0,
            other: 0,
            period_ns: None,
        }))
    }

    /// Takes note of a run that has ended, of a plan whose devices may hold a clock for so long.
    pub(crate) fn ran(&self, submitted_ns: u64, took_ns: u64, hold_ns: u64) -> Paced {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.ran(submitted_ns, took_ns, hold_ns)
    }

    /// How the runs follow each other: what the plan is for, until they did otherwise for some time.
    pub(crate) fn cadence(&self) -> Cadence {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.cadence
    }

    /// From start to start, as it is usual; none where no two runs of one cadence followed each other.
    pub(crate) fn period(&self) -> Option<Duration> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // `as` saturates
        state.period_ns.map(|ns| Duration::from_nanos(ns as u64))
    }
}

impl State {
    fn ran(&mut self, submitted_ns: u64, took_ns: u64, hold_ns: u64) -> Paced {
        let ended_ns = submitted_ns.saturating_add(took_ns);
        let before = self.ended_ns.replace(self.ended_ns.unwrap_or(0).max(ended_ns));
        let mut told = Paced {
            booked: None,
            changed: None,
        };
        let Some(before) = before else { return told };
        let gap = Duration::from_nanos(submitted_ns.saturating_sub(before));
        let took = Duration::from_nanos(took_ns);
        let cadence = Cadence::of_run(gap, took);
        let last = self.last.replace(cadence);
        // between two periods clocks are down already, or change as slowly as the period wavers
        if last.is_none_or(|last| last == Cadence::BackToBack) && cadence != Cadence::BackToBack {
            self.since_ns = submitted_ns;
        }
        let is_held = match cadence {
            // clocks rise at once, and are down after a long idle time, whatever was before
            Cadence::BackToBack | Cadence::AfterIdle => false,
            Cadence::Paced(_) => submitted_ns.saturating_sub(self.since_ns) < hold_ns,
        };
        if last.is_none_or(|last| last == cadence) || cadence == Cadence::AfterIdle {
            told.booked = Some(cadence).filter(|_| !is_held);
            let period_ns = match cadence {
                Cadence::BackToBack => 0.0,
                _ => (gap + took).as_nanos() as f64,
            };
            let usual = self
                .period_ns
                .filter(|_| cadence == self.cadence)
                .unwrap_or(period_ns);
            self.period_ns = Some(usual + WEIGHT * (period_ns - usual));
        }
        self.other = if self.cadence.is_clearly_other(gap, took) {
            self.other + 1
        } else {
            0
        };
        if self.other >= CHANGED && last == Some(cadence) {
            self.other = 0;
            self.cadence = cadence;
            told.changed = Some(cadence);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Runs of 1 ms at a period; what the last said, and whether any changed.
    fn drive(pace: &Pace, now_ns: &mut u64, period_ns: u64, runs: u64) -> (Paced, Option<Cadence>) {
        let mut last = Paced {
            booked: None,
            changed: None,
        };
        let mut changed = None;
        for _ in 0..runs {
            last = pace.ran(*now_ns, MS, 0);
            changed = changed.or(last.changed);
            *now_ns += period_ns.max(MS);
        }
        (last, changed)
    }

    #[test]
    fn cadence_change_needs_eight_runs() {
        let pace = Pace::new(Cadence::BackToBack);
        let mut now = 0;
        let (last, changed) = drive(&pace, &mut now, 0, 20);
        assert_eq!((last.booked, changed), (Some(Cadence::BackToBack), None));
        assert_eq!(pace.period(), Some(Duration::ZERO));
        now += 32 * MS;
        let camera = Cadence::of_period(Duration::from_millis(33));
        assert_eq!(drive(&pace, &mut now, 33 * MS, 1).0.booked, None);
        let (last, changed) = drive(&pace, &mut now, 33 * MS, 6);
        assert_eq!((last.booked, changed), (Some(camera), None));
        assert_eq!(drive(&pace, &mut now, 33 * MS, 1).1, Some(camera));
        assert_eq!(drive(&pace, &mut now, 33 * MS, 50).1, None);
        let period = pace.period().unwrap().as_millis();
        assert!((32..=33).contains(&period), "{period}");
    }

    #[test]
    fn period_near_a_bound_changes_no_cadence() {
        let pace = Pace::new(Cadence::of_period(Duration::from_millis(50)));
        let mut now = 0;
        for round in 0..200 {
            let (_, changed) = drive(&pace, &mut now, if round % 2 == 0 { 53 } else { 59 } * MS, 10);
            assert_eq!(changed, None);
        }
    }

    #[test]
    fn first_run_after_idle_is_recorded_as_such() {
        let pace = Pace::new(Cadence::BackToBack);
        let mut now = 0;
        drive(&pace, &mut now, 0, 5);
        now += 10_000 * MS;
        let (last, changed) = drive(&pace, &mut now, 0, 1);
        assert_eq!((last.booked, changed), (Some(Cadence::AfterIdle), None));
    }

    #[test]
    fn nothing_is_recorded_during_clock_hold() {
        let camera = Cadence::of_period(Duration::from_millis(33));
        let pace = Pace::new(camera);
        let booked: Vec<u64> = (0..400)
            .map(|run| run * 33 * MS)
            .filter(|&now| pace.ran(now, MS, 6_000 * MS).booked.is_some())
            .collect();
        assert_eq!(booked.first(), Some(&(6_039 * MS)));
        assert_eq!(booked.len(), 400 - 183);
        assert_eq!(pace.period(), Some(Duration::from_millis(33)));
        let now = 400 * 33 * MS;
        assert_eq!(pace.ran(now, MS, 6_000 * MS).booked, Some(camera));
        // a frame that was dropped changes nothing
        pace.ran(now + 66 * MS, MS, 6_000 * MS);
        pace.ran(now + 99 * MS, MS, 6_000 * MS);
        assert_eq!(pace.ran(now + 132 * MS, MS, 6_000 * MS).booked, Some(camera));
        let now = now + 132 * MS;
        // back to back the clock rises at once
        pace.ran(now + MS, MS, 6_000 * MS);
        let booked = pace.ran(now + 2 * MS, MS, 6_000 * MS).booked;
        assert_eq!(booked, Some(Cadence::BackToBack));
    }

    #[test]
    fn overlapping_runs_are_back_to_back() {
        let pace = Pace::new(Cadence::BackToBack);
        pace.ran(0, 10 * MS, 0);
        pace.ran(MS, 10 * MS, 0);
        assert_eq!(pace.ran(2 * MS, 10 * MS, 0).booked, Some(Cadence::BackToBack));
    }
}
