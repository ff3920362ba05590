//! Makes plans ready to run.
//!
//! Invariants:
//! 1. The thread that makes plans holds [`Governing::making`], and never the state.
//! 2. A plan that a device refuses is left out, not replaced by another one.

use std::sync::{Arc, PoisonError};

use polychip_governor::Candidate;

use crate::error::Result;
use crate::policy::Policy;
use crate::replan;
use crate::session::charges::Need;
use crate::session::compile::Loaded;
use crate::session::loaded::LoadedPlan;
use crate::session::portfolio::Variant;
use crate::shared::Shared;

/// A plan with everything loaded.
pub(super) struct Ready {
    pub(super) name: String,
    pub(super) policy: Arc<Policy>,
    pub(super) plan: Arc<LoadedPlan>,
    /// Operating points by device, for which it is a candidate of its own; none: the first ones.
    pub(super) points: Vec<(usize, u32)>,
}

impl Ready {
    /// Its plan runs next: what it took at other points is not told as this one's, and times at lower clocks than the
    /// first are not kept for new plans.
    pub(super) fn take_place(&self) {
        let mut history = (self.plan.history.lock()).unwrap_or_else(PoisonError::into_inner);
        history.take_tallies();
        history.keep(self.points.is_empty());
    }

    pub(super) fn can_run(&self) -> bool {
        !self.plan.has_failed() && !self.plan.is_broken()
    }
}

/// Compiles and loads the plans of a portfolio; the first one is loaded already. One that a device refuses is left
/// out.
pub(super) fn load(
    shared: &Arc<Shared>,
    session: usize,
    variants: Vec<Variant>,
    first: Option<Arc<LoadedPlan>>,
    number: &mut dyn FnMut() -> u64,
) -> (Vec<Ready>, Vec<Candidate>) {
    let mut ready: Vec<Ready> = Vec::new();
    let mut candidates = Vec::new();
    let mut first = first;
    for variant in variants {
        let plan = match first.take() {
            Some(plan) => plan,
            None => match load_one(shared, session, &variant, number) {
                Ok(plan) => plan,
                Err(error) => {
                    tracing::info!("plan {:?} is not kept ready: {error}", variant.name);
                    continue;
                }
            },
        };
        candidates.push(variant.candidate());
        ready.push(Ready {
            name: variant.name,
            policy: Arc::new(variant.policy),
            plan,
            points: Vec::new(),
        });
    }
    (ready, candidates)
}

fn load_one(
    shared: &Arc<Shared>,
    session: usize,
    variant: &Variant,
    number: &mut dyn FnMut() -> u64,
) -> Result<Arc<LoadedPlan>> {
    // a plan that a device refuses is left out, not replaced by another one
    let policy = variant.policy.clone().replan(false);
    let (planned, parts) = replan::compile(shared, variant.planned.clone(), &policy, Loaded::default())?;
    Ok(Arc::new(LoadedPlan::new(
        shared,
        number(),
        session,
        planned,
        parts,
        &variant.policy,
        Need::Spare,
    )?))
}
