//! Some nodes of a part as a part of their own.
//!
//! Invariant: what is taken out costs time in its own size; only [`Extract::new`] looks at the whole part.

use super::{Part, Tensor, TensorIndex};

/// Takes nodes out of a part, as often as asked.
#[derive(Debug)]
pub struct Extract<'a> {
    part: &'a Part,
    /// Readers of each tensor, being an output of the part included.
    uses: Vec<usize>,
    /// Place of each tensor in what is being taken out; all empty between calls.
    places: Vec<Option<TensorIndex>>,
}

/// What is known of a tensor while nodes are taken out.
#[derive(Clone, Copy)]
struct Seen {
    original: TensorIndex,
    read: usize,
    written: bool,
    fed: bool,
}

impl<'a> Extract<'a> {
    /// Takes nodes out of this part.
    pub fn new(part: &'a Part) -> Extract<'a> {
        Extract {
            part,
            uses: part.uses(),
            places: vec![None; part.tensors.len()],
        }
    }

    /// One node, with ports around it.
    pub fn node(&mut self, node: usize) -> Part {
        self.nodes(&[node as u32])
    }

    /// Some nodes, in order, with ports around them. An output is what nodes outside read, what leaves the whole part,
    /// and what nobody reads.
    pub fn nodes(&mut self, nodes: &[u32]) -> Part {
        self.nodes_of(nodes).0
    }

    /// As [`nodes`](Self::nodes), and for each port, inputs first, the tensor of the whole part that passes it.
    pub fn nodes_of(&mut self, nodes: &[u32]) -> (Part, Vec<TensorIndex>) {
        let mut order = nodes.to_vec();
        order.sort_unstable();
        order.dedup();
        let mut part = Part::default();
        let mut seen: Vec<Seen> = Vec::new();
        let mut written: Vec<TensorIndex> = Vec::new();
        for &node in &order {
            let Some(node) = self.part.nodes.get(node as usize) else {
                continue;
            };
            let mut node = node.clone();
            for tensor in node.tensors_mut() {
                let original = *tensor;
                *tensor = *self.places[original].get_or_insert_with(|| {
                    part.tensors.push(self.part.tensors[original].clone());
                    seen.push(Seen {
                        original,
                        read: 0,
                        written: false,
                        fed: false,
                    });
                    seen.len() - 1
                });
            }
            for tensor in node.reads() {
                let of = &mut seen[tensor];
                of.read += 1;
                if !of.written && !of.fed && !Tensor::is_constant(&part.tensors[tensor]) {
                    of.fed = true;
                    part.inputs.push(tensor);
                }
            }
            for tensor in node.writes() {
                seen[tensor].written = true;
                written.push(tensor);
            }
            part.nodes.push(node);
        }
        let leaves = |&tensor: &TensorIndex| {
            let of = seen[tensor];
            of.read == 0 || self.uses[of.original] > of.read
        };
        part.outputs = written.into_iter().filter(leaves).collect();
        let ports = part.inputs.iter().chain(&part.outputs);
        let ports = ports.map(|&tensor| seen[tensor].original).collect();
        for of in seen {
            self.places[of.original] = None;
        }
        (part, ports)
    }
}
