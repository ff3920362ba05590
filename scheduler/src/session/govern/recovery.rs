//! Recovery of lost devices: another plan at once, resets at growing intervals, reloaded plans.
//!
//! Invariants:
//! 1. The state is not locked while a device is reset or a plan is compiled: runs, hints and
//!    reports continue.
//! 2. A plan that replaced another one meanwhile is not overwritten.

use std::sync::{Arc, Weak};

use polychip_governor::Input;

use super::state::{Governing, Lost, State};
use crate::error::Result;
use crate::event::{Event, EventKind};
use crate::planned::Planned;
use crate::replan;
use crate::session::charges::Need;
use crate::session::loaded::LoadedPlan;
use crate::session::specialization_state::Inner;

/// First wait before a lost device is reset again; each that fails doubles it.
const FIRST_WAIT_NS: u64 = 1_000_000_000;
/// Longest such wait.
const LONGEST_WAIT_NS: u64 = 300_000_000_000;

impl State {
    /// A plan takes another's place in all candidates of that.
    fn replace(&mut self, old: &Arc<LoadedPlan>, plan: &Arc<LoadedPlan>) {
        for ready in self
            .ready
            .iter_mut()
            .filter(|ready| Arc::ptr_eq(&ready.plan, old))
        {
            ready.plan = Arc::clone(plan);
        }
    }
}

impl Governing {
    /// Tells the governor of devices that were lost.
    pub(super) fn notice_losses(&self, inner: &Inner, state: &mut State, now: u64) {
        for (index, device) in self.devices.iter().enumerate() {
            if device.is_quarantined() && !state.lost[index].is_lost {
                state.lost[index] = Lost {
                    is_lost: true,
                    next_try_ns: now.saturating_add(state.lost[index].wait_ns),
                    ..state.lost[index]
                };
                inner.tell(Event::new(EventKind::Lost, device.name(), 0, device.last_loss()));
                self.tell(inner, state, now, Input::Lost { device: index });
            }
        }
    }

    /// Resets lost devices, and reloads the plans that were lost with them.
    pub(super) fn repair(&self, inner: &Inner, now: u64) {
        for (index, device) in self.devices.iter().enumerate() {
            {
                let mut state = self.lock();
                let lost = &mut state.lost[index];
                if !lost.is_lost || now < lost.next_try_ns {
                    continue;
                }
                lost.wait_ns = (lost.wait_ns * 2).clamp(FIRST_WAIT_NS, LONGEST_WAIT_NS);
                lost.next_try_ns = now.saturating_add(lost.wait_ns);
            }
            if let Err(reason) = device.reset_if_quarantined() {
                let words = reason.message().to_owned();
                inner.tell(Event::new(EventKind::ResetFailed, device.name(), 0, words));
                continue;
            }
            inner.tell(Event::new(EventKind::Reset, device.name(), 0, device.last_loss()));
            if self.load_again(inner).is_ok() {
                let mut state = self.lock();
                state.lost[index].is_lost = false;
                self.tell(inner, &mut state, now, Input::Back { device: index });
            }
        }
    }

    /// Loads the plans anew whose devices were reset. The state is free while a plan is compiled.
    fn load_again(&self, inner: &Inner) -> Result<()> {
        let _making = self.making();
        let count = self.lock().ready.len();
        for index in 0..count {
            let (name, policy, old) = {
                let state = self.lock();
                let Some(ready) = state.ready.get(index) else {
                    break;
                };
                let mut parts = ready.plan.wiring.parts.iter();
                if ready.can_run() || parts.any(|part| part.handle.is_quarantined()) {
                    continue;
                }
                (
                    ready.name.clone(),
                    Arc::clone(&ready.policy),
                    Arc::clone(&ready.plan),
                )
            };
            inner.keep_track(&old);
            let strict = (*policy).clone().replan(false);
            let planned: Planned = (*old.planned).clone();
            let (planned, parts) = replan::compile(&inner.shared, planned, &strict, old.reusable())?;
            let number = inner.next_number();
            let (shared, need) = (&inner.shared, Need::Replacement);
            let plan = LoadedPlan::new(shared, number, inner.id, planned, parts, &policy, need)?;
            let device = plan
                .wiring
                .parts
                .first()
                .map(|part| part.handle.name().to_owned());
            let mut state = self.lock();
            let current = state.governor.plan();
            // what a recovery has put in its place meanwhile stays
            if !state
                .ready
                .get(index)
                .is_some_and(|ready| Arc::ptr_eq(&ready.plan, &old))
            {
                continue;
            }
            let words = format!("plan {name}");
            inner.tell(Event::new(
                EventKind::Reloaded,
                &device.unwrap_or_default(),
                0,
                words,
            ));
            let plan = Arc::new(plan);
            state.replace(&old, &plan);
            if state
                .ready
                .get(current)
                .is_some_and(|ready| Arc::ptr_eq(&ready.plan, &plan))
            {
                inner.put_in_place(&plan, &policy);
            }
        }
        Ok(())
    }

    /// Another plan for the next run, where the one in place has failed: at once, without a reset.
    pub(in crate::session) fn survive(&self, inner: &Inner) -> Option<Arc<LoadedPlan>> {
        let mut state = self.lock();
        let now = inner.now_ns();
        self.notice_losses(inner, &mut state, now);
        let ready = state.ready.get(state.governor.plan())?;
        if !ready.can_run() {
            return None;
        }
        inner.put_in_place(&ready.plan, &ready.policy);
        Some(Arc::clone(&ready.plan))
    }

    /// A plan was made anew by a recovery: it takes the place of the one that failed. Where all plans were replaced
    /// meanwhile, the governor's stays.
    pub(in crate::session) fn recovered(
        &self,
        inner: &Inner,
        failed: &Weak<LoadedPlan>,
        plan: &Arc<LoadedPlan>,
    ) {
        {
            let mut state = self.lock();
            let current = state.governor.plan();
            for ready in &mut state.ready {
                if std::ptr::eq(Arc::as_ptr(&ready.plan), failed.as_ptr()) {
                    ready.plan = Arc::clone(plan);
                }
            }
            if let Some(ready) = state
                .ready
                .get(current)
                .filter(|ready| !Arc::ptr_eq(&ready.plan, plan))
            {
                inner.put_in_place(&ready.plan, &ready.policy);
            }
        }
        if self.load_again(inner).is_err() {
            // the others come back with the next step
            return;
        }
        let mut state = self.lock();
        let now = inner.now_ns();
        for (index, device) in self.devices.iter().enumerate() {
            if state.lost[index].is_lost && !device.is_quarantined() {
                state.lost[index].is_lost = false;
                self.tell(inner, &mut state, now, Input::Back { device: index });
            }
        }
    }
}
