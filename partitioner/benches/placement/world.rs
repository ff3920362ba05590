//! A structure on a device table: graph, targets, costs, links, and the same as an abstract problem.
//!
//! Invariants: the same structure, table, scale and seed give the same world; nodes are in the
//! graph's canonical order; all costs are roofline times with a seeded spread, in whole
//! nanoseconds, and the table marks invented constants.
//! Deliberately not here: solving.

use std::collections::BTreeSet;

use polychip_graph::{Graph, Node, NodeId, Tensor};
use polychip_ops::{DType, TensorType};
use polychip_partitioner::problem::{FORBIDDEN, Moved, Problem, Source};
use polychip_partitioner::{
    Cost, CostTable, Energy, Link, LinkTable, Milliwatts, Plan, Provenance, Refusal, Request, Target, Time,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Deserialize;

use crate::structure::{self, Structure};

/// What a device is, for rules that go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Cpu,
    Gpu,
    Npu,
}

/// One device of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceRow {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    launch_ns: u64,
    node_ns: u64,
    convolution_macs_per_us: u64,
    matrix_macs_per_us: u64,
    other_macs_per_us: u64,
    bytes_per_us: u64,
    power_mw: u64,
    refused_ops: BTreeSet<String>,
    refused_permille: [u64; 2],
    /// Clocks with their speed in thousandths of the first: for plans over operating points.
    #[serde(rename = "operating_points_khz")]
    _operating_points: Vec<[u64; 2]>,
    /// For plans under heat.
    #[serde(rename = "thermal")]
    _thermal: Thermal,
    /// Origin of the constants, as text.
    #[serde(rename = "source")]
    _source: String,
}

/// How a device warms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thermal {
    #[serde(rename = "kelvin_per_watt")]
    _resistance: f64,
    #[serde(rename = "joule_per_kelvin")]
    _capacity: f64,
    #[serde(rename = "limit_celsius")]
    _limit: f64,
}

/// One link of a table, the same in both directions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkRow {
    between: [String; 2],
    latency_ns: u64,
    bytes_per_us: u64,
    energy_nj_per_kilobyte: u64,
    #[serde(rename = "source")]
    _source: String,
}

/// A device table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceTable {
    pub(crate) name: String,
    #[serde(rename = "about")]
    _about: String,
    pub(crate) devices: Vec<DeviceRow>,
    links: Vec<LinkRow>,
}

/// All that planning reads, and the abstract problem that comes of it.
pub(crate) struct World {
    pub(crate) graph: Graph,
    pub(crate) targets: Vec<Target>,
    pub(crate) costs: CostTable,
    pub(crate) links: LinkTable,
    pub(crate) problem: Problem,
    pub(crate) kinds: Vec<Kind>,
}

impl World {
    /// A structure on a table with transfers scaled by so many thousandths.
    pub(crate) fn new(structure: &Structure, table: &DeviceTable, transfer_permille: u64, seed: u64) -> Self {
        let (graph, origin) = graph(structure);
        let links = links(table, transfer_permille);
        let (targets, costs) = prices(structure, &origin, table, seed);
        let problem = problem(&graph, &targets, &costs, &links);
        Self {
            graph,
            targets,
            costs,
            links,
            problem,
            kinds: table.devices.iter().map(|device| device.kind).collect(),
        }
    }

    /// The plan that the planner makes of it.
    pub(crate) fn plan(&self) -> Plan {
        polychip_partitioner::partition(self.request()).expect("the first device runs everything")
    }

    /// What is asked for: least time.
    pub(crate) fn request(&self) -> Request<'_> {
        Request::new(&self.graph, &self.targets, &self.costs, &self.links)
    }
}

/// The graph in canonical order, and which node of the structure each of its nodes is.
pub(crate) fn graph(structure: &Structure) -> (Graph, Vec<usize>) {
    let mut graph = Graph::new(structure.name.as_str());
    let ids: Vec<_> = structure
        .tensors
        .iter()
        .enumerate()
        .map(|(index, tensor)| {
            // weights are on every device from the start: they are no tensors of the graph here
            (!tensor.constant).then(|| {
                let size = usize::try_from(tensor.bytes).expect("tensors fit the address space");
                let ty = TensorType::known(DType::U8, &[size]);
                graph.add_tensor(Tensor::new(format!("t{index}"), ty))
            })
        })
        .collect();
    for (index, node) in structure.nodes.iter().enumerate() {
        let list = |tensors: &[usize]| tensors.iter().filter_map(|&t| ids[t]).map(Some).collect();
        let node = Node::custom("placement", &node.op, list(&node.reads), list(&node.writes));
        graph.add_node(node.named(index.to_string()));
    }
    for &id in ids.iter().flatten() {
        match graph.producer(id) {
            None => graph.inputs.push(id),
            Some(_) if graph.consumers(id).is_empty() => graph.outputs.push(id),
            Some(_) => {}
        }
    }
    let renumbering = graph.sort().expect("structures have no circles");
    let mut origin = vec![0; structure.nodes.len()];
    for old in 0..structure.nodes.len() {
        let new = renumbering
            .node(NodeId::new(old))
            .expect("sorting keeps every node");
        origin[new.index()] = old;
    }
    (graph, origin)
}

