//! Recovery of a session after a device was lost or hung: reset and reload, or plan without it.
//!
//! Invariants:
//! 1. A plan is replaced between runs: a run that has begun ends on it, with outputs or an error.
//! 2. A device is reset a bounded number of times within a bounded number of good runs; then it is
//!    excluded if another one can do its work. Each step is an event of the report.
//! 3. One thread recovers a session; others that need it meanwhile wait and use the result.
//!
//! Not here: detecting a loss (`run_state`), retrying (`run`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use polychip_host::CallLimit;
use polychip_partitioner::DeviceIndex;

use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventKind};
use crate::memory_account::Reservation;
use crate::planned::Planned;
use crate::policy::Policy;
use crate::replan;
use crate::session::charges::Need;
use crate::session::compile::Loaded;
use crate::session::loaded::LoadedPlan;
use crate::session::run_state::RunState;
use crate::session::specialization_state::Inner;
use crate::tensor::{Owner, TensorMemory};

/// Losses of one device that are answered by a reset; one more, and it is left out.
const RESETS: u32 = 2;
/// Number of good runs after which earlier losses no longer count.
const FORGIVEN_AFTER: u64 = 16;
/// Times that a recovery begins anew because a device was lost while it was loaded.
const ATTEMPTS: u32 = 8;

impl Owner for Inner {
    fn reap_ended(&self) {
        Inner::reap_ended(self);
    }

    fn call_limit(&self) -> Option<Duration> {
        self.policy.hang_timeout
    }

    fn take_back(&self, memory: &TensorMemory) -> Result<()> {
        let failed = self.current().plan.as_ref().is_none_or(|plan| plan.has_failed());
        if failed {
            self.recover()?;
        }
        let plan = self.ready()?;
        if !memory.is_bound_to(plan.number) {
            // the next run binds it to the devices that read it then
            memory.rebind(u64::MAX, &[])?;
        }
        Ok(())
    }
}

impl Inner {
    /// The plan that the next run executes, made anew where the last one failed or was parked.
    pub(crate) fn ready(&self) -> Result<Arc<LoadedPlan>> {
        self.yield_memory();
        match self.usable() {
            Some(plan) => Ok(plan),
            None => self.recover(),
        }
    }

    /// Makes something for the plan of the next run; for another plan, if a device is lost meanwhile.
    pub(crate) fn with_plan<T>(&self, make: impl Fn(&Arc<LoadedPlan>) -> Result<T>) -> Result<T> {
        for _ in 1..ATTEMPTS {
            let plan = self.ready()?;
            match make(&plan) {
                Err(error) if plan.is_lost(&error) => {}
                made => return made,
            }
        }
        make(&self.ready()?)
    }

    /// Takes note of a run that failed, and where it may be tried again gives the slot for that.
    pub(crate) fn failed(
        &self,
        plan: &Arc<LoadedPlan>,
        index: usize,
        mut slot: Box<RunState>,
        error: Error,
        retries: &mut u32,
    ) -> Result<(Arc<LoadedPlan>, usize, Box<RunState>)> {
        let _limit = plan.limit_calls();
        let device = error.device().unwrap_or_default().to_owned();
        if let Some((output, bytes)) = slot.short.take()
            && slot.give_up(&plan.wiring, Duration::ZERO)
        {
            // the device has told how much it takes, so that this ends; it counts as no try
            return match plan.grow(&mut slot, output, bytes) {
                Ok(()) => Ok((Arc::clone(plan), index, slot)),
                Err(second) => {
                    plan.put_back(index, slot);
                    Err(Error::caused(error.kind(), error, second))
                }
            };
        }
        if let Some(part) = slot.hung.take() {
            let part = &plan.wiring.parts[part];
            self.tell(Event::new(
                EventKind::Hung,
                part.handle.name(),
                0,
                error.to_string(),
            ));
            if !part.handle.is_quarantined() && self.count_loss(part.device) > RESETS {
                self.leave_out(part.device, "hung too often");
                plan.mark_failed();
            }
        }
        if plan.is_broken() {
            plan.mark_failed();
        }
        if error.kind() == ErrorKind::Dropped {
            let words = slot.grants.terms.late.words();
            self.tell(Event::new(EventKind::Dropped, "", 0, words));
        }
        // a device less each time, so that this ends; it counts as no try
        let is_left_out = self.leave_out_at_fault(plan, &error);
        if !is_left_out && (*retries == 0 || !error.may_pass()) {
            plan.give_up(index, slot);
            return Err(error);
        }
        if !is_left_out {
            *retries -= 1;
        }
        // the run keeps its hold on what it was given, and its place among the runs in flight
        let given = std::mem::take(&mut slot.given);
        plan.give_up(index, slot);
        let again = self.ready().and_then(|plan| {
            let (plan, taken) = plan.choose(given.states.is_some());
            let (index, slot) = plan.wait_for_slot()?;
            Ok((plan, index, slot, taken))
        });
        let (plan, index, mut slot, taken) = match again {
            Ok(again) => again,
            Err(second) => {
                let context = format!("{error}; not run again");
                return Err(Error::caused(error.kind(), context, second));
            }
        };
        slot.given = given;
        slot.given.taken = taken;
        self.tell(Event::new(EventKind::Retried, &device, 0, error.to_string()));
        Ok((plan, index, slot))
    }

