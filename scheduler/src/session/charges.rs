//! What a loaded plan holds in the account of the runtime's memory.
//!
//! Invariants:
//! 1. A plan is charged as a whole or not at all, so no two loads wait for each other.
//! 2. A part that plans and sessions share is charged once, and released with the last of them.
//!
//! Not here: the account (`memory_account`), parking (`park`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::loaded_part::PartMemory;
use crate::memory_account::{Charge, Granted, Holder, Loading, Purpose, Reservation, Room};
use crate::planned::Planned;
use crate::policy::Settings;
use crate::session::loaded::LoadedPlan;
use crate::session::memory::Footprint;
use crate::shared::Shared;

/// Estimated bytes per node of a plan's graph, costs and steps, without tensors and constants.
pub(crate) const NODE_BYTES: u64 = 4 << 10;

/// What a plan is loaded for, which decides how it gets memory.
#[derive(Debug)]
pub(crate) enum Need {
    /// The first plan of a session, or of one of its specializations. Its graph is charged too.
    First(Option<Reservation>),
    /// The plan of a parked or recovering session.
    Again(Option<Reservation>),
    /// A plan in the place of one that can still run: it waits for no session.
    Replacement,
    /// A plan that the session can do without: it takes free memory only.
    Spare,
}

/// The charges of one replica of a plan.
#[derive(Debug, Default)]
pub(crate) struct PlanCharges {
    /// Of its run states.
    buffers: OnceLock<Charge>,
    /// Until it is in place ([`LoadedPlan::settle`]): others wait for it, and the charge of its graph if it is the first of
    /// its session.
    settling: Mutex<Option<(Loading, Option<Charge>)>>,
}

impl Footprint {
    pub(crate) fn bytes(&self) -> u64 {
        self.arena_bytes.saturating_add(self.output_bytes)
    }
}

fn holder(session: usize, planned: &Planned) -> Arc<Holder> {
    Arc::new(Holder {
        session,
        model: planned.model().path().display().to_string(),
    })
}

impl PlanCharges {
    /// Charges memory of another run state, or of a larger output.
    pub(super) fn grow(&self, more: u64) -> Result<()> {
        // the first run states are charged with the plan
        self.buffers.get().map_or(Ok(()), |charge| charge.grow(more))
    }
}

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

    /// The plan is in place, where it may be parked or has to stay. Gives the charge of its graph, which the session keeps.
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

/// An estimate of the bytes of a plan's graph, costs and steps.
fn graph_bytes(planned: &Planned) -> u64 {
    planned.graph().node_count() as u64 * NODE_BYTES
}

/// Memory for a plan that is about to be loaded: `known` bytes, or as many as its constants have. None if there is no
/// limit, or other sessions have loaded its parts.
///
/// # Errors
/// The known bytes do not fit the memory limit.
pub(super) fn reserve(
    shared: &Shared,
    session: usize,
    planned: &Planned,
    settings: Settings,
    known: Option<(u64, Duration)>,
) -> Result<Option<Reservation>> {
    if !shared.memory.is_limited() {
        return Ok(None);
    }
    let (model, graph) = (planned.model(), planned.graph());
    let is_loaded = planned.plan().copies().all(|copy| {
        copy.parts.iter().all(|part| {
            let device = &planned.devices()[part.device.index()];
            model.loaded(device, graph, part, settings).is_some()
        })
    });
    if is_loaded {
        return Ok(None);
    }
    let holder = holder(session, planned);
    if let Some((bytes, patience)) = known {
        return shared.memory.reserve(&holder, bytes, Room::Awaited(patience));
    }
    // a device may need less, so what does not fit is tried
    let reserved = shared
        .memory
        .reserve(&holder, graph.constant_bytes(), Room::Parked);
    Ok(reserved.ok().flatten())
}
