//! Public device-placement inputs: graphs with measured latencies and what moving each tensor costs.
//!
//! Invariants: ids are unique, edges join nodes that exist and stand once, all edges of one node carry the same
//! tensor; a file in the original form and its short form (`corpus/public/README.md`) give the same graph.
//! Deliberately not here: devices and their prices (`public`); memory sizes and colour classes, which no rule reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::structure::{Node, Structure, Tensor};

/// Bytes that move in a millisecond: every input prices its edges so.
const BYTES_PER_MS: f64 = (1u64 << 31) as f64 / 1000.0;

/// A graph and the latencies of its nodes.
pub(crate) struct Input {
    pub(crate) structure: Structure,
    pub(crate) latencies: Vec<Latency>,
}

/// What one node takes.
pub(crate) struct Latency {
    pub(crate) cpu_ms: f64,
    /// On what the inputs call an FPGA, which is a GPU in some of them.
    pub(crate) fpga_ms: f64,
    /// Whether it runs there at all.
    pub(crate) supported: bool,
}

/// A file in either form.
#[derive(Deserialize)]
struct File {
    nodes: Vec<NodeForm>,
    edges: Vec<EdgeForm>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NodeForm {
    /// Id, CPU and FPGA latency in milliseconds, support.
    Short(u64, f64, f64, u8),
    #[serde(rename_all = "camelCase")]
    Original {
        id: u64,
        cpu_latency: f64,
        fpga_latency: f64,
        supported_on_fpga: Flag,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Flag {
    Word(bool),
    Number(u8),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum EdgeForm {
    /// Source, destination, bytes.
    Short(u64, u64, f64),
    #[serde(rename_all = "camelCase")]
    Original { source_id: u64, dest_id: u64, cost: f64 },
}

impl Input {
    /// The input of this name in a folder; none where the folder lacks it.
    pub(crate) fn read(folder: &Path, name: &str) -> Result<Option<Self>, String> {
        let path = folder.join(format!("{name}.json"));
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::new(name, file)
            .map(Some)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn new(name: &str, file: File) -> Result<Self, String> {
        let mut indices = BTreeMap::new();
        let mut latencies = Vec::with_capacity(file.nodes.len());
        for (index, node) in file.nodes.into_iter().enumerate() {
            let (id, cpu_ms, fpga_ms, supported) = match node {
                NodeForm::Short(id, cpu, fpga, supported) => (id, cpu, fpga, supported != 0),
                NodeForm::Original {
                    id,
                    cpu_latency,
                    fpga_latency,
                    supported_on_fpga,
                } => {
                    let supported = match supported_on_fpga {
                        Flag::Word(supported) => supported,
                        Flag::Number(number) => number != 0,
                    };
                    (id, cpu_latency, fpga_latency, supported)
                }
            };
            if cpu_ms < 0.0 || fpga_ms < 0.0 {
                return Err(format!("node {id} has a latency below zero"));
            }
            if indices.insert(id, index).is_some() {
                return Err(format!("node {id} stands twice"));
            }
            latencies.push(Latency {
                cpu_ms,
                fpga_ms,
                supported,
            });
        }
        let mut structure = Structure::new(name);
        // each node writes one tensor, which has its number
        structure.tensors = vec![
            Tensor {
                bytes: 0,
                constant: false
            };
            latencies.len()
        ];
        structure.nodes = (0..latencies.len())
            .map(|index| Node {
                op: "Node".to_owned(),
                macs: 0,
                reads: Vec::new(),
                writes: vec![index],
            })
            .collect();
        let (mut seen, mut sizes) = (BTreeSet::new(), BTreeMap::new());
        for edge in file.edges {
            let (from, to, bytes) = match edge {
                EdgeForm::Short(from, to, bytes) => (from, to, bytes),
                EdgeForm::Original {
                    source_id,
                    dest_id,
                    cost,
                } => (source_id, dest_id, cost * BYTES_PER_MS),
            };
            let find = |id: u64| {
                indices
                    .get(&id)
                    .copied()
                    .ok_or_else(|| format!("edge {from} to {to}: no node {id}"))
            };
            let (writer, reader) = (find(from)?, find(to)?);
            if !seen.insert((from, to)) {
                return Err(format!("edge {from} to {to} stands twice"));
            }
            if bytes < 0.0 {
                return Err(format!("edge {from} to {to} has a size below zero"));
            }
            // some tensors are an eighth of a byte: whole bytes, and one at least where there is anything to move
            let whole = (bytes.round() as u64).max(u64::from(bytes > 0.0));
            if *sizes.entry(writer).or_insert(whole) != whole {
                return Err(format!(
                    "edge {from} to {to} carries another tensor than the edge before it from {from}"
                ));
            }
            structure.tensors[writer].bytes = whole;
            structure.nodes[reader].reads.push(writer);
        }
        Ok(Self { structure, latencies })
    }
}
