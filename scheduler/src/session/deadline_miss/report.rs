//! Lateness in the report: how long runs took, and late ones by cause.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Line, Slow};
use crate::event::{Event, EventKind};

/// How long runs took: from the call that submits one to the end of its last part, as devices state it. Each figure is
/// true to a hundredth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LatencyReport {
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// Of 100 runs 90 took no longer.
    pub p90_ns: u64,
    /// Of 100 runs 95 took no longer.
    pub p95_ns: u64,
    /// Of 100 runs 99 took no longer.
    pub p99_ns: u64,
    /// The longest one.
    pub worst_ns: u64,
}

/// Why a run was late: what took most time beyond what was predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LateCause {
    /// It waited for a place among the session's runs in flight, or in a device's queue: for other runs.
    Queued,
    /// A part took longer than predicted.
    SlowPart,
    /// As `SlowPart`, and the device says that it slows itself down, or is hotter than the policy allows.
    Throttled,
    /// The session planned or loaded meanwhile: for sizes that it had not seen, or after a device failed.
    Replanned,
    /// Tensors went from one device to another, or were copied, for longer than predicted.
    Transfers,
    /// The plan is predicted to take longer than the deadline.
    Plan,
    /// The devices state no times.
    Unknown,
}

/// Runs that were late for one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LatenessReport {
    /// The cause.
    pub cause: LateCause,
    /// Id of the slow part.
    pub part: Option<String>,
    /// Its device, `plugin:index`.
    pub device: Option<String>,
    /// Runs.
    pub runs: u64,
    /// Sum of what they were late by, in nanoseconds.
    pub total_ns: u64,
    /// The most that one was late by, in nanoseconds.
    pub worst_ns: u64,
    /// In words.
    pub words: String,
}

impl fmt::Display for LatenessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, words) = (self.runs, &self.words);
        write!(f, "{runs} run{} {words}", if runs == 1 { "" } else { "s" })
    }
}

impl Line {
    pub(super) fn new(cause: LateCause, late_ns: u64, slow: Option<(&str, &str, u64, u64)>) -> Line {
        Line {
            cause,
            part: slow.map(|(id, device, predicted_ns, took_ns)| Slow {
                id: id.to_owned(),
                device: device.to_owned(),
                predicted_ns,
                took_ns,
            }),
            runs: 1,
            total_ns: late_ns,
            worst_ns: late_ns,
        }
    }

    /// One more of them.
    pub(super) fn count(&mut self, late_ns: u64, slow: Option<(&str, &str, u64, u64)>) {
        self.runs += 1;
        self.total_ns = self.total_ns.saturating_add(late_ns);
        if late_ns > self.worst_ns {
            self.worst_ns = late_ns;
            if let (Some(part), Some((_, _, predicted_ns, took_ns))) = (&mut self.part, slow) {
                (part.predicted_ns, part.took_ns) = (predicted_ns, took_ns);
            }
        }
    }

    /// What happened, in the worst of them.
    pub(super) fn words(&self) -> String {
        let by = format!("late by {}", time(self.worst_ns));
        match (&self.part, self.cause) {
            (Some(slow), cause) => {
                let slowed = match cause {
                    LateCause::Throttled => ", which is hot or slowed down,",
                    _ => "",
                };
                format!(
                    "{by}: part {} on {}{slowed} took {} instead of {}",
                    slow.id,
                    slow.device,
                    time(slow.took_ns),
                    time(slow.predicted_ns)
                )
            }
            (None, LateCause::Queued) => format!("{by}: queued behind other runs"),
            (None, LateCause::Replanned) => format!("{by}: a plan was made or loaded meanwhile"),
            (None, LateCause::Transfers) => {
                format!("{by}: tensors took longer than predicted between devices")
            }
            (None, LateCause::Plan) => format!("{by}: the plan takes longer than the deadline"),
            (None, _) => format!("{by}: cause unknown, devices state no times"),
        }
    }

    pub(super) fn report(&self) -> LatenessReport {
        LatenessReport {
            cause: self.cause,
            part: self.part.as_ref().map(|slow| slow.id.clone()),
            device: self.part.as_ref().map(|slow| slow.device.clone()),
            runs: self.runs,
            total_ns: self.total_ns,
            worst_ns: self.worst_ns,
            words: self.words(),
        }
    }

    pub(super) fn event(&self) -> Event {
        let device = self.part.as_ref().map_or("", |slow| slow.device.as_str());
        Event {
            count: self.runs,
            ..Event::new(EventKind::DeadlineMissed, device, 0, self.words())
        }
    }
}

/// Nanoseconds as milliseconds or microseconds.
fn time(ns: u64) -> String {
    polychip_partitioner::Time::from_nanoseconds(ns).to_string()
}
