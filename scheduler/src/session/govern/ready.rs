//! Plans that are ready to run, and how they are made.
//!
//! Invariants:
//! 1. Whoever makes plans holds [`Governing::making`], and never the state.
//! 2. A plan that a device refuses is left out, not replaced by another one.

use std::sync::Arc;

use polychip_governor::{Candidate, Input};

use super::Governing;
use crate::error::Result;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::replan;
use crate::runtime::Shared;
use crate::session::Inner;
use crate::session::compile::Loaded;
use crate::session::loaded::LoadedPlan;
use crate::session::portfolio::{self, Variant};

/// A plan with everything loaded.
pub(super) struct Ready {
    pub(super) name: String,
    pub(super) policy: Arc<Policy>,
    pub(super) plan: Arc<LoadedPlan>,
}

impl Ready {
    pub(super) fn can_run(&self) -> bool {
        !self.plan.has_failed() && !self.plan.is_broken()
    }
}

/// Compiles and loads the plans of a portfolio; the first one is loaded already. One that a device refuses is left
/// out.
pub(super) fn load(
    shared: &Arc<Shared>,
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
            None => match load_one(shared, &variant, number) {
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
        });
    }
    (ready, candidates)
}

fn load_one(
    shared: &Arc<Shared>,
    variant: &Variant,
    number: &mut dyn FnMut() -> u64,
) -> Result<Arc<LoadedPlan>> {
    // a plan that a device refuses is left out, not replaced by another one
    let policy = variant.policy.clone().replan(false);
    let (planned, parts) = replan::compile(shared, variant.planned.clone(), &policy, Loaded::default())?;
    Ok(Arc::new(LoadedPlan::new(
        shared,
        number(),
        planned,
        parts,
        &variant.policy,
    )?))
}

impl Governing {
    /// Makes the portfolio anew from what was measured since. The state is free meanwhile: the old plans go on.
    pub(super) fn replan(&self, inner: &Inner) {
        let _making = self.making();
        let plans: Vec<Arc<LoadedPlan>> = {
            let state = self.lock();
            state.ready.iter().map(|ready| Arc::clone(&ready.plan)).collect()
        };
        for plan in plans {
            if let Err(error) = plan.record() {
                tracing::warn!("{error}");
            }
        }
        let names = self
            .devices
            .iter()
            .map(|device| device.name().to_owned())
            .collect();
        let policy = self.policy.for_devices(names, self.policy.settings().precision);
        let model = inner.current().planned.model().clone();
        let planned = match Planned::new(&inner.shared, &model, &policy) {
            Ok(planned) => planned,
            Err(error) => {
                tracing::warn!("no new plans: {error}");
                return;
            }
        };
        let variants = portfolio::variants(&inner.shared, &planned, &policy);
        let (ready, candidates) = load(&inner.shared, variants, None, &mut || inner.next_number());
        if ready.is_empty() {
            return;
        }
        let mut state = self.lock();
        for old in &state.ready {
            inner.keep_track(&old.plan);
        }
        state.ready = ready;
        let now = inner.now_ns();
        self.tell(inner, &mut state, now, Input::Replanned(candidates));
    }
}
