//! A network as PlacementBench sees it: ops, wiring, bytes per tensor, multiply-adds; no weights.
//!
//! Invariants: a tensor has at most one writer; a file of `corpus/` and a generator give the same form.
//! Deliberately not here: what anything costs (`world`).

use serde::Deserialize;

/// A tensor: its size, and whether it is a weight.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(from = "(u64, u8)")]
pub(crate) struct Tensor {
    pub(crate) bytes: u64,
    pub(crate) constant: bool,
}

impl From<(u64, u8)> for Tensor {
    fn from((bytes, constant): (u64, u8)) -> Self {
        Self {
            bytes,
            constant: constant != 0,
        }
    }
}

/// A node: its op in ONNX's words, its multiply-adds, what it reads and writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "(String, u64, Vec<usize>, Vec<usize>)")]
pub(crate) struct Node {
    pub(crate) op: String,
    pub(crate) macs: u64,
    pub(crate) reads: Vec<usize>,
    pub(crate) writes: Vec<usize>,
}

impl From<(String, u64, Vec<usize>, Vec<usize>)> for Node {
    fn from((op, macs, reads, writes): (String, u64, Vec<usize>, Vec<usize>)) -> Self {
        Self {
            op,
            macs,
            reads,
            writes,
        }
    }
}

/// A network.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Structure {
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) nodes: Vec<Node>,
}

impl Structure {
    /// An empty network.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a tensor that no node writes: an input of the network.
    pub(crate) fn input(&mut self, bytes: u64) -> usize {
        self.tensor(bytes, false)
    }

    /// Adds a weight.
    pub(crate) fn weight(&mut self, bytes: u64) -> usize {
        self.tensor(bytes, true)
    }

    /// Adds a node with one output, and gives that.
    pub(crate) fn op(&mut self, op: &str, macs: u64, reads: &[usize], bytes: u64) -> usize {
        let output = self.tensor(bytes, false);
        self.nodes.push(Node {
            op: op.to_owned(),
            macs,
            reads: reads.to_vec(),
            writes: vec![output],
        });
        output
    }

    fn tensor(&mut self, bytes: u64, constant: bool) -> usize {
        self.tensors.push(Tensor { bytes, constant });
        self.tensors.len() - 1
    }

    /// Copies of this network one after the other, the first input of each fed by the last output of the one
    /// before, until there are at least so many nodes.
    pub(crate) fn tiled(&self, nodes: usize) -> Self {
        let mut tiled = Self::new(format!("{} x{}", self.name, nodes.div_ceil(self.nodes.len())));
        let mut written = vec![false; self.tensors.len()];
        for &tensor in self.nodes.iter().flat_map(|node| &node.writes) {
            written[tensor] = true;
        }
        let fed = (0..self.tensors.len()).find(|&t| !written[t] && !self.tensors[t].constant);
        let last = self.nodes.last().and_then(|node| node.writes.last().copied());
        let (fed, last) = fed.zip(last).expect("a network has an input and an output");
        let mut before = None;
        while tiled.nodes.len() < nodes {
            let base = tiled.tensors.len();
            let place = |tensor: usize| match before {
                Some(output) if tensor == fed => output,
                _ => base + tensor,
            };
            tiled.nodes.extend(self.nodes.iter().map(|node| Node {
                reads: node.reads.iter().map(|&t| place(t)).collect(),
                writes: node.writes.iter().map(|&t| place(t)).collect(),
                ..node.clone()
            }));
            tiled.tensors.extend_from_slice(&self.tensors);
            before = Some(base + last);
        }
        tiled
    }
}
