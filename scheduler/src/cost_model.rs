//! The cost of each node on each device, with provenance.
//!
//! Evidence is collected once ([`Evidence::collect`]), extended with measured parts of plans
//! ([`Evidence::learn`]), and turned into costs by one function ([`Evidence::resolve`]), which
//! defines the order of trust. A device without estimates or peak rates gets the roofline of a slow
//! core, so it is never preferred to a known one.
//!
//! Not here: the use of costs (`partitioner`), measuring (`session`).

mod believable;
mod calibration;
mod evidence;
mod figure;
mod first_use;
mod moving;
mod power;
mod resize;
mod resolve;

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_graph::{Graph, fingerprint};
use polychip_host::Device;
use polychip_partitioner::{CostTable, DeviceIndex, LinkTable, Part, Request, Target};
pub(crate) use polychip_profile::extract::part_graph;
use polychip_profile::extract::structure_of;
use polychip_profile::{Conditions, NearMatch, PartKey, Profile, Summary};

pub(crate) use calibration::{Calibration, key};
pub(crate) use evidence::{Evidence, support_of};
pub use figure::MeasuredFigure;

use crate::policy::Settings;

/// Everything the partitioner needs of the devices.
#[derive(Debug, Clone)]
pub(crate) struct Prices {
    /// Fingerprint of the graph that is priced.
    pub(crate) model: Arc<str>,
    pub(crate) targets: Vec<Target>,
    pub(crate) costs: CostTable,
    /// Costs of nodes as the plugins state them, times what calibration found, before anything that was measured of the model.
    pub(crate) stated: CostTable,
    pub(crate) links: LinkTable,
    /// What costs rest on, by device and nodes: what the profile said of each.
    pub(crate) measured: BTreeMap<(DeviceIndex, Vec<u32>), Summary>,
    /// The same of another cadence than the one asked for, which is no measurement of this one.
    pub(crate) inherited: BTreeMap<(DeviceIndex, Vec<u32>), Summary>,
}

impl Prices {
    /// What is asked of the partitioner for a graph at these prices: least time, until something else is asked for.
    pub(crate) fn request<'a>(&'a self, graph: &'a Graph) -> Request<'a> {
        Request::new(graph, &self.targets, &self.costs, &self.links).of_model(&self.model)
    }
}

/// Where measured prices come from: the profile, and what of it is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) settings: Settings,
    /// What holds on each device.
    pub(crate) now: &'a [Conditions],
}

impl Rows<'_> {
    /// What the profile knows of a part of this structure on a device. Times of another cadence are scaled by what the
    /// device's parts differ by that were measured at both.
    pub(crate) fn of(self, structure: &[u8; 32], device: &Device, index: DeviceIndex) -> Option<Summary> {
        let key = PartKey {
            device: &device.identity(),
            fingerprint: structure,
            operating_point: &self.settings.operating_point(device.info().kind),
        };
        let now = self.now(index);
        let found = self.profile.part_under(key, &now);
        let found = self.profile.or_nothing(found)?;
        if !found.inherited {
            return Some(found);
        }
        let regression = self.profile.or_nothing(self.profile.regression(key.device, &now));
        let factor = regression.cadence_factor(found.cadence);
        Some(factor.map_or(found.clone(), |factor| found.scaled(factor)))
    }

    /// A bundle's figures for a part of this structure on a device of the same name on another chip.
    pub(crate) fn of_other_device(self, structure: &[u8; 32], device: &Device) -> Option<NearMatch> {
        let key = PartKey {
            device: &device.identity(),
            fingerprint: structure,
            operating_point: &self.settings.operating_point(device.info().kind),
        };
        let found = self.profile.other_device(key, device.info().emulated);
        self.profile.or_nothing(found)
    }

    /// Whether nothing was measured at all, so that no structure needs a hash.
    pub(crate) fn are_none(self) -> bool {
        self.profile.has_no_parts().unwrap_or(false)
    }

    fn now(self, index: DeviceIndex) -> Conditions {
        self.now.get(index.index()).cloned().unwrap_or_default()
    }
}

/// Whether a device may be given all of a graph with this many nodes.
fn runs_all(target: &Target, nodes: usize) -> bool {
    nodes > 0 && target.quarantined.is_none() && (0..nodes).all(|node| target.supports(node))
}

/// The structure of the whole of a graph as the one part of a device.
fn whole_structure(graph: &Graph) -> [u8; 32] {
    let all: Vec<u32> = graph.nodes().map(|(id, _)| id.index() as u32).collect();
    structure_of(graph, &all)
}

/// The structure of a part of a plan: what it is measured under.
pub(crate) fn structure(graph: &Graph, part: &Part) -> [u8; 32] {
    fingerprint::structure(&part_graph(graph, part))
}

#[cfg(test)]
mod tests {
    use polychip_graph::{Node, NodeId, Tensor, extract};
    use polychip_ops::{DType, Op, TensorType};

    use super::*;

    /// `c = -x - |x|` in one part, with `first` computed first; what is computed first is read by
    /// another part too.
    fn part_ops(first: Op) -> (Vec<Op>, [u8; 32]) {
        let mut graph = Graph::new("whole");
        let mut add = |name: &str| graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[4])));
        let [x, a, b, c, d] = ["x", "a", "b", "c", "d"].map(&mut add);
        let unary = |op, from, to| Node::new(op, vec![Some(from)], vec![Some(to)]);
        let (neg, abs) = (unary(Op::Neg, x, a), unary(Op::Abs, x, b));
        let nodes = if first == Op::Neg { [neg, abs] } else { [abs, neg] };
        for node in nodes {
            graph.add_node(node);
        }
        graph.add_node(Node::new(Op::Sub, vec![Some(a), Some(b)], vec![Some(c)]));
        graph.add_node(unary(Op::Sin, b, d));
        graph.inputs = vec![x];
        graph.outputs = vec![c, d];
        let nodes: Vec<NodeId> = (0..3).map(NodeId::new).collect();
        let mut part = extract(&graph, &nodes, &[x], &[b, c]);
        part.sort().unwrap();
        let ops = part.nodes().map(|(_, node)| node.op).collect();
        (ops, fingerprint::content(&part))
    }

    #[test]
    fn parts_with_equal_content_have_equal_node_order() {
        let (one, other) = (part_ops(Op::Neg), part_ops(Op::Abs));
        assert_eq!(one.1, other.1, "a cached blob of one is found for the other");
        assert_eq!(one.0, other.0);
    }
}
