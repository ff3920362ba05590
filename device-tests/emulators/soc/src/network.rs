//! The model that a frame runs, and what planning reads of it: graph, targets, costs, links.
//!
//! Invariants: same network and table, same world; a node's price is the table's, made of its multiply-adds, its
//! other operations and its bytes, so that a scripted device of the same table says the same.

use anyhow::{Context, Result};
use polychip_graph::{Graph, Node, NodeId, Tensor};
use polychip_ops::{DType, TensorType};
use polychip_partitioner::{
    Cost, CostTable, Link, LinkTable, Microjoules, Milliwatts, Nanos, Provenance, Refusal, Request, Target,
};
use serde::Deserialize;

use crate::table::{Table, Unit};

/// YOLOv8n, as PlacementBench reads it.
const YOLO: &str = include_str!("../../../../partitioner/benches/corpus/yolov8n.json");
/// MobileNetV2, likewise.
const MOBILENET: &str = include_str!("../../../../partitioner/benches/corpus/mobilenet_v2.json");

/// What a node asks of a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Multiply-adds of convolutions and matrix products.
    pub macs: f64,
    /// Elements written by any other node.
    pub others: f64,
    /// Bytes of its tensors.
    pub bytes: f64,
}

/// A network with the work of each node, in canonical order.
#[derive(Debug, Clone)]
pub struct Network {
    /// The graph.
    pub graph: Graph,
    /// The ops' names.
    pub ops: Vec<String>,
    /// The nodes' work.
    pub work: Vec<Work>,
}

/// All that planning reads.
#[derive(Debug, Clone)]
pub struct World {
    /// The graph.
    pub graph: Graph,
    /// The units.
    pub targets: Vec<Target>,
    /// What each node costs at the first level and 50 degrees.
    pub costs: CostTable,
    /// The links.
    pub links: LinkTable,
    /// Per node and unit: time at the first level that does not scale with the clock, that does, and of memory; and
    /// bytes.
    pub times: Vec<Vec<Times>>,
}

impl World {
    /// What is asked for: least time.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request::new(&self.graph, &self.targets, &self.costs, &self.links)
    }
}

/// Time of a node on a unit, at the first level.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Scales with the clock.
    pub compute_ns: f64,
    /// Scales with what memory others leave.
    pub memory_ns: f64,
    /// Bytes to and from memory.
    pub bytes: f64,
}

#[derive(Deserialize)]
struct File {
    name: String,
    tensors: Vec<(u64, u8)>,
    nodes: Vec<(String, u64, Vec<usize>, Vec<usize>)>,
}

impl Network {
    /// A network of PlacementBench's corpus: `yolov8n` or `mobilenet_v2`.
    ///
    /// # Errors
    /// A name that is neither.
    pub fn named(name: &str) -> Result<Self> {
        let text = match name {
            "yolov8n" => YOLO,
            "mobilenet_v2" => MOBILENET,
            other => anyhow::bail!("network {other}: there are yolov8n and mobilenet_v2"),
        };
        Self::read(text)
    }

