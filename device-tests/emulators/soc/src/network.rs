//! The model of a frame: a graph of PlacementBench's corpus, with the work of each node.
//!
//! Invariant: the cost of a node follows from its multiply-adds, other operations and bytes, by the
//! table.

use anyhow::{Context, Result};
use polychip_graph::{Graph, Node, NodeId, Tensor, TensorId};
use polychip_ops::{DType, TensorType};
use polychip_sdk::protobuf::Message;
use serde::Deserialize;

use crate::table::Unit;

/// YOLOv8n, as PlacementBench reads it.
const YOLO: &str = include_str!("../../../../partitioner/benches/corpus/yolov8n.json");
/// MobileNetV2, likewise.
const MOBILENET: &str = include_str!("../../../../partitioner/benches/corpus/mobilenet_v2.json");

/// Work of a node.
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

/// Time of a node on a unit, at the first level.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Scales with the clock.
    pub compute_ns: f64,
    /// Scales with the share of memory that others leave.
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

    /// The name of a node's op in the model that [`Network::onnx`] makes: each has one of its own.
    #[must_use]
    pub fn node_name(&self, node: usize) -> String {
        format!("{}_{node}", self.ops[node])
    }

    /// The node of an op of that model.
    #[must_use]
    pub fn node_of(&self, name: &str) -> Option<usize> {
        let (_, number) = name.rsplit_once('_')?;
        number.parse().ok().filter(|&node| node < self.work.len())
    }

    /// Bytes of the tensors that a node reads and writes.
    #[must_use]
    pub fn tensor_bytes(&self, node: usize) -> f64 {
        let node = self.graph.node(NodeId::new(node));
        let tensors = node.inputs.iter().chain(&node.outputs).flatten();
        tensors.map(|&id| elements(&self.graph, id) as f64).sum()
    }

    /// The network as an ONNX model, for a session: its tensors with their bytes, its nodes as ops that only emulated
    /// units know.
    #[must_use]
    pub fn onnx(&self) -> Vec<u8> {
        let tensor = |id: TensorId| format!("t{}", id.index());
        let port = |id: TensorId| {
            let size = Message::new().number(1, elements(&self.graph, id) as u64);
            let shape = Message::new().message(1, &size);
            let kind = Message::new().number(1, U8).message(2, &shape);
            Message::new()
                .text(1, &tensor(id))
                .message(2, &Message::new().message(1, &kind))
        };
        let mut graph = Message::new().text(2, &self.graph.name);
        for (id, node) in self.graph.nodes() {
            let mut made = Message::new();
            for &input in node.inputs.iter().flatten() {
                made = made.text(1, &tensor(input));
            }
            for &output in node.outputs.iter().flatten() {
                made = made.text(2, &tensor(output));
                if !self.graph.outputs.contains(&output) {
                    graph = graph.message(13, &port(output));
                }
            }
            let name = self.node_name(id.index());
            let made = made.text(3, &name).text(4, &name);
            graph = graph.message(1, &made.text(7, DOMAIN));
        }
        for (field, ports) in [(11, &self.graph.inputs), (12, &self.graph.outputs)] {
            for &id in ports {
                graph = graph.message(field, &port(id));
            }
        }
        let opset = |domain: &str, version| Message::new().text(1, domain).number(2, version);
        Message::new()
            .number(1, 8)
            .message(7, &graph)
            .message(8, &opset("", 17))
            .message(8, &opset(DOMAIN, 1))
            .into_bytes()
    }
}

/// The domain of the model's ops.
const DOMAIN: &str = "soc";
/// ONNX's code of the element type.
const U8: u64 = 2;

fn elements(graph: &Graph, id: TensorId) -> usize {
    let dims = graph.tensor(id).ty.shape.iter().flatten();
    dims.map(|dim| dim.known().unwrap_or(1)).product()
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
