//! The abstract problem of a graph on targets: which node may run where, and every cost as one number.
//!
//! Invariants: inputs of different sizes, repeated devices, graphs out of canonical order and nodes
//! that no device can run are errors before anything is solved; a missing link and a tensor of
//! unknown size forbid the transfer, they never make it free.
//! Deliberately not here: solving (`solve`) and the plan that comes of it (`partition`).

use crate::cost::{Cost, Provenance};
use crate::error::{Error, Repr};
use crate::objective::{Goal, Objective};
use crate::problem::{FORBIDDEN, MAX_DEVICES, Moved, Problem, Source};
use crate::request::Request;
use crate::target::Target;
use crate::unit::{Energy, Time};
use polychip_graph::{NodeId, TensorId};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// A request whose parts were checked to fit together.
pub(crate) struct Inputs<'a> {
    /// Fingerprint of the graph.
    pub(crate) model: String,
    /// Time of the fastest plan, where the objective bounds plans by it.
    pub(crate) fastest: Option<Time>,
    request: Request<'a>,
}

impl<'a> Deref for Inputs<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        &self.request
    }
}

/// Weights of a picosecond and a nanojoule; limits add to an objective's own weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) time: u64,
    pub(crate) energy: u64,
}

impl Weights {
    pub(crate) fn of(objective: Objective) -> Self {
        Self {
            time: u64::from(objective.time_weight),
            energy: u64::from(objective.energy_weight),
        }
    }

    /// The weighted cost, forbidden where it does not fit.
    pub(crate) fn of_cost(self, cost: &Cost) -> u64 {
        self.value(cost.time, cost.energy.unwrap_or_default())
    }

    /// The weighted sum, forbidden where it does not fit.
    pub(crate) fn value(self, time: Time, energy: Energy) -> u64 {
        let time = u128::from(time.picoseconds()) * u128::from(self.time);
        let energy = u128::from(energy.nanojoules()) * u128::from(self.energy);
        u64::try_from(time + energy).unwrap_or(FORBIDDEN)
    }
}

/// What the problem's whole numbers are: the price of each thing that a placement may pay for.
pub(crate) trait Pricing {
    /// A node on a device.
    fn node(&self, node: usize, device: usize, cost: &Cost) -> u64;
    /// A launch on a device.
    fn launch(&self, device: usize, target: &Target) -> u64;
    /// A transfer.
    fn transfer(&self, time: Time, energy: Energy) -> u64;
}

impl Pricing for Weights {
    fn node(&self, _: usize, _: usize, cost: &Cost) -> u64 {
        self.of_cost(cost)
    }

    fn launch(&self, _: usize, target: &Target) -> u64 {
        self.value(target.launch, target.launch_energy)
    }

    fn transfer(&self, time: Time, energy: Energy) -> u64 {
        self.value(time, energy)
    }
}

impl<'a> Inputs<'a> {
    /// Checks that the inputs fit together.
    pub(crate) fn new(request: Request<'a>) -> Result<Self, Error> {
        let Request {
            graph,
            targets,
            costs,
            links,
            objective,
            options,
            model: _,
        } = request;
        let nodes = graph.node_count();
        if graph.node_bound() != nodes {
            return Err(Error::bad_input(
                "graph has removed nodes: it must be sorted before it is planned",
            ));
        }
        for (id, node) in graph.nodes() {
            let late = node
                .reads()
                .filter_map(|tensor| graph.producer(tensor))
                .find(|&from| from >= id);
            if let Some(from) = late {
                return Err(Error::bad_input(format!(
                    "node {id} reads what node {from} writes later: the graph must be sorted before it is planned"
                )));
            }
        }
        let devices = targets.len();
        if devices == 0 || devices > MAX_DEVICES {
            return Err(Error::bad_input(format!(
                "a plan needs 1 to {MAX_DEVICES} devices, {devices} were given"
            )));
        }
        for (index, target) in targets.iter().enumerate() {
            if targets[..index].iter().any(|other| other.name == target.name) {
                return Err(Error::bad_input(format!(
                    "device {} is listed twice",
                    target.name
                )));
            }
            if target.refusals.len() != nodes {
                return Err(Error::bad_input(format!(
                    "device {} has verdicts on {} nodes, the graph has {nodes}",
                    target.name,
                    target.refusals.len()
                )));
            }
        }
        if costs.nodes() != nodes || costs.devices() != devices {
            return Err(Error::bad_input(format!(
                "cost table is for {} nodes on {} devices, the plan for {nodes} on {devices}",
                costs.nodes(),
                costs.devices()
            )));
        }
        if links.devices() != devices {
            return Err(Error::bad_input(format!(
                "link table is for {} devices of {devices}",
                links.devices()
            )));
        }
        for (&node, &device) in &options.pins {
            if node >= nodes || device >= devices {
                return Err(Error::bad_input(format!(
                    "pin of node {node} to device {device}: there are {nodes} nodes and {devices} devices"
                )));
            }
        }
        let homes = [options.input_home, options.output_home];
        if let Some(home) = homes.into_iter().flatten().find(|&home| home >= devices) {
            return Err(Error::bad_input(format!(
                "home of inputs or outputs is device {home} of {devices}"
            )));
        }
        if objective.goal != Goal::Serial && (objective.time_weight, objective.energy_weight) != (1, 0) {
            return Err(Error::bad_input(format!(
                "makespan and throughput need the weights 1 and 0, got {} and {}",
                objective.time_weight, objective.energy_weight
            )));
        }
        Ok(Self {
            model: request.fingerprint(),
            fastest: None,
            request,
        })
    }

