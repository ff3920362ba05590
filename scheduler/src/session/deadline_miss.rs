//! Deadline accounting: run times, late runs and their causes.
//!
//! Invariants:
//! 1. A run's time is from the submitting call to the end of its last part. It includes waiting for
//!    a run slot, planning and failed attempts; it excludes the app's delay before it takes the
//!    outputs, if the devices report their times.
//! 2. Memory is bounded, and a run allocates nothing here unless it is late for a new cause.
//! 3. A late run has one cause: the largest excess over the prediction.
//!
//! Not here: the breakdown of a run's time (`path`), part times for plans (`history`). Start
//! reading at [`Lateness::add`].

pub(crate) mod path;
mod report;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use polychip_partitioner::MilliCelsius;

use crate::event::Event;
use crate::session::loaded::LoadedPlan;
use crate::session::run_state::RunState;

use report::Line;
pub use report::{LateCause, LatencyReport, LatenessReport};

/// Significant digits of recorded times.
const DIGITS: u8 = 2;
/// The range of recorded times: a microsecond to an hour.
const RANGE_NS: (u64, u64) = (1_000, 3_600_000_000_000);
/// Maximum number of recorded causes; runs that are late for others are counted without a cause.
const LINES: usize = 32;
/// A late run is reported at once; the next report follows after at least this time.
const QUIET_NS: u64 = 1_000_000_000;
/// Encodes a missing deadline.
const NONE: u64 = u64::MAX;

/// When a run was submitted, and what it did until its parts began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submitted {
    at_ns: u64,
    deadline_ns: Option<u64>,
    waited_ns: u64,
    begun_ns: u64,
    /// No other run was in flight.
    is_alone: bool,
}

impl Submitted {
    /// A run that is submitted now, at a time of the runtime's clock.
    pub(crate) fn at(at_ns: u64) -> Submitted {
        Submitted {
            at_ns,
            deadline_ns: None,
            waited_ns: 0,
            begun_ns: at_ns,
            is_alone: false,
        }
    }

    /// Whether no other run is in flight.
    pub(crate) fn is_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Whether no other run was in flight when it was submitted.
    pub(crate) fn was_alone(&self) -> bool {
        self.is_alone
    }

    /// When, on the runtime's clock.
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// What it is to be done within.
    pub(crate) fn due(&mut self, deadline_ns: Option<u64>) {
        self.deadline_ns = deadline_ns;
    }

    /// When it was submitted, on the runtime's clock.
    pub(crate) fn since_ns(&self) -> u64 {
        self.at_ns
    }

    /// When it is to be done, on the runtime's clock.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.deadline_ns
            .map(|deadline| self.at_ns.saturating_add(deadline))
    }

    /// It waited for a place among the runs in flight.
    pub(crate) fn waited(&mut self, ns: u64) {
        self.waited_ns += ns;
    }

    /// Its first part is about to begin, for the first time or again.
    pub(crate) fn begins(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
    }

    /// Time of planning, and of tries that failed.
    fn replanned_ns(&self) -> u64 {
        let before = self.begun_ns.saturating_sub(self.at_ns);
        before.saturating_sub(self.waited_ns)
    }
}

/// How one run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    pub(crate) latency_ns: u64,
    /// By how much it was late; none where it was in time.
    pub(crate) late_ns: Option<u64>,
}

/// All runs of a session.
#[derive(Debug)]
pub(crate) struct Lateness {
    /// What runs without a deadline of their own are to be done within.
    deadline_ns: AtomicU64,
    max_temperature: Option<MilliCelsius>,
    /// By device of the plan: it slows itself down, or is hotter than the policy allows, as far as was seen last.
    slowed: Box<[AtomicBool]>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    latencies: Histogram<u64>,
    worst_ns: u64,
    late: u64,
    /// Time of the last report of a late run.
    reported_ns: Option<u64>,
    lines: Vec<Line>,
}

impl Lateness {
    /// Accounting for a session with this many devices.
    pub(crate) fn new(
        devices: usize,
        deadline: Option<Duration>,
        max_temperature: Option<MilliCelsius>,
    ) -> Lateness {
        let latencies = Histogram::new_with_bounds(RANGE_NS.0, RANGE_NS.1, DIGITS)
            .expect("invariant: the bounds are constants that are in order");
        let lateness = Lateness {
            deadline_ns: AtomicU64::new(NONE),
            max_temperature,
            slowed: (0..devices).map(|_| AtomicBool::new(false)).collect(),
            state: Mutex::new(State {
                latencies,
                worst_ns: 0,
                late: 0,
                reported_ns: None,
                lines: Vec::with_capacity(LINES),
            }),
        };
        lateness.set_deadline(deadline);
        lateness
    }

