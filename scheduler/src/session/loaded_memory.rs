//! The memory of a loaded plan: charged to its session as a whole, and freed with its last user.
//!
//! Invariants:
//! 1. A plan is charged as a whole or not at all, so no two loads wait for each other.
//! 2. A part that plans and sessions share is charged once, and released with the last of them.
//!
//! Not here: the charges (`charges`), parking (`park`).

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::loaded_part::PartMemory;
use crate::memory_account::{Charge, Granted, Purpose, Room};
use crate::session::charges::{Need, graph_bytes, holder};
use crate::session::loaded::LoadedPlan;

impl LoadedPlan {
    /// This replica and the others.
    fn all(&self) -> impl Iterator<Item = &LoadedPlan> + Clone {
        std::iter::once(self).chain(self.others.iter().map(Arc::as_ref))
    }

    /// Charges the plan to its session.
    ///
    /// # Errors
    /// It does not fit the memory limit.
    pub(super) fn charge(&self, need: Need, patience: Duration) -> Result<()> {
        let mut parts: BTreeMap<*const PartMemory, &Arc<PartMemory>> = BTreeMap::new();
        let all = self.all().flat_map(|plan| &plan.parts);
        let uncharged = all.filter(|part| !part.memory.is_charged());
        parts.extend(uncharged.map(|part| (Arc::as_ptr(&part.memory), &part.memory)));
        let is_first = matches!(need, Need::First(_));
        let (reserved, room) = match need {
            Need::First(reserved) | Need::Again(reserved) => (reserved, Room::Awaited(patience)),
            Need::Replacement => (None, Room::Parked),
            Need::Spare => (None, Room::Free),
        };
        let bytes = parts
            .values()
            .flat_map(|part| [part.weight_bytes, part.other_bytes]);
        let mut amounts: Vec<(Purpose, u64)> = bytes.map(|bytes| (Purpose::Parts, bytes)).collect();
        amounts.extend(self.all().map(|plan| (Purpose::Buffers, plan.footprint.bytes())));
        if is_first {
            amounts.push((Purpose::Plans, graph_bytes(&self.planned)));
        }
        let holder = holder(self.session, &self.planned);
        let Granted { charges, loading } = self.shared.memory.charge(&holder, &amounts, reserved, room)?;
        let mut charges = charges.into_iter();
        for part in parts.values() {
            if let (Some(weights), Some(other)) = (charges.next(), charges.next()) {
                part.set_charges(weights, other);
            }
        }
        for plan in self.all() {
            let _ = charges.next().map(|charge| plan.charges.buffers.set(charge));
        }
        if let Room::Awaited(_) = room {
            let mut settling = self
                .charges
                .settling
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *settling = Some((loading, charges.next()));
        }
        Ok(())
    }

    /// The plan is in place, where it may be parked or has to stay. Gives the charge of its graph, which the
    /// session keeps.
    pub(super) fn settle(&self) -> Option<Charge> {
        let mut settling = self
            .charges
            .settling
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (loading, graph) = settling.take()?;
        drop(settling);
        drop(loading);
        graph
    }

    /// Whether no run uses a run state, in any replica, and the app keeps no outputs. With `alone`, nothing else may
    /// hold a replica beside the first.
    pub(super) fn is_idle(&self, alone: bool) -> bool {
        let others = self.others.iter();
        self.all().all(LoadedPlan::is_free)
            && (!alone || others.into_iter().all(|other| Arc::strong_count(other) == 1))
    }
}

/// Bytes that are freed when these plans are, which need not differ; less if their weights are shared with others.
pub(super) fn freed_with(plans: &[&Arc<LoadedPlan>]) -> u64 {
    let distinct: BTreeMap<*const LoadedPlan, &LoadedPlan> = plans
        .iter()
        .flat_map(|plan| plan.all())
        .map(|plan| (std::ptr::from_ref(plan), plan))
        .collect();
    let buffers = distinct.values().filter_map(|plan| plan.charges.buffers.get());
    let mut freed: u64 = buffers.map(Charge::bytes).sum();
    let mut parts: BTreeMap<*const PartMemory, (usize, &Arc<PartMemory>)> = BTreeMap::new();
    for part in distinct.values().flat_map(|plan| &plan.parts) {
        parts
            .entry(Arc::as_ptr(&part.memory))
            .or_insert((0, &part.memory))
            .0 += 1;
    }
    for (count, part) in parts.values() {
        // other sessions hold what is held more often
        if Arc::strong_count(part) == *count {
            freed = freed.saturating_add(part.charged_bytes());
        }
    }
    freed
}
