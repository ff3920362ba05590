//! A plan that an admitted session keeps ready, with the times of its admission.
//!
//! Invariant: it has the admitted parts. A device that refuses one is an error, and no reason to
//! replan.

use std::sync::Arc;

use polychip_partitioner::Plan;

use crate::error::Result;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::replan;
use crate::session::compile::Loaded;
use crate::session::loaded::LoadedPlan;
use crate::shared::Shared;

/// A plan that is kept ready.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) plan: Arc<LoadedPlan>,
    /// By part, the time that it was counted with, in nanoseconds.
    pub(crate) times_ns: Vec<u64>,
}

/// A plan as it was counted, before it is compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToKeep<'a> {
    pub(crate) planned: &'a Planned,
    /// As of [`Kept`].
    pub(crate) times_ns: &'a [u64],
}

impl ToKeep<'_> {
    /// Compiles and loads it.
    pub(crate) fn load(
        self,
        shared: &Arc<Shared>,
        session: usize,
        number: u64,
        policy: &Policy,
    ) -> Result<Kept> {
        let as_it_is = policy.clone().replan(false);
        let (planned, parts) = replan::compile(shared, self.planned.clone(), &as_it_is, Loaded::default())?;
        let times_ns = Some(self.times_ns);
        let plan = LoadedPlan::counted(shared, number, session, planned, parts, policy, times_ns)?;
        Ok(Kept {
            plan: Arc::new(plan),
            times_ns: self.times_ns.to_vec(),
        })
    }
}

impl Kept {
    /// Whether it has just these parts.
    pub(crate) fn is_of(&self, plan: &Plan) -> bool {
        let own = &self.plan.planned.plan().parts;
        own.iter()
            .map(|part| &part.id)
            .eq(plan.parts.iter().map(|part| &part.id))
    }
}
