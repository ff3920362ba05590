//! In ungoverned sessions, excludes devices hotter than the policy allows, and readmits them once
//! they have cooled.
//!
//! Invariants:
//! 1. Between two checks, and without a limit in the policy, a run pays one atomic load.
//! 2. One thread replaces a plan between runs; a run that finds another thread at it uses the
//!    existing plan.
//!
//! Not here: which devices are hot (`thermal_exclusion`), governed sessions (`govern`), where all
//! plans are ready.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, TryLockError};

use polychip_partitioner::MilliCelsius;

use crate::error::Result;
use crate::replan;
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;

/// Chips warm and cool within seconds; to ask a driver for a temperature takes up to milliseconds.
const LOOK_NS: u64 = 1_000_000_000;

/// When to look next whether a device is too hot, or has cooled.
#[derive(Debug)]
pub(crate) struct Cooling(AtomicU64);

impl Cooling {
    /// Of a plan that was made now.
    pub(crate) fn new(limit: Option<MilliCelsius>, is_governed: bool, now_ns: u64) -> Cooling {
        let cooling = Cooling(AtomicU64::new(u64::MAX));
        if limit.is_some() && !is_governed {
            cooling.look_later(now_ns);
        }
        cooling
    }

    fn look_later(&self, now_ns: u64) {
        self.0.store(now_ns.saturating_add(LOOK_NS), Ordering::Relaxed);
    }
}

impl Inner {
    /// Plans anew where a device of the plan is too hot, or one that was left out has cooled; looks every second.
    pub(super) fn mind_heat(&self, now_ns: u64) {
        if now_ns < self.cooling.0.load(Ordering::Relaxed) {
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
        self.cooling.look_later(now_ns);
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
