//! A request restricted to some of its devices, and the translation of its plans to the whole
//! request.
//!
//! Invariants: the plan for a set of devices depends only on these, on the homes of inputs and
//! outputs and on the objective: so an additional device never changes the plan of the others
//! without it. Deliberately not here: which sets are planned (`fewer`, `replicas`).

use crate::cost::CostTable;
use crate::error::Error;
use crate::index::DeviceIndex;
use crate::instance::Inputs;
use crate::link::LinkTable;
use crate::makespan;
use crate::options::Options;
use crate::plan::Plan;
use crate::request::Request;
use crate::target::Target;

/// Some devices of a request.
pub(crate) struct Subset {
    /// By index here, the index in the whole request; ascending.
    devices: Vec<usize>,
    targets: Vec<Target>,
    costs: CostTable,
    links: LinkTable,
    options: Options,
}

impl Subset {
    /// The set of these devices, ascending; none where a node is pinned to another one.
    pub(crate) fn new(inputs: &Inputs<'_>, used: &[usize]) -> Option<Self> {
        let homes = [inputs.options.input_home, inputs.options.output_home];
        // what idles draws power, too
        let idle = inputs.objective.max_predicted_power.is_some();
        let devices: Vec<usize> = (0..inputs.targets.len())
            .filter(|device| idle || used.contains(device) || homes.contains(&Some(*device)))
            .collect();
        let here = |device: usize| devices.binary_search(&device).ok();
        let pin = |(&node, &device): (&usize, &usize)| Some((node, here(device)?));
        let pins = inputs.options.pins.iter();
        if pins.clone().any(|(_, device)| !used.contains(device)) {
            return None;
        }
        let options = Options {
            pins: pins.filter_map(pin).collect(),
            input_home: homes[0].and_then(here),
            output_home: homes[1].and_then(here),
            ..inputs.options.clone()
        };
        let target = |&device: &usize| {
            let mut target = inputs.targets[device].clone();
            if !used.contains(&device) {
                target.quarantined = Some("a plan without it".to_owned());
            }
            target
        };
        let nodes = inputs.graph.node_count();
        let mut costs = CostTable::new(nodes, devices.len());
        let mut links = LinkTable::new(devices.len());
        for (here, &device) in devices.iter().enumerate() {
            for node in 0..nodes {
                if let Some(cost) = inputs.costs.node(node, device) {
                    costs.set_node(node, here, *cost);
                }
            }
            for (there, &other) in devices.iter().enumerate() {
                if let Some(link) = inputs.links.get(device, other) {
                    links.set(here, there, *link);
                }
            }
        }
        for (device, nodes, cost) in inputs.costs.parts() {
            if let Some(device) = here(device) {
                costs.set_part(nodes, device, *cost);
            }
        }
        Some(Self {
            targets: devices.iter().map(target).collect(),
            devices,
            costs,
            links,
            options,
        })
    }

    /// What is asked for, of these devices.
    pub(crate) fn inputs<'b>(&'b self, inputs: &Inputs<'b>) -> Inputs<'b> {
        inputs.changed(Request {
            graph: inputs.graph,
            targets: &self.targets,
            costs: &self.costs,
            links: &self.links,
            objective: inputs.objective,
            options: &self.options,
            // the inputs have it
            model: None,
        })
    }

    /// A placement on these devices as one of the whole request.
    pub(crate) fn whole(&self, placement: &[usize]) -> Vec<usize> {
        placement.iter().map(|&device| self.devices[device]).collect()
    }

    /// A plan of one copy for devices that work at once, as one of the whole request.
    pub(crate) fn scheduled(&self, inputs: &Inputs<'_>, plan: &Plan) -> Result<Plan, Error> {
        let placement = plan.devices_of_nodes(inputs.graph.node_count());
        let placement: Vec<usize> = placement
            .into_iter()
            .map(|device| device.map_or(0, DeviceIndex::index))
            .collect();
        let parts = plan.parts.iter();
        let parts = parts.map(|part| part.nodes.iter().map(|&node| node as usize).collect());
        let bound = plan.certificate.bound;
        makespan::written(inputs, parts.collect(), &self.whole(&placement), bound)
    }
}

/// Devices that can run some node at a known cost.
pub(crate) fn usable(inputs: &Inputs<'_>) -> Vec<usize> {
    let runs = |device: usize, node: usize| {
        inputs.targets[device].supports(node) && inputs.node_cost(node, device).is_some()
    };
    let nodes = inputs.graph.node_count();
    (0..inputs.targets.len())
        .filter(|&device| inputs.targets[device].quarantined.is_none())
        .filter(|&device| (0..nodes).any(|node| runs(device, node)))
        .collect()
}
