//! Plans of an admitted session: several are kept ready, and one is active.
//!
//! Invariants:
//! 1. A plan changes between runs; a run that has begun ends on its plan.
//! 2. Only compiled plans are activated.
//!
//! Not here: the choice of the plan (`admission`).

use std::sync::{Arc, MutexGuard, PoisonError};

use polychip_partitioner::Plan;

use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;
use crate::session::standby_plan::{StandbyPlan, UnloadedStandbyPlan};

impl Inner {
    fn standby(&self) -> MutexGuard<'_, Vec<StandbyPlan>> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles and loads a plan that is to be ready and is not; nothing changes for runs.
    pub(crate) fn make_ready(&self, plan: UnloadedStandbyPlan<'_>) -> Result<()> {
        if self
            .standby()
            .iter()
            .any(|standby| standby.is_of(plan.planned.plan()))
        {
            return Ok(());
        }
        let made = plan.load(&self.shared, self.id, self.next_number(), &self.policy)?;
        self.standby().push(made);
        Ok(())
    }

    /// Makes a ready plan the current one from the next run on; reports `why` if it was another one before.
    pub(crate) fn take_up(&self, plan: &Plan, name: &str, why: String) {
        let found = self
            .standby()
            .iter()
            .find(|standby| standby.is_of(plan))
            .map(|standby| Arc::clone(&standby.plan));
        let Some(found) = found.filter(|plan| !plan.has_failed() && !plan.is_broken()) else {
            return;
        };
        let (is_in_place, policy) = {
            let current = self.current();
            let is_it = |plan: &Arc<LoadedPlan>| Arc::ptr_eq(plan, &found);
            (
                current.plan.as_ref().is_some_and(is_it),
                Arc::clone(&current.policy),
            )
        };
        if !is_in_place {
            self.put_in_place(&found, &policy);
            self.tell(Event::new(EventKind::Switched, name, 0, why));
        }
    }

    /// Lets go of plans that are ready, but for these.
    pub(crate) fn keep_only(&self, plans: &[&Plan]) {
        let gone: Vec<StandbyPlan> = {
            let mut standby = self.standby();
            let all = std::mem::take(&mut *standby);
            let (stays, gone) = all
                .into_iter()
                .partition(|standby| plans.iter().any(|plan| standby.is_of(plan)));
            *standby = stays;
            gone
        };
        // which may wait for their last runs
        drop(gone);
    }

    /// Parts of a plan that is ready are due so long after their run is submitted, in nanoseconds.
    pub(crate) fn set_due(&self, plan: &Plan, within_ns: &[u64]) {
        if let Some(standby) = self.standby().iter().find(|standby| standby.is_of(plan)) {
            standby.plan.wiring.set_due(within_ns);
        }
    }

    /// The times that a plan of these parts was counted with, where admission keeps it ready, in nanoseconds.
    pub(crate) fn counted_times(&self, plan: &Plan) -> Option<Vec<u64>> {
        let standby = self.standby();
        let found = standby.iter().find(|standby| standby.is_of(plan))?;
        Some(found.times_ns.clone())
    }

    /// A plan was loaded again: it stays ready in the place of what is void.
    pub(crate) fn keep_instead(&self, plan: &Arc<LoadedPlan>) {
        let mut standby = self.standby();
        if let Some(standby) = standby
            .iter_mut()
            .find(|standby| standby.is_of(plan.planned.plan()))
        {
            plan.wiring.set_due(&standby.plan.wiring.due());
            standby.plan = Arc::clone(plan);
        }
    }
}
