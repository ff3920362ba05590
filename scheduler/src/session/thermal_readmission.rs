//! In ungoverned sessions, excludes devices hotter than the policy allows, and readmits them once
//! they have cooled.
//!
//! Invariant: one thread replaces a plan between runs; a run that finds another thread at it uses
//! the existing plan.
//!
//! Not here: when it checks (`timer`), which devices are hot (`thermal_exclusion`), governed sessions (`govern`), where all
//! plans are ready.

pub(super) mod timer;

use std::sync::{Arc, TryLockError};

use crate::error::Result;
use crate::replan;
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;

impl Inner {
    /// Whether [`Inner::mind_heat`] would look now.
    pub(super) fn minds_heat(&self, now_ns: u64) -> bool {
        self.thermal_timer.is_due(now_ns)
    }

    /// Plans anew where a device of the plan is too hot, or one that was left out has cooled; looks every second.
    pub(super) fn mind_heat(&self, now_ns: u64) {
        if !self.thermal_timer.is_due(now_ns) {
            return;
        }
        let _one = match self.recovery.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let (planned, policy) = {
            let current = self.current();
            (Arc::clone(&current.planned), Arc::clone(&current.policy))
        };
        self.thermal_timer.look_later(now_ns);
        let (Some(limit), Some(plan)) = (policy.temperature_limit(), self.usable()) else {
            return;
        };
        let settings = policy.settings();
        let heated = planned.without_heated(&self.shared, settings, limit);
        let Some(next) = heated.or_else(|| planned.with_cooled(&self.shared, settings, limit)) else {
            return;
        };
        let before = planned.events().len();
        let made = next.and_then(|next| -> Result<LoadedPlan> {
            let (next, parts) = replan::compile(&self.shared, next, &policy, plan.reusable())?;
            LoadedPlan::new(&self.shared, self.next_number(), self.id, next, parts, &policy)
        });
        match made {
            Ok(plan) => {
                let plan = Arc::new(plan);
                self.put_in_place(&plan, &policy);
                let events = plan.planned.events().iter().skip(before);
                events.cloned().for_each(|event| self.tell(event));
            }
            // the current plan stays
            Err(error) => tracing::warn!("no plan for the current temperatures: {error}"),
        }
    }
}
