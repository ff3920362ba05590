//! Deviations from the plan, listed in the report: refusals, moves, losses, resets, retries.
//!
//! Invariants:
//! 1. Every move, retry and reset has an event that names the device and the reason.
//! 2. The log is bounded: similar events are counted together, and the counts by kind are always
//!    exact.
//!
//! Not here: the reaction (`replan`, `session/recover`).

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// Number of different events that a log keeps; more are only counted by kind.
const KEPT: usize = 64;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// Nodes were kept off a device that refused them in an earlier session.
    Avoided,
    /// A new plan moved nodes off a device.
    Replanned,
    /// A failed operation was repeated.
    Retried,
    /// A device was lost.
    Lost,
    /// A run exceeded the policy's hang timeout.
    Hung,
    /// A lost or hung device was reset.
    Reset,
    /// A device could not be reset.
    ResetFailed,
    /// Executables were loaded again after a reset.
    Reloaded,
    /// The governor, or admission, changed the plan.
    Switched,
    /// The profile database could not be read or written.
    ProfileUnused,
    /// A plan made in the background replaced the CPU-only plan.
    TookOver,
    /// A plan could not be made in the background; the CPU-only plan stays.
    NotPlanned,
    /// A device is excluded from the plan: it is hotter than the policy allows, or its plugin is quarantined.
    LeftOut,
    /// An excluded device has cooled down and may be used again.
    LetIn,
    /// Runs were late.
    DeadlineMissed,
    /// Runs were dropped: late, overtaken by a newer run, or queued for too long.
    Dropped,
    /// Another plan was faster in paired runs, and is now used.
    Adopted,
    /// An adopted plan turned out slower; the previous one is used again.
    RolledBack,
    /// A plan on trial cannot be used.
    NotAdopted,
    /// The times of runs changed, so other plans are tried again.
    Reopened,
    /// A replica gets no runs, because it does not increase throughput.
    ReplicaRests,
    /// An idle replica gets runs again.
    ReplicaReturns,
    /// The session's plan was freed, because memory is short or the app asked for it.
    Parked,
    /// A parked plan was loaded again.
    Resumed,
    /// Values exceeded the range of reduced precision.
    Overflowed,
    /// Cached specializations were dropped, because the system is short of memory.
    Evicted,
}

impl EventKind {
    /// All kinds, in the order of the report.
    pub const ALL: [EventKind; 26] = [
        EventKind::Avoided,
        EventKind::Replanned,
        EventKind::Retried,
        EventKind::Lost,
        EventKind::Hung,
        EventKind::Reset,
        EventKind::ResetFailed,
        EventKind::Reloaded,
        EventKind::Switched,
        EventKind::ProfileUnused,
        EventKind::TookOver,
        EventKind::NotPlanned,
        EventKind::LeftOut,
        EventKind::LetIn,
        EventKind::DeadlineMissed,
        EventKind::Dropped,
        EventKind::Adopted,
        EventKind::RolledBack,
        EventKind::NotAdopted,
        EventKind::Reopened,
        EventKind::ReplicaRests,
        EventKind::ReplicaReturns,
        EventKind::Parked,
        EventKind::Resumed,
        EventKind::Overflowed,
        EventKind::Evicted,
    ];
}

/// A deviation from the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Event {
    /// The kind.
    pub kind: EventKind,
    /// The device, `plugin:index`; for a switch, the new plan; for a background plan, its devices;
    /// empty if no device is involved.
    pub device: String,
    /// Number of nodes that were moved or kept away; 0 if none.
    pub nodes: usize,
    /// The reason: the device's or vendor's message.
    pub words: String,
    /// How often the event occurred.
    pub count: u64,
}

impl Event {
    pub(crate) fn new(kind: EventKind, device: &str, nodes: usize, words: impl Into<String>) -> Event {
        Event {
            kind,
            device: device.to_owned(),
            nodes,
            words: words.into(),
            count: 1,
        }
    }
}

