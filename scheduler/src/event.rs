//! What did not go as planned, said in the report: refusals, moves, losses, resets, retries.
//!
//! Invariants:
//! 1. Nothing moves, is tried again or is reset without an event that names the device and its words.
//! 2. The log is bounded: like events are counted together, and the counts by kind are always exact.
//!
//! Not here: what to do about it (`replan`, `session/recover`).

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// Different events that a log keeps; more are only counted by kind.
const KEPT: usize = 64;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// Nodes were kept from a device that refused them in an earlier session.
    Avoided,
    /// Nodes were moved from a device by a new plan.
    Replanned,
    /// Something that failed once was done again.
    Retried,
    /// A device was lost.
    Lost,
    /// A run took longer than the policy's patience.
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
    /// A plan that was made in the background took over from the one for the CPU.
    TookOver,
    /// A plan could not be made in the background; the one for the CPU stays.
    NotPlanned,
    /// A device is hotter than the policy allows, and is left out of the plan.
    LeftOut,
    /// A device that was left out has cooled down, and may be used again.
    LetIn,
    /// Runs were late.
    DeadlineMissed,
    /// Runs were dropped: they were late, not the latest, or waited too long for their turn.
    Dropped,
    /// Another plan was faster in paired runs, and runs now.
    Adopted,
    /// A plan that was adopted turned out slower; the one before runs again.
    RolledBack,
    /// A plan that was tried cannot be used.
    NotAdopted,
    /// The times of runs changed, so other plans are tried again.
    Reopened,
    /// A copy of the model gets no runs: with it, no more runs end in the same time.
    ReplicaRests,
    /// A copy of the model that got no runs gets some again.
    ReplicaReturns,
}

impl EventKind {
    /// All kinds, in the order of the report.
    pub const ALL: [EventKind; 22] = [
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
    ];
}

/// Something that did not go as planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The device, `plugin:index`; of a switch, the plan that was switched to; of a plan made in the background, its
    /// devices; empty where it is no device's.
    pub device: String,
    /// Nodes that were moved or kept away; 0 where none were.
    pub nodes: usize,
    /// Why: the device's or the vendor's own words.
    pub words: String,
    /// How often the same happened.
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
                "avoided: {} not given to {device}, which refused them before: {words}",
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
            EventKind::ProfileUnused => write!(f, "measured times are kept in memory only: {words}"),
            EventKind::TookOver => write!(f, "took over: a plan for {device}, {words}"),
            EventKind::NotPlanned => write!(f, "not planned in the background: {words}"),
            EventKind::LeftOut => write!(f, "left out: {device}: {words}"),
            EventKind::ReplicaRests => write!(f, "replica rests: {device}: {words}"),
            EventKind::ReplicaReturns => write!(f, "replica returns: {device}: {words}"),
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
    /// Adds an event. What differs only in the numbers of a message counts as the same.
    pub(crate) fn add(&mut self, event: Event) {
        match event.kind {
            EventKind::Switched | EventKind::TookOver | EventKind::LetIn => tracing::info!("{event}"),
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

    /// The events in the order in which each was first seen.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// How often an event of this kind was seen.
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
    fn like_events_are_counted_together_and_the_log_stays_small() {
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
    fn a_kind_counts_in_its_own_place() {
        for (index, kind) in EventKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