fn links(table: &DeviceTable, permille: u64) -> LinkTable {
    let device = |name: &str| {
        let found = table.devices.iter().position(|device| device.name == name);
        found.expect("links are between devices of the table")
    };
    let mut links = LinkTable::new(table.devices.len());
    for row in &table.links {
        let [a, b] = [device(&row.between[0]), device(&row.between[1])];
        let mut link = Link::copy(
            Time::from_picoseconds(row.latency_ns * permille),
            row.bytes_per_us * 1_000_000 * 1000 / permille,
        );
        link.energy_per_kilobyte = Energy::from_nanojoules(row.energy_nj_per_kilobyte);
        links.set(a, b, link);
        links.set(b, a, link);
    }
    links
}

fn prices(
    structure: &Structure,
    origin: &[usize],
    table: &DeviceTable,
    seed: u64,
) -> (Vec<Target>, CostTable) {
    let nodes = origin.len();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |limit: u64| random.next_u64() % limit.max(1);
    let mut targets = Vec::with_capacity(table.devices.len());
    let mut costs = CostTable::new(nodes, table.devices.len());
    for (index, device) in table.devices.iter().enumerate() {
        let [low, high] = device.refused_permille;
        let share = low + below(high - low + 1);
        // drawn in the structure's order, so that the canonical order may change without changing a price
        let drawn: Vec<(bool, u64)> = (0..nodes).map(|_| (below(1000) < share, below(401))).collect();
        let mut target = Target::new(&device.name, nodes).launch(Time::from_nanoseconds(device.launch_ns));
        target.power = Some(Milliwatts::new(device.power_mw).into());
        target.launch_energy = target
            .power
            .and_then(|p| p.active.over(target.launch))
            .unwrap_or_default();
        target.emulated = true;
        for (node, &old) in origin.iter().enumerate() {
            let (refused, spread) = drawn[old];
            let found = &structure.nodes[old];
            if refused || device.refused_ops.contains(&found.op) {
                let words = if refused {
                    "drawn".to_owned()
                } else {
                    format!("op {}", found.op)
                };
                target.refusals[node] = Some(Refusal { code: 1, words });
            }
            let time = Time::from_nanoseconds(nanoseconds(device, structure, found, 800 + spread));
            costs.set_node(node, index, Cost::time(time, Provenance::Roofline));
        }
        targets.push(target);
    }
    (targets, costs)
}

/// Time of a node: the dearer of arithmetic and memory, times so many thousandths, and what every node costs.
fn nanoseconds(device: &DeviceRow, structure: &Structure, node: &structure::Node, permille: u64) -> u64 {
    let speed = match node.op.as_str() {
        "Conv" | "ConvTranspose" => device.convolution_macs_per_us,
        "MatMul" | "Gemm" => device.matrix_macs_per_us,
        _ => device.other_macs_per_us,
    };
    let tensors = node.reads.iter().chain(&node.writes);
    let bytes: u64 = tensors.map(|&tensor| structure.tensors[tensor].bytes).sum();
    let work = (node.macs * 1000 / speed).max(bytes * 1000 / device.bytes_per_us);
    device.node_ns + work * permille / 1000
}

/// The abstract problem, made beside the planner's own and compared with it.
pub(crate) fn problem(graph: &Graph, targets: &[Target], costs: &CostTable, links: &LinkTable) -> Problem {
    let devices = targets.len();
    let pairs = || (0..graph.node_count()).flat_map(|node| (0..devices).map(move |device| (node, device)));
    let value = |(node, device): (usize, usize)| match costs.node(node, device) {
        Some(cost) if targets[device].supports(node) => cost.time.picoseconds(),
        _ => FORBIDDEN,
    };
    let launch = targets.iter().map(|target| target.launch.picoseconds()).collect();
    let mut problem = Problem::new(pairs().map(value).collect(), launch).expect("rows fit the devices");
    for (id, tensor) in graph.tensors() {
        let (Some(writer), readers) = (graph.producer(id), graph.consumers(id)) else {
            continue;
        };
        if readers.is_empty() {
            continue;
        }
        let bytes = tensor.memory_bytes().expect("sizes are known") as u64;
        let transfer = (0..devices).flat_map(|a| (0..devices).map(move |b| (a, b)));
        let transfer = transfer.map(|(a, b)| {
            let time = links.get(a, b).and_then(|link| link.time(bytes));
            time.map_or(FORBIDDEN, Time::picoseconds)
        });
        problem
            .push(Moved {
                source: Source::Node(writer.index()),
                readers: readers.iter().map(|node| node.index()).collect(),
                home: None,
                transfer: transfer.collect(),
            })
            .expect("nodes exist");
    }
    problem
}