    /// From now on runs without a deadline of their own have this one.
    pub(crate) fn set_deadline(&self, deadline: Option<Duration>) {
        self.deadline_ns
            .store(deadline.map_or(NONE, whole_ns), Ordering::Relaxed);
    }

    /// The deadline of a run that has none of its own.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        Some(self.deadline_ns.load(Ordering::Relaxed)).filter(|&ns| ns != NONE)
    }

    /// Takes note of what a device's sensors said.
    pub(crate) fn saw(&self, device: usize, is_slowed: bool) {
        if let Some(slowed) = self.slowed.get(device) {
            slowed.store(is_slowed, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a run that has given its outputs.
    pub(crate) fn add(
        &self,
        plan: &LoadedPlan,
        slot: &RunState,
        submitted: &Submitted,
        is_watched: bool,
    ) -> Outcome {
        let now_ns = plan.clock().now_ns();
        let seen_ns = if plan.clock().is_virtual() {
            now_ns.saturating_sub(submitted.at_ns)
        } else {
            (submitted.begun_ns.saturating_sub(submitted.at_ns)).saturating_add(whole_ns(slot.latency))
        };
        let stated = path::last(&slot.timings)
            // a copy is made after its part has ended
            .filter(|&(part, _)| slot.copies[part].is_empty())
            .map(|(_, end_ns)| end_ns)
            // a device whose clock is off says nothing
            .filter(|end_ns| (submitted.begun_ns..=now_ns).contains(end_ns));
        let latency_ns = match stated {
            Some(end_ns) => end_ns - submitted.at_ns.min(end_ns),
            None => seen_ns,
        };
        let late_ns = submitted
            .deadline_ns
            .and_then(|deadline| latency_ns.checked_sub(deadline))
            .filter(|&ns| ns > 0);
        let outcome = Outcome { latency_ns, late_ns };
        {
            let mut state = self.lock();
            state.latencies.saturating_record(latency_ns.max(1));
            state.worst_ns = state.worst_ns.max(latency_ns);
        }
        if let Some(late_ns) = late_ns {
            self.late(plan, slot, submitted, outcome, late_ns, now_ns, is_watched);
        }
        outcome
    }

    #[allow(clippy::too_many_arguments, reason = "one call, of what `add` has worked out")]
    fn late(
        &self,
        plan: &LoadedPlan,
        slot: &RunState,
        submitted: &Submitted,
        outcome: Outcome,
        late_ns: u64,
        now_ns: u64,
        is_watched: bool,
    ) {
        let parts = &plan.planned.plan().parts;
        let predicted = |part: usize| {
            let part = &parts[part];
            part.cost
                .time
                .nanoseconds()
                .saturating_add(part.launch.nanoseconds())
        };
        let after = &plan.wiring.after;
        let spent = path::spent(
            &slot.timings,
            after,
            predicted,
            |part| slot.grants.waited_ns(part),
            submitted.begun_ns,
        );
        let is_due = {
            let state = self.lock();
            let reported = state.reported_ns;
            reported.is_none_or(|reported| now_ns.saturating_sub(reported) >= QUIET_NS)
        };
        let crossings = plan.planned.plan().crossings.iter();
        let transfers_ns = crossings.fold(0u64, |sum, one| sum.saturating_add(one.time.nanoseconds()));
        let causes = Causes {
            replanned_ns: submitted.replanned_ns(),
            waited_ns: submitted.waited_ns,
            // what was seen later than the devices state are copies
            copied_ns: path::last(&slot.timings)
                .filter(|&(part, _)| !slot.copies[part].is_empty())
                .map_or(0, |(_, end)| {
                    (submitted.at_ns.saturating_add(outcome.latency_ns)).saturating_sub(end)
                }),
            transfers_ns,
            deadline_ns: submitted.deadline_ns.unwrap_or(0),
            late_ns,
        };
        let (mut cause, part) = causes.of(spent.as_ref());
        let slow = part.map(|(part, took_ns)| {
            let wired = &plan.wiring.parts[part];
            // sensors are read only when a report is due; a governor reads them anyway
            if is_due && !is_watched {
                self.saw(
                    wired.device,
                    wired.handle.telemetry().is_ok_and(|said| self.slows(&said)),
                );
            }
            let slowed = self.slowed.get(wired.device);
            if slowed.is_some_and(|slowed| slowed.load(Ordering::Relaxed)) {
                cause = LateCause::Throttled;
            }
            (wired.id.as_str(), wired.handle.name(), predicted(part), took_ns)
        });
        let is_reported = is_due && tracing::enabled!(tracing::Level::WARN);
        let words = {
            let mut state = self.lock();
            state.late += 1;
            if is_due {
                state.reported_ns = Some(now_ns);
            }
            let is_like = |line: &Line| {
                let id = line.part.as_ref().map(|known| known.id.as_str());
                line.cause == cause && id == slow.map(|(id, ..)| id)
            };
            match state.lines.iter().position(is_like) {
                Some(at) => state.lines[at].count(late_ns, slow),
                None if state.lines.len() < LINES => state.lines.push(Line::new(cause, late_ns, slow)),
                None => {}
            }
            let line = state.lines.iter().find(|line| is_like(line));
            line.filter(|_| is_reported).map(Line::words)
        };
        if let Some(words) = words {
            tracing::warn!("deadline missed: {words}");
        }
    }

    /// Whether a device reports throttling, or is hotter than the policy allows.
    pub(crate) fn slows(&self, said: &polychip_host::Telemetry) -> bool {
        let hot = |limit: MilliCelsius| said.temperature_mc.is_some_and(|mc| mc > limit.millidegrees());
        said.throttle.is_some_and(|bits| bits != 0) || self.max_temperature.is_some_and(hot)
    }

    /// How many runs were late.
    pub(crate) fn late_runs(&self) -> u64 {
        self.lock().late
    }

    /// How long runs took; none before the first one.
    pub(crate) fn latency(&self) -> Option<LatencyReport> {
        let state = self.lock();
        let at = |quantile: f64| state.latencies.value_at_quantile(quantile).min(state.worst_ns);
        (!state.latencies.is_empty()).then(|| LatencyReport {
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            worst_ns: state.worst_ns,
        })
    }

    /// Late runs by cause, the commonest first.
    pub(crate) fn report(&self) -> Vec<LatenessReport> {
        let mut lines: Vec<LatenessReport> = self.lock().lines.iter().map(Line::report).collect();
        lines.sort_by_key(|line| std::cmp::Reverse((line.runs, line.total_ns)));
        lines
    }

    /// The same as events.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().lines.iter().map(Line::event).collect()
    }
}

/// What a late run may be late for, but its parts.
#[derive(Debug, Clone, Copy, Default)]
struct Causes {
    replanned_ns: u64,
    waited_ns: u64,
    copied_ns: u64,
    /// Predicted time of all transfers of a run.
    transfers_ns: u64,
    deadline_ns: u64,
    late_ns: u64,
}

impl Causes {
    /// The cause; and of a slow part its number and how long it took.
    fn of(&self, spent: Option<&path::Spent>) -> (LateCause, Option<(usize, u64)>) {
        let mut most = (LateCause::Unknown, 0, None);
        let mut weigh = |cause, ns: u64, part| {
            if ns > most.1 {
                most = (cause, ns, part);
            }
        };
        weigh(LateCause::Replanned, self.replanned_ns, None);
        let Some(spent) = spent else {
            weigh(LateCause::Queued, self.waited_ns, None);
            // devices that state no times: what is known must explain half of it
            return if most.1.saturating_mul(2) >= self.late_ns {
                (most.0, None)
            } else {
                (LateCause::Unknown, None)
            };
        };
        weigh(
            LateCause::Queued,
            self.waited_ns.saturating_add(spent.queued_ns),
            None,
        );
        let between = spent.between_ns.saturating_add(self.copied_ns);
        weigh(
            LateCause::Transfers,
            between.saturating_sub(self.transfers_ns),
            None,
        );
        if let Some((part, over_ns, took_ns)) = spent.slowest {
            weigh(LateCause::SlowPart, over_ns, Some((part, took_ns)));
        }
        let planned = spent.predicted_ns.saturating_add(self.transfers_ns.min(between));
        if planned > self.deadline_ns && planned - self.deadline_ns >= most.1 {
            return (LateCause::Plan, None);
        }
        (most.0, most.2)
    }
}

/// Whole nanoseconds.
pub(crate) fn whole_ns(time: Duration) -> u64 {
    // the largest number encodes a missing deadline
    u64::try_from(time.as_nanos())
        .unwrap_or(u64::MAX)
        .min(u64::MAX - 1)
}

#[cfg(test)]
mod tests;
