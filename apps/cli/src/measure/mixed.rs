//! The best multi-device plan if the planner would use only one device, as evidence for that choice.
//!
//! Invariants:
//! 1. Every multi-device plan has some node on another device. So the cheapest among the plans with one node pinned
//!    elsewhere, over all nodes, is the cheapest of all by the known costs.
//! 2. Nothing is compiled or run here.
//!
//! Not here: measuring it (`measure`).

use polychip::Planned;
use polychip_partitioner::{self as partitioner, Plan, Request};

use crate::progress::Progress;

/// Plans that are made at most; of larger graphs, those nodes are tried whose own cost grows least.
const MOST: usize = 512;

/// A plan of several devices.
pub(crate) struct Mixed {
    /// The plan.
    pub(crate) plan: Plan,
    /// The node that was pinned away from the one device.
    pub(crate) node: String,
    /// Where it is.
    pub(crate) device: String,
}

/// Whether all parts of a plan are on one device.
pub(crate) fn is_single(plan: &Plan) -> bool {
    plan.parts.windows(2).all(|two| two[0].device == two[1].device)
}

/// The cheapest plan of several devices, where `planned` uses one and another could run some node.
pub(crate) fn cheapest(planned: &Planned) -> Option<Mixed> {
    let home = planned.plan().parts.first()?.device.index();
    let request = planned.request();
    let Request {
        graph,
        targets,
        costs,
        ..
    } = request;
    let pins = &request.options.pins;
    let mut moves = Vec::new();
    for (node, _) in graph.nodes() {
        let node = node.index();
        if pins.contains_key(&node) {
            continue;
        }
        for (device, target) in targets.iter().enumerate() {
            if device != home && target.supports(node) {
                let time = |device| {
                    costs
                        .node(node, device)
                        .map_or(u64::MAX, |cost| cost.time.picoseconds())
                };
                moves.push((time(device).saturating_sub(time(home)), node, device));
            }
        }
    }
    moves.sort_unstable();
    moves.truncate(MOST);
    let progress = Progress::steps("planning with several devices", moves.len() as u64);
    let mut best: Option<(u64, usize, usize, Plan)> = None;
    for (_, node, device) in moves {
        let mut options = request.options.clone();
        options.pins.insert(node, device);
        let made = partitioner::partition(request.with(&options));
        // a plan that breaks a limit, or that nothing is known of, is no candidate
        if let Ok(plan) = made {
            let value = plan.certificate.objective;
            if best.as_ref().is_none_or(|(least, ..)| value < *least) {
                best = Some((value, node, device, plan));
            }
        }
        progress.step();
    }
    let (_, node, device, plan) = best?;
    let name = |at: usize| {
        let found = graph.nodes().nth(at).map(|(_, node)| node);
        match found {
            Some(node) if node.name.is_empty() => format!("{} {at}", node.op.name()),
            Some(node) => node.name.clone(),
            None => at.to_string(),
        }
    };
    Some(Mixed {
        plan,
        node: name(node),
        device: targets[device].name.clone(),
    })
}