    /// Counts a loss of a device; how many there were of late.
    fn count_loss(&self, device: usize) -> u32 {
        let good = self.runs.load(Ordering::Relaxed);
        let mut current = self.current();
        let losses = &mut current.losses[device];
        if good.saturating_sub(losses.at) >= FORGIVEN_AFTER {
            losses.count = 0;
        }
        losses.count += 1;
        losses.at = good;
        losses.count
    }

    fn leave_out(&self, device: usize, words: &str) {
        self.current().left_out[device] = Some(words.to_owned());
    }

    /// Leaves out the device whose plugin broke the contract in a run, if others can do its work.
    fn leave_out_at_fault(&self, plan: &LoadedPlan, error: &Error) -> bool {
        let planned = &plan.planned;
        let mut used = planned.used_devices().into_iter();
        let index = used.find(|index| {
            let name = planned.devices()[index.index()].name();
            error.device().is_some_and(|device| device == name)
        });
        let Some(index) = index.filter(|_| error.is_fault_of_plugin() && self.policy.may_replan()) else {
            return false;
        };
        if !planned.can_do_without(index) {
            return false;
        }
        let device = &planned.devices()[index.index()];
        tracing::warn!(
            "{} is not used any more: its plugin {} broke the contract: {error}",
            device.name(),
            device.plugin().name
        );
        self.leave_out(index.index(), &error.to_string());
        plan.mark_failed();
        true
    }

    fn recover(&self) -> Result<Arc<LoadedPlan>> {
        let _limit = self.policy.hang_timeout.map(CallLimit::new);
        let _one = self.recovery.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = self.usable() {
            return Ok(plan);
        }
        if let Some(plan) = self
            .governing
            .as_ref()
            .and_then(|governing| governing.survive(self))
        {
            return Ok(plan);
        }
        let start = Instant::now();
        let (planned, policy) = {
            let current = self.current();
            (Arc::clone(&current.planned), Arc::clone(&current.policy))
        };
        let reserved = self.reserve(&planned, policy.settings())?;
        let (planned, policy, old, number) = {
            let mut current = self.current();
            current.number += 1;
            let (planned, policy) = (Arc::clone(&current.planned), Arc::clone(&current.policy));
            (planned, policy, current.plan.take(), current.number)
        };
        let have = old.as_ref().map(|plan| plan.reusable()).unwrap_or_default();
        let failed = old.as_ref().map(Arc::downgrade).unwrap_or_default();
        if let Some(old) = old {
            // memory of the device may be needed; runs of the old plan hold it until they end
            self.keep_track(&old);
            drop(old);
        }
        let plan = Arc::new(self.remake(&planned, &policy, have, number, reserved)?);
        {
            let mut current = self.current();
            current.planned = Arc::clone(&plan.planned);
            current.plan = Some(Arc::clone(&plan));
        }
        plan.settle();
        self.resumed(start.elapsed());
        self.keep_instead(&plan);
        if let Some(governing) = &self.governing {
            governing.recovered(self, &failed, &plan);
        }
        Ok(plan)
    }

