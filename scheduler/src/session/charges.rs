//! What a loaded plan holds in the account of the runtime's memory, and reservations before it is loaded.
//!
//! Not here: the account (`memory_account`), charging a plan (`loaded_memory`), parking (`park`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use polychip_graph::{Graph, Node, NodeId, TensorId};
use polychip_partitioner::Part;

use crate::error::Result;
use crate::memory_account::{Charge, Holder, Loading, Reservation, Room};
use crate::planned::Planned;
use crate::policy::Settings;
use crate::session::memory::Footprint;
use crate::shared::Shared;

/// Estimated bytes per node of a plan's graph, costs and steps, without tensors and constants.
pub(crate) const NODE_BYTES: u64 = 4 << 10;

/// A device may hold weights in a fraction of their constants' bytes, but not in less than 1 of so many: f32 in 8 bits.
/// What exceeds the limit even then parks nothing.
const MOST_SHRINKING: u64 = 4;

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

/// Bytes of the constants that a part reads.
fn constant_bytes(graph: &Graph, part: &Part) -> u64 {
    if part.nodes.len() == graph.node_count() {
        return graph.constant_bytes();
    }
    let nodes = part
        .nodes
        .iter()
        .map(|node| graph.node(NodeId::new(*node as usize)));
    let nodes: Vec<&Node> = nodes.collect();
    let reads: BTreeSet<TensorId> = nodes.iter().flat_map(|node| node.reads()).collect();
    let data = reads
        .into_iter()
        .filter_map(|read| graph.tensor(read).data.as_ref());
    let own: u64 = data.map(|data| data.bytes.len() as u64).sum();
    let bodies = nodes.iter().flat_map(|node| &node.bodies);
    let inner: u64 = bodies.map(|body| body.graph.constant_bytes()).sum();
    own.saturating_add(inner)
}

/// The bytes that the weights of a plan are expected to take in memory of the host. Devices with memory of their own
/// have theirs there.
fn expected_weights(planned: &Planned) -> u64 {
    let (model, graph) = (planned.model(), planned.graph());
    let of_part = |part: &Part| {
        let device = &planned.devices()[part.device.index()];
        match device.info().link_bytes_per_s {
            Some(_) => 0,
            None => {
                let bytes = constant_bytes(graph, part);
                model.weights().expected(device.name(), bytes)
            }
        }
    };
    let parts = planned.plan().copies().flat_map(|copy| &copy.parts);
    parts.map(of_part).fold(0, u64::saturating_add)
}

/// Memory for a plan that is about to be loaded: `known` bytes, or as many as its weights are expected to take, so that
/// idle sessions are parked before the weights are read. None if there is no limit, or other sessions have loaded its
/// parts.
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
    let Some(limit) = shared.memory.limit() else {
        return Ok(None);
    };
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
    // a device may need less than expected, so what cannot fit is tried, with all that others can give up
    let expected = expected_weights(planned).saturating_add(graph_bytes(planned));
    let expected = if expected > limit.saturating_mul(MOST_SHRINKING) {
        0
    } else {
        expected.min(limit)
    };
    let reserved = shared.memory.reserve(&holder, expected, Room::Parked);
    Ok(reserved.ok().flatten())
}