    /// The work of a real graph whose products are `MatMul` or `Gemm`, as a scripted device counts it.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let extents = |id: polychip_graph::TensorId| -> Vec<f64> {
            let dims = graph.tensor(id).ty.shape.iter().flatten();
            dims.map(|dim| dim.known().unwrap_or(1) as f64).collect()
        };
        let elements = |id: polychip_graph::TensorId| extents(id).iter().product::<f64>();
        let mut network = Self {
            graph: graph.clone(),
            ops: Vec::new(),
            work: Vec::new(),
        };
        for (_, node) in graph.nodes() {
            let reads = node.inputs.iter().flatten();
            let writes = node.outputs.iter().flatten();
            let bytes = reads.chain(writes.clone()).map(|&id| 4.0 * elements(id)).sum();
            let written: f64 = writes.map(|&id| elements(id)).sum();
            let inner = node.inputs.first().copied().flatten().map(extents);
            let inner = inner.and_then(|dims| dims.last().copied()).unwrap_or(1.0);
            let op = node.op_name.to_string();
            let product = matches!(op.as_str(), "MatMul" | "Gemm");
            network.work.push(Work {
                macs: if product { written * inner } else { 0.0 },
                others: if product { 0.0 } else { written },
                bytes,
            });
            network.ops.push(op);
        }
        network
    }

    fn read(text: &str) -> Result<Self> {
        let file: File = serde_json::from_str(text)?;
        let mut graph = Graph::new(file.name.as_str());
        // weights are on every unit from the start: they are no tensors of the graph here
        let ids: Vec<_> = file
            .tensors
            .iter()
            .enumerate()
            .map(|(index, &(bytes, constant))| {
                (constant == 0).then(|| {
                    // activations cross in 8 bits; the file counts f32
                    let size = (bytes as usize).div_ceil(4);
                    let ty = TensorType::known(DType::U8, &[size]);
                    graph.add_tensor(Tensor::new(format!("t{index}"), ty))
                })
            })
            .collect();
        for (index, (op, _, reads, writes)) in file.nodes.iter().enumerate() {
            let list = |tensors: &[usize]| tensors.iter().filter_map(|&t| ids[t]).map(Some).collect();
            let node = Node::custom("soc", op, list(reads), list(writes));
            graph.add_node(node.named(index.to_string()));
        }
        for &id in ids.iter().flatten() {
            match graph.producer(id) {
                None => graph.inputs.push(id),
                Some(_) if graph.consumers(id).is_empty() => graph.outputs.push(id),
                Some(_) => {}
            }
        }
        let renumbering = graph.sort().context("the network has a circle")?;
        let mut ops = vec![String::new(); file.nodes.len()];
        let mut work = vec![Work::default(); file.nodes.len()];
        for (old, (op, macs, reads, writes)) in file.nodes.into_iter().enumerate() {
            let new = renumbering
                .node(NodeId::new(old))
                .context("sorting keeps every node")?;
            let bytes = |tensors: &[usize]| tensors.iter().map(|&t| file.tensors[t].0 as f64).sum::<f64>();
            let product = matches!(op.as_str(), "Conv" | "ConvTranspose" | "MatMul" | "Gemm");
            work[new.index()] = Work {
                macs: if product { macs as f64 } else { 0.0 },
                others: if product { 0.0 } else { bytes(&writes) / 4.0 },
                bytes: bytes(&reads) + bytes(&writes),
            };
            ops[new.index()] = op;
        }
        Ok(Self { graph, ops, work })
    }

    /// What planning it on a table reads.
    #[must_use]
    pub fn on(&self, table: &Table) -> World {
        let (nodes, units) = (self.work.len(), table.units.len());
        let mut costs = CostTable::new(nodes, units);
        let mut targets = Vec::with_capacity(units);
        let mut times = vec![vec![Times::default(); units]; nodes];
        for (index, unit) in table.units.iter().enumerate() {
            let power = unit.reference_mw();
            let launch = Nanos::from_nanoseconds(unit.launch_ns);
            let mut target = Target::new(&name(index), nodes).launch(launch);
            target.power = Some(Milliwatts::new(power.round() as u64));
            target.launch_energy = Milliwatts::new(power.round() as u64)
                .over(launch)
                .unwrap_or_default();
            target.emulated = true;
            for (node, work) in self.work.iter().enumerate() {
                if unit.refused_ops.contains(&self.ops[node]) {
                    let words = format!("op {}", self.ops[node]);
                    target.refusals[node] = Some(Refusal { code: 1, words });
                }
                let time = unit.times(work, table.memory.traffic_permille);
                times[node][index] = time;
                let ps = ((time.compute_ns + time.memory_ns) * 1e3).round() as u64;
                // milliwatts times nanoseconds are thousandths of a nanojoule
                let nj = (time.compute_ns + time.memory_ns) * power / 1e3;
                let nj = nj + time.bytes * table.memory.pj_per_byte / 1e3;
                let cost = Cost::time(Nanos::from_picoseconds(ps), Provenance::Estimated).emulated();
                let cost = cost.with_energy(Microjoules::from_nanojoules(nj.round() as u64));
                costs.set_node(node, index, cost);
            }
            targets.push(target);
        }
        let mut links = LinkTable::new(units);
        for row in &table.links {
            let [a, b] = [table.unit(&row.between[0]), table.unit(&row.between[1])];
            let (Some(a), Some(b)) = (a, b) else { continue };
            let latency = Nanos::from_nanoseconds(row.latency_ns);
            let mut link = Link::copy(latency, row.bytes_per_us * 1_000_000);
            link.energy_per_kilobyte = Microjoules::from_nanojoules(row.nj_per_kilobyte);
            links.set(a, b, link);
            links.set(b, a, link);
        }
        World {
            graph: self.graph.clone(),
            targets,
            costs,
            links,
            times,
        }
    }
}

/// The name of a unit as a device.
#[must_use]
pub fn name(unit: usize) -> String {
    format!("soc:{unit}")
}

impl Unit {
    /// Power while busy at the first level and 50 degrees, in milliwatts.
    #[must_use]
    pub fn reference_mw(&self) -> f64 {
        self.dynamic_mw + self.static_mw
    }

    /// Speed against the first level, and power while busy at 50 degrees in milliwatts, of a level.
    #[must_use]
    pub fn at_level(&self, level: usize) -> (f64, f64) {
        let [top_mhz, top_mv] = self.levels[0];
        let [mhz, mv] = self.levels[level.min(self.levels.len() - 1)];
        let (speed, volts) = (mhz as f64 / top_mhz as f64, mv as f64 / top_mv as f64);
        (
            speed,
            self.dynamic_mw * speed * volts * volts + self.static_mw * volts,
        )
    }

    /// Time of a node at the first level.
    #[must_use]
    pub fn times(&self, work: &Work, traffic_permille: f64) -> Times {
        let traffic = work.bytes * traffic_permille / 1e3;
        let compute_ps = self.ps_per_mac * work.macs + self.other_ps_per_mac * work.others;
        Times {
            compute_ns: self.node_ns + compute_ps / 1e3,
            memory_ns: self.ps_per_byte * traffic / 1e3,
            bytes: traffic,
        }
    }
}