    fn remake(
        &self,
        planned: &Planned,
        policy: &Policy,
        mut have: Loaded,
        number: u64,
        mut reserved: Option<Reservation>,
    ) -> Result<LoadedPlan> {
        let mut planned = self.cooler(planned, policy);
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.repair(&mut planned, policy, &mut have)?;
            let before = planned.events().len();
            let void = have.missing(&planned);
            let made = replan::compile(&self.shared, planned.clone(), policy, have.clone()).and_then(
                |(next, parts)| {
                    let events = next.events()[before..].to_vec();
                    let times_ns = self.counted_times(next.plan());
                    let times_ns = times_ns.as_deref();
                    let (shared, id, need) = (&self.shared, self.id, Need::Again(reserved.take()));
                    let plan = LoadedPlan::counted(shared, number, id, next, parts, policy, times_ns, need)?;
                    Ok((plan, events))
                },
            );
            match made {
                Ok((plan, events)) => {
                    events.into_iter().for_each(|event| self.tell(event));
                    for (device, parts) in void {
                        let words = format!("{parts} part{}", if parts == 1 { "" } else { "s" });
                        self.tell(Event::new(
                            EventKind::Reloaded,
                            plan.planned.devices()[device.index()].name(),
                            0,
                            words,
                        ));
                    }
                    return Ok(plan);
                }
                Err(error) if error.kind() == ErrorKind::DeviceLost && attempt < ATTEMPTS => {
                    have.forget_void(planned.devices());
                }
                Err(error) => {
                    let failed = replan::without_failed(&self.shared, &planned, policy, error)?;
                    let events = failed.events().iter().skip(before);
                    events.cloned().for_each(|event| self.tell(event));
                    planned = failed;
                }
            }
        }
    }

    /// The same plan, or a new one where a device that was left out for its temperature has cooled.
    fn cooler(&self, planned: &Planned, policy: &Policy) -> Planned {
        let next = policy
            .temperature_limit()
            .and_then(|limit| planned.with_cooled(&self.shared, policy.settings(), limit));
        match next {
            Some(Ok(next)) => {
                let events = next.events().iter().skip(planned.events().len());
                events.cloned().for_each(|event| self.tell(event));
                next
            }
            _ => planned.clone(),
        }
    }

    /// Resets the lost devices of a plan; plans without those that cannot be reset or are lost too often.
    fn repair(&self, planned: &mut Planned, policy: &Policy, have: &mut Loaded) -> Result<()> {
        let mut without: Vec<(DeviceIndex, String)> = Vec::new();
        for index in planned.used_devices() {
            let device = &planned.devices()[index.index()];
            let name = device.name().to_owned();
            let replaceable = self.policy.may_replan() && planned.can_do_without(index);
            if !device.is_quarantined() {
                let left_out = self.current().left_out[index.index()].clone();
                without.extend(left_out.filter(|_| replaceable).map(|words| (index, words)));
                continue;
            }
            let words = device.last_loss();
            if self.governing.is_none() {
                // in a governed session the governor has reported it
                self.tell(Event::new(EventKind::Lost, &name, 0, words.clone()));
            }
            let losses = self.count_loss(index.index());
            if losses > RESETS && replaceable {
                without.push((index, format!("lost {losses} times recently, last: {words}")));
                continue;
            }
            match device.reset_if_quarantined() {
                Ok(_) => {
                    have.forget(index);
                    self.tell(Event::new(EventKind::Reset, &name, 0, words));
                }
                Err(reason) if replaceable => {
                    let reason = reason.message().to_owned();
                    self.tell(Event::new(EventKind::ResetFailed, &name, 0, reason.clone()));
                    without.push((index, format!("{words}; not reset: {reason}")));
                }
                Err(reason) => {
                    self.tell(Event::new(EventKind::ResetFailed, &name, 0, reason.message()));
                    let remedy = if self.policy.may_replan() {
                        "no other device can run its part"
                    } else {
                        "the policy forbids a new plan (Policy::replan)"
                    };
                    let context = format!("{name} is lost ({words}) and {remedy}");
                    return Err(Error::caused(ErrorKind::DeviceLost, context, reason));
                }
            }
        }
        if without.is_empty() {
            return Ok(());
        }
        let settings = policy.settings();
        let mut next = planned.again(&self.shared, settings, |targets| {
            for (index, words) in &without {
                targets[index.index()].quarantined = Some(words.clone());
            }
        })?;
        for (index, words) in without {
            let moved = planned.nodes_on(index);
            let name = planned.devices()[index.index()].name().to_owned();
            let event = Event::new(EventKind::Replanned, &name, moved, words);
            self.tell(event.clone());
            next.tell(event);
        }
        *planned = next;
        Ok(())
    }
}
