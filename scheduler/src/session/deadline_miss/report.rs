//! Late runs in the report: latency percentiles, and late runs by cause.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::{Event, EventKind};

/// Latency percentiles of runs, from the submitting call to the end of the last part as devices
/// report it. Each figure is accurate to 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LatencyReport {
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile in nanoseconds.
    pub p90_ns: u64,
    /// 95th percentile in nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Maximum in nanoseconds.
    pub worst_ns: u64,
}

/// Why a run was late: the largest excess over the prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LateCause {
    /// It waited for other runs: for a permit of the session, or in a device queue.
    Queued,
    /// A part took longer than predicted.
    SlowPart,
    /// Like `SlowPart`, and the device reports throttling or is hotter than the policy allows.
    Throttled,
    /// The session planned or loaded meanwhile: for new sizes, or after a device failure.
    Replanned,
    /// Transfers between devices, or copies, took longer than predicted.
    Transfers,
    /// The predicted time of the plan exceeds the deadline.
    Plan,
    /// The devices report no times, and neither waiting nor planning explains half of the delay.
    Unknown,
}

/// Late runs with the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LatenessReport {
    /// The cause.
    pub cause: LateCause,
    /// Id of the slow part.
    pub part: Option<String>,
    /// Its device, `plugin:index`.
    pub device: Option<String>,
    /// Number of runs.
    pub runs: u64,
    /// Total lateness in nanoseconds.
    pub total_ns: u64,
    /// Largest lateness in nanoseconds.
    pub worst_ns: u64,
    /// Description.
    pub words: String,
}

impl fmt::Display for LatenessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, words) = (self.runs, &self.words);
        write!(f, "{runs} run{} {words}", if runs == 1 { "" } else { "s" })
    }
}

/// Runs that were late for the same cause.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) cause: LateCause,
    /// Id, device, and what was predicted and measured of the slow part, in the worst run.
    pub(super) part: Option<Slow>,
    pub(super) runs: u64,
    pub(super) total_ns: u64,
    pub(super) worst_ns: u64,
}

/// A part that took longer than predicted.
#[derive(Debug, Clone)]
pub(super) struct Slow {
    pub(super) id: String,
    pub(super) device: String,
    pub(super) predicted_ns: u64,
    pub(super) took_ns: u64,
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

    /// Counts another late run.
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

    /// Describes the worst of these runs.
    pub(super) fn words(&self) -> String {
        let by = format!("late by {}", time(self.worst_ns));
        match (&self.part, self.cause) {
            (Some(slow), cause) => {
                let slowed = match cause {
                    LateCause::Throttled => " (throttled or hot)",
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
            (None, LateCause::Replanned) => format!("{by}: the session planned or loaded meanwhile"),
            (None, LateCause::Transfers) => {
                format!("{by}: transfers between devices took longer than predicted")
            }
            (None, LateCause::Plan) => format!("{by}: the predicted time exceeds the deadline"),
            (None, _) => format!("{by}: cause unknown, the devices report no times"),
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
