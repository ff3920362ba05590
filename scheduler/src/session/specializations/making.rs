//! Makes the specialisation for some sizes: a graph with these sizes, its plan, and the loaded parts.
//!
//! Not here: which specialisations are cached (`specializations`).

use std::cell::Cell;
use std::time::Instant;

use super::Open;
use super::answers::Answers;
use super::made::Made;
use super::specialization::Specialization;
use crate::error::{ErrorKind, Result};
use crate::planned::{self, Planned, PlanningStep};
use crate::policy::Policy;
use crate::replan;
use crate::session::buckets::Sizes;
use crate::session::charges;
use crate::session::compile::Loaded;
use crate::session::specialization_report::PlanningPhases;

/// Divides time into phases: each reading gives the time since the last one.
struct PhaseClock(Cell<Instant>);

impl PhaseClock {
    fn lap(&self) -> u64 {
        let now = Instant::now();
        nanoseconds(now - self.0.replace(now))
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Open {
    /// Makes the specialisation for these sizes. With a single device, the answers about other sizes do; where it refuses
    /// the part, it is asked about these sizes, and its refusal of a node is the error.
    pub(super) fn make(&self, sizes: &Sizes, policy: &Policy, answers: &Answers) -> Result<Made> {
        let start = Instant::now();
        let clock = PhaseClock(Cell::new(start));
        let named = self.by_name(sizes);
        let canonical = || planned::canonical(&self.shared, &self.model, self.halves);
        let model = self.model.specialised(&named, self.halves, canonical)?;
        let phases = Cell::new(PlanningPhases {
            bind_ns: clock.lap(),
            ..PlanningPhases::default()
        });
        // a step begins where the one before it ends
        let watch = |step: PlanningStep<'_>| {
            let mut so_far = phases.get();
            match step.number {
                0 => so_far.bind_ns += clock.lap(),
                1 => so_far.simplify_ns += clock.lap(),
                number if number + 2 <= step.steps => so_far.ask_ns += clock.lap(),
                _ => so_far.place_ns += clock.lap(),
            }
            phases.set(so_far);
        };
        let known = answers.nearest(sizes);
        let planned = |known: Option<&Planned>| -> Result<Planned> {
            let planned = Planned::like(&self.shared, &model, policy, known, &watch)?;
            let mut so_far = phases.get();
            so_far.place_ns += clock.lap();
            phases.set(so_far);
            Ok(planned)
        };
        let compiled = |planned: Planned| -> Result<_> {
            let reserved = charges::reserve(&self.shared, self.id, &planned, policy.settings(), None)?;
            let loaded = replan::compile(&self.shared, planned, policy, Loaded::default())?;
            Ok((loaded, reserved))
        };
        let first = planned(known.as_ref().map(|(_, planned)| &**planned))?;
        let costs_of = known.map(|(sizes, _)| sizes).filter(|_| first.is_resized());
        let (loaded, reserved) = match compiled(first) {
            Err(error) if costs_of.is_some() && error.kind() != ErrorKind::DeviceLost => {
                // the only device; what it says about these sizes may name the node
                planned(None)?;
                return Err(error);
            }
            loaded => loaded?,
        };
        let mut phases = phases.get();
        phases.compile_ns = clock.lap();
        let special = Specialization::loaded(self.id, &self.shared, loaded, policy.clone(), reserved)?;
        phases.connect_ns = clock.lap();
        if costs_of.is_none() {
            answers.keep(sizes, &special.inner.current().planned);
        }
        Ok(self.made(special, start, phases, costs_of))
    }

    /// The specialisation that was made since.
    pub(super) fn made(
        &self,
        special: Specialization,
        start: Instant,
        phases: PlanningPhases,
        costs_of: Option<Sizes>,
    ) -> Made {
        let padded: u64 = match &self.buckets {
            Some(_) => special.inner.inputs.iter().map(|spec| spec.bytes).sum(),
            None => 0,
        };
        Made {
            // each run in flight may pad the inputs
            bytes: special.inner.bytes() + padded * self.policy.runs_in_flight() as u64,
            planning_ns: nanoseconds(start.elapsed()),
            phases,
            costs_of,
            special,
        }
    }
}