fn nodes(count: usize) -> String {
    format!("{count} node{}", if count == 1 { "" } else { "s" })
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, words) = (&self.device, &self.words);
        match self.kind {
            EventKind::Avoided => write!(
                f,
                "avoided: {} kept off {device}, which refused them earlier: {words}",
                nodes(self.nodes)
            ),
            EventKind::Replanned => {
                write!(f, "replanned: {} moved from {device}: {words}", nodes(self.nodes))
            }
            EventKind::Retried => write!(f, "retried after a failure of {device}: {words}"),
            EventKind::Lost => write!(f, "lost: {device}: {words}"),
            EventKind::Hung => write!(f, "hung: {device}: {words}"),
            EventKind::Reset => write!(f, "reset: {device}: {words}"),
            EventKind::ResetFailed => write!(f, "not reset: {device}: {words}"),
            EventKind::Reloaded => write!(f, "reloaded: {device}: {words}"),
            EventKind::Switched => write!(f, "switched to {device}: {words}"),
            EventKind::ProfileUnused => write!(f, "profile unused, measured times stay in memory: {words}"),
            EventKind::TookOver => write!(f, "took over: a plan for {device}, {words}"),
            EventKind::NotPlanned => write!(f, "not planned in the background: {words}"),
            EventKind::LeftOut => write!(f, "left out: {device}: {words}"),
            EventKind::ReplicaRests => write!(f, "replica rests: {device}: {words}"),
            EventKind::ReplicaReturns => write!(f, "replica returns: {device}: {words}"),
            EventKind::Parked => write!(f, "parked: {words}"),
            EventKind::Resumed => write!(f, "resumed: {words}"),
            EventKind::Overflowed => write!(f, "{words}"),
            EventKind::Evicted => write!(f, "evicted: {words}"),
            EventKind::Dropped => write!(f, "dropped: {words}"),
            EventKind::Adopted => write!(f, "adopted: the plan on {device}: {words}"),
            EventKind::RolledBack => write!(f, "rolled back to the plan on {device}: {words}"),
            EventKind::NotAdopted => write!(f, "not adopted: the plan on {device}: {words}"),
            EventKind::Reopened => write!(f, "trials reopened on {device}: {words}"),
            EventKind::LetIn => write!(f, "let in again: {device}: {words}"),
            EventKind::DeadlineMissed => write!(f, "deadline missed: {words}"),
        }?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// The events of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventLog {
    events: Vec<Event>,
    counts: [u64; EventKind::ALL.len()],
}

impl EventLog {
    /// Adds an event. Events that differ only in the numbers of their message count as the same.
    pub(crate) fn add(&mut self, event: Event) {
        match event.kind {
            EventKind::Switched
            | EventKind::TookOver
            | EventKind::LetIn
            | EventKind::Parked
            | EventKind::Resumed
            | EventKind::Evicted => tracing::info!("{event}"),
            // said when it happened
            EventKind::DeadlineMissed => {}
            _ => tracing::warn!("{event}"),
        }
        self.counts[event.kind as usize] += event.count;
        let like = |other: &&mut Event| {
            other.kind == event.kind
                && other.device == event.device
                && other.nodes == event.nodes
                && without_digits(&other.words).eq(without_digits(&event.words))
        };
        if let Some(same) = self.events.iter_mut().find(like) {
            same.count += event.count;
        } else if self.events.len() < KEPT {
            self.events.push(event);
        }
    }

    pub(crate) fn extend(&mut self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.add(event));
    }

    /// The events in the order in which each first occurred.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// How often an event of this kind occurred.
    pub(crate) fn count(&self, kind: EventKind) -> u64 {
        self.counts[kind as usize]
    }
}

fn without_digits(words: &str) -> impl Iterator<Item = char> + '_ {
    words.chars().filter(|c| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_events_are_counted_in_a_bounded_log() {
        let mut log = EventLog::default();
        for run in 0..1000 {
            log.add(Event::new(
                EventKind::Lost,
                "npu:0",
                0,
                format!("lost in run {run}"),
            ));
        }
        for run in 0..500_u32 {
            let device = format!("npu:{run}");
            log.add(Event::new(EventKind::Reset, &device, 0, "reset"));
        }
        assert_eq!(
            (log.count(EventKind::Lost), log.count(EventKind::Reset)),
            (1000, 500)
        );
        assert_eq!(log.events().len(), KEPT);
        assert_eq!(
            log.events()[0].to_string(),
            "lost: npu:0: lost in run 0 (1000 times)"
        );
    }

    #[test]
    fn event_kinds_index_their_counts() {
        for (index, kind) in EventKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
