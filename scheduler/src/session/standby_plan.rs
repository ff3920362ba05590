//! A plan that an admitted session keeps ready, with the times of its admission.
//!
//! Invariant: it has the admitted parts. A device that refuses one is an error, and no reason to
//! replan.

use std::sync::Arc;

use polychip_partitioner::Plan;

use crate::error::Result;
use crate::memory_account::Charge;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::replan;
use crate::session::charges::Need;
use crate::session::compile::Loaded;
use crate::session::loaded::LoadedPlan;
use crate::shared::Shared;

/// A plan that is ready to run.
#[derive(Debug)]
pub(crate) struct StandbyPlan {
    pub(crate) plan: Arc<LoadedPlan>,
    /// By part, its time in the admission test, in nanoseconds.
    pub(crate) times_ns: Vec<u64>,
    /// Of its graph.
    _memory: Option<Charge>,
}

/// An admitted plan before it is compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnloadedStandbyPlan<'a> {
    pub(crate) planned: &'a Planned,
    /// As of [`StandbyPlan`].
    pub(crate) times_ns: &'a [u64],
}

impl UnloadedStandbyPlan<'_> {
    /// Compiles and loads it.
    pub(crate) fn load(
        self,
        shared: &Arc<Shared>,
        session: usize,
        number: u64,
        policy: &Policy,
    ) -> Result<StandbyPlan> {
        let as_it_is = policy.clone().replan(false);
        let (planned, parts) = replan::compile(shared, self.planned.clone(), &as_it_is, Loaded::default())?;
        let times_ns = Some(self.times_ns);
        let need = Need::First(None);
        let plan = LoadedPlan::counted(shared, number, session, planned, parts, policy, times_ns, need)?;
        Ok(StandbyPlan {
            _memory: plan.settle(),
            plan: Arc::new(plan),
            times_ns: self.times_ns.to_vec(),
        })
    }
}

impl StandbyPlan {
    /// Whether it has just these parts.
    pub(crate) fn is_of(&self, plan: &Plan) -> bool {
        let own = &self.plan.planned.plan().parts;
        own.iter()
            .map(|part| &part.id)
            .eq(plan.parts.iter().map(|part| &part.id))
    }
}
