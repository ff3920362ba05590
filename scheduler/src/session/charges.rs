//! What a loaded plan holds in the account of the runtime's memory, and reservations before it is loaded.
//!
//! Not here: the account (`memory_account`), charging a plan (`loaded_memory`), parking (`park`).

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::error::Result;
use crate::memory_account::{Charge, Holder, Loading, Reservation, Room};
use crate::planned::Planned;
use crate::policy::Settings;
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
    pub(super) buffers: OnceLock<Charge>,
    /// Until it is in place (`LoadedPlan::settle`): others wait for it, and the charge of its graph if it is
    /// the first of its session.
    pub(super) settling: Mutex<Option<(Loading, Option<Charge>)>>,
}

impl Footprint {
    pub(crate) fn bytes(&self) -> u64 {
        self.arena_bytes.saturating_add(self.output_bytes)
    }
}

pub(super) fn holder(session: usize, planned: &Planned) -> Arc<Holder> {
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

/// An estimate of the bytes of a plan's graph, costs and steps.
pub(super) fn graph_bytes(planned: &Planned) -> u64 {
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
