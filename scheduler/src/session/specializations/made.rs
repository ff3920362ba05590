//! A new specialisation, and what making it took.

use super::specialization::Specialization;
use crate::event::{Event, EventKind};
use crate::session::buckets::Sizes;
use crate::session::specialization_report::PlanningPhases;

/// A new specialisation.
pub(super) struct Made {
    pub(super) special: Specialization,
    pub(super) bytes: u64,
    pub(super) planning_ns: u64,
    pub(super) phases: PlanningPhases,
    pub(super) costs_of: Option<Sizes>,
}

impl Made {
    /// The event of the replacement.
    pub(super) fn event(&self, runs: u64) -> Event {
        let current = self.special.inner.current();
        let planned = &current.planned;
        let used = planned.used_devices().into_iter();
        let devices: Vec<&str> = used
            .map(|index| planned.devices()[index.index()].name())
            .collect();
        let words = format!(
            "made in the background in {:.0} ms; {runs} runs used the CPU-only plan",
            self.planning_ns as f64 / 1e6
        );
        Event::new(
            EventKind::TookOver,
            &devices.join(", "),
            planned.graph().node_count(),
            words,
        )
    }
}