    /// The same inputs for another objective.
    pub(crate) fn under(&self, objective: Objective) -> Inputs<'a> {
        self.changed(self.request.toward(objective))
    }

    /// A request for the same graph that fits together as this one does.
    pub(crate) fn changed<'b>(&self, request: Request<'b>) -> Inputs<'b> {
        Inputs {
            model: self.model.clone(),
            fastest: self.fastest,
            request,
        }
    }

    /// The longest permitted run time relative to the fastest plan's.
    pub(crate) fn slowest(&self) -> Option<Time> {
        self.objective.slowest(self.fastest?)
    }

    /// The longest permitted run time.
    pub(crate) fn longest(&self) -> Option<Time> {
        let limits = [self.objective.deadline, self.slowest()];
        limits.into_iter().flatten().min()
    }

    /// The cost of one node on a device as the objective sees it. An unknown energy that the
    /// objective needs is estimated as the device's power times the node's time. If energy is
    /// limited, this is the upper end of its range.
    pub(crate) fn node_cost(&self, node: usize, device: usize) -> Option<Cost> {
        self.priced(*self.costs.node(node, device)?, device)
    }

    /// The stated cost of a whole part, likewise.
    pub(crate) fn part_cost(&self, nodes: &[usize], device: usize) -> Option<Cost> {
        self.priced(*self.costs.part(nodes, device)?, device)
    }

    pub(crate) fn priced(&self, cost: Cost, device: usize) -> Option<Cost> {
        let target = &self.targets[device];
        let mut cost = Cost {
            emulated: cost.emulated || target.emulated,
            ..cost
        };
        if !self.objective.needs_energy_of(target) {
            return Some(cost);
        }
        if cost.energy.is_none() {
            let (energy, range) = target.power?.over(cost.time)?;
            cost = Cost {
                provenance: cost.provenance.max(Provenance::Estimated),
                ..cost.with_energy_within(energy, range)
            };
        }
        if let Some(range) = cost.energy_range.filter(|_| self.objective.limits_energy()) {
            cost.energy = Some(range.high);
        }
        Some(cost)
    }

    /// The reason why a node may not run on a device, apart from pins, as text; `None` if it may.
    fn refusal(&self, node: usize, device: usize) -> Option<String> {
        let target = &self.targets[device];
        if let Some(reason) = &target.quarantined {
            return Some(format!("{} is not used ({reason})", target.name));
        }
        if let Some(refusal) = &target.refusals[node] {
            return Some(format!(
                "{} refuses it ({}, code {})",
                target.name, refusal.words, refusal.code
            ));
        }
        None
    }

    /// The ops of later nodes that every device refuses, as the end of the error about the first.
    fn others(&self, first: usize) -> String {
        let mut ops: BTreeMap<String, usize> = BTreeMap::new();
        let is_refused = |node: usize| {
            let mut usable = self.targets.iter().filter(|target| target.quarantined.is_none());
            let is_pinned = self.options.pins.contains_key(&node);
            !is_pinned && usable.clone().next().is_some() && usable.all(|target| !target.supports(node))
        };
        for node in (first + 1..self.graph.node_count()).filter(|node| is_refused(*node)) {
            *ops.entry(self.graph.node(NodeId::new(node)).label()).or_default() += 1;
        }
        if ops.is_empty() {
            return String::new();
        }
        let name = |(op, count): (&String, &usize)| match count {
            1 => op.clone(),
            count => format!("{op} ({count} nodes)"),
        };
        let names: Vec<String> = ops.iter().map(name).collect();
        format!("; nor nodes of these ops: {}", names.join(", "))
    }

    /// The size of a tensor; none where it is not known before the run.
    pub(crate) fn bytes(&self, tensor: TensorId) -> Option<u64> {
        self.graph.tensor(tensor).memory_bytes()?.try_into().ok()
    }

    /// The problem under given weights.
    pub(crate) fn problem(&self, weights: Weights) -> Result<Problem, Error> {
        self.problem_of(&weights)
    }

    /// The problem under given prices.
    pub(crate) fn problem_of(&self, pricing: &impl Pricing) -> Result<Problem, Error> {
        let (nodes, devices) = (self.graph.node_count(), self.targets.len());
        let launches = self.targets.iter().enumerate();
        let launches = launches.map(|(device, target)| pricing.launch(device, target));
        let mut problem = Problem::new(self.node_values(pricing)?, launches.collect())?;
        debug_assert_eq!(problem.nodes(), nodes);
        let mut given_back = vec![false; self.graph.tensor_count()];
        for output in &self.graph.outputs {
            given_back[output.index()] = true;
        }
        let mut fed = vec![false; self.graph.tensor_count()];
        for input in &self.graph.inputs {
            fed[input.index()] = true;
        }
        // a state stays on its device between runs: the readers of the old value and the writer of
        // the new one share that device
        for state in &self.graph.states {
            fed[state.input.index()] = false;
            given_back[state.output.index()] = false;
            let Some(writer) = self.graph.producer(state.output) else {
                continue;
            };
            problem.push(Moved {
                source: Source::Node(writer.index()),
                readers: indices(self.graph.consumers(state.input)),
                home: None,
                transfer: vec![FORBIDDEN; devices * devices].into(),
            })?;
        }
        // tensors of one size cost the same
        let mut tables: BTreeMap<Option<u64>, Arc<[u64]>> = BTreeMap::new();
        for (id, tensor) in self.graph.tensors() {
            let source = match self.graph.producer(id) {
                Some(node) => Source::Node(node.index()),
                None => match self.options.input_home {
                    Some(home) if fed[id.index()] && !tensor.is_constant() => Source::Device(home),
                    _ => continue,
                },
            };
            let home = self.options.output_home.filter(|_| given_back[id.index()]);
            let readers = indices(self.graph.consumers(id));
            if readers.is_empty() && home.is_none() {
                continue;
            }
            let bytes = self.bytes(id);
            let transfer = tables
                .entry(bytes)
                .or_insert_with(|| self.transfers(pricing, bytes));
            let transfer = Arc::clone(transfer);
            problem.push(Moved {
                source,
                readers,
                home,
                transfer,
            })?;
        }
        Ok(problem)
    }

    /// Costs of all nodes on all devices, forbidden where a node may not run.
    fn node_values(&self, pricing: &impl Pricing) -> Result<Vec<u64>, Error> {
        let devices = self.targets.len();
        let mut values = Vec::with_capacity(self.graph.node_count() * devices);
        for node in 0..self.graph.node_count() {
            let pin = self.options.pins.get(&node).copied();
            let refused = |device: usize| match pin {
                Some(pin) if pin != device => true,
                _ => self.targets[device].quarantined.is_some() || !self.targets[device].supports(node),
            };
            let start = values.len();
            values.extend((0..devices).map(|device| match self.node_cost(node, device) {
                Some(cost) if !refused(device) => pricing.node(node, device, &cost),
                _ => FORBIDDEN,
            }));
            if values[start..].iter().any(|&value| value != FORBIDDEN) {
                continue;
            }
            // only now are words needed
            let (mut refusals, mut unpriced) = (Vec::new(), Vec::new());
            for device in 0..devices {
                let refusal = match pin {
                    Some(pin) if pin != device => Some(format!("it is pinned to {}", self.targets[pin].name)),
                    _ => self.refusal(node, device),
                };
                match refusal {
                    Some(refusal) if !refusals.contains(&refusal) => refusals.push(refusal),
                    Some(_) => {}
                    None if self.node_cost(node, device).is_none() => {
                        unpriced.push(self.targets[device].name.as_str());
                    }
                    None => {}
                }
            }
            let found = self.graph.node(NodeId::new(node));
            let op = match found.name.as_str() {
                "" => found.label(),
                name => format!("{} \"{name}\"", found.label()),
            };
            return Err(if unpriced.is_empty() {
                Repr::NoDevice {
                    node,
                    op,
                    reasons: refusals.join("; "),
                    others: self.others(node),
                }
                .into()
            } else {
                let what = if self.objective.needs_energy() {
                    "time with energy"
                } else {
                    "time"
                };
                Repr::MissingCost {
                    what,
                    node,
                    op,
                    devices: unpriced.join(", "),
                }
                .into()
            });
        }
        Ok(values)
    }

    /// Costs of moving a tensor between all pairs of devices; none within one.
    fn transfers(&self, pricing: &impl Pricing, bytes: Option<u64>) -> Arc<[u64]> {
        let devices = self.targets.len();
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to)));
        let value = |(from, to)| {
            if from == to {
                return Some(0);
            }
            let link = self.links.get(from, to)?;
            let bytes = bytes?;
            Some(pricing.transfer(link.time(bytes)?, link.energy(bytes)?))
        };
        pairs.map(|pair| value(pair).unwrap_or(FORBIDDEN)).collect()
    }
}

/// Indices of nodes.
pub(crate) fn indices(nodes: &[NodeId]) -> Vec<usize> {
    nodes.iter().map(|node| node.index()).collect()
}
