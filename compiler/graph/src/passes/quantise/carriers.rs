//! Which integer tensors can carry an encoding, and which of them must carry the same.
//!
//! Tensors joined by ops that only move or select elements form one set with one encoding: the op then
//! means the same on the reals as on the integers.
//!
//! Invariants:
//! 1. Of a set with an encoding, every maker is a quantise of this encoding, an op inside the set, or
//!    the outside; every reader is a dequantise of this encoding or an op inside the set.
//! 2. A set of more than one tensor has one scale per tensor.
//! 3. A tensor whose shape values decide carries none.

use polychip_ops::Op;
use polychip_ops::operator::{Coordinates, Interpolation, Resize};

use super::scale;
use crate::{Encoding, Graph, Node, TensorId, dim_names};

/// The sets of one graph.
pub(super) struct Carriers {
    /// The set of each tensor: index of its first member.
    set: Vec<usize>,
    /// The encoding of each set, at the index of its first member.
    encodings: Vec<Option<Encoding>>,
}

impl Carriers {
    /// No set at all: only constants are dequantised.
    pub(super) fn none() -> Carriers {
        Carriers {
            set: Vec::new(),
            encodings: Vec::new(),
        }
    }

    /// Finds the sets.
    pub(super) fn find(graph: &Graph) -> Carriers {
        let count = graph.tensor_count();
        let mut carriers = Carriers {
            set: (0..count).collect(),
            encodings: vec![None; count],
        };
        for (_, node) in graph.nodes() {
            let members = moved(graph, node);
            for pair in members.windows(2) {
                carriers.join(pair[0].index(), pair[1].index());
            }
        }
        for index in 0..count {
            carriers.set[index] = carriers.root(index);
        }
        let mut sizes = vec![0usize; count];
        for &root in &carriers.set {
            sizes[root] += 1;
        }
        let mut broken = vec![false; count];
        // where all sizes that a user gives are known, values decide what has none: such a tensor stays plain integers,
        // which every device that computes it at all can hold
        let bound = dim_names(graph).is_empty();
        for (id, tensor) in graph.tensors() {
            let root = carriers.set[id.index()];
            broken[root] |= bound && tensor.ty.sizes().is_none();
            let found = evidence(graph, id);
            let Some(found) = found else {
                broken[root] = true;
                continue;
            };
            for encoding in found {
                let fits = sizes[root] == 1 || encoding.is_per_tensor();
                match &carriers.encodings[root] {
                    Some(have) => broken[root] |= *have != encoding,
                    None => carriers.encodings[root] = Some(encoding),
                }
                broken[root] |= !fits;
            }
        }
        for (encoding, broken) in carriers.encodings.iter_mut().zip(broken) {
            if broken {
                *encoding = None;
            }
        }
        carriers
    }

    /// The encoding that a tensor can carry.
    pub(super) fn encoding(&self, id: TensorId) -> Option<&Encoding> {
        self.encodings[*self.set.get(id.index())?].as_ref()
    }

    /// Puts the encoding on the tensor and all that must have the same.
    pub(super) fn settle(&self, graph: &mut Graph, id: TensorId) {
        let Some(encoding) = self.encoding(id) else { return };
        let root = self.set[id.index()];
        for index in root..self.set.len() {
            if self.set[index] == root {
                graph.tensor_mut(TensorId::new(index)).encoding = Some(encoding.clone());
            }
        }
    }

    fn root(&self, mut index: usize) -> usize {
        while self.set[index] != index {
            index = self.set[index];
        }
        index
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.set[a.max(b)] = a.min(b);
    }
}

/// How many inputs of a node hold what it moves or selects, unchanged, into how many outputs.
pub(super) fn slots(node: &Node) -> Option<(usize, usize)> {
    Some(match node.op {
        Op::Reshape
        | Op::Transpose
        | Op::Squeeze
        | Op::Unsqueeze
        | Op::Flatten
        | Op::Slice
        | Op::Gather
        | Op::GatherElements
        | Op::GatherND
        | Op::Identity
        | Op::ReduceMax
        | Op::ReduceMin
        | Op::Expand
        | Op::Tile
        | Op::DepthToSpace
        | Op::SpaceToDepth
        | Op::MaxPool => (1, 1),
        Op::Split => (1, node.outputs.len()),
        Op::Concat | Op::Max | Op::Min => (node.inputs.len(), 1),
        Op::Resize if is_nearest(node) => (1, 1),
        _ => return None,
    })
}

/// The integer tensors whose elements a node moves or selects, unchanged, from the first to the last.
pub(super) fn moved(graph: &Graph, node: &Node) -> Vec<TensorId> {
    let Some((inputs, outputs)) = slots(node) else {
        return Vec::new();
    };
    let inputs = node.inputs.iter().take(inputs);
    let members: Vec<TensorId> = inputs
        .chain(node.outputs.iter().take(outputs))
        .copied()
        .flatten()
        .collect();
    let stored = |id: &TensorId| graph.tensor(*id).typed && scale::is_storage(graph.tensor(*id).ty.dtype);
    if members.iter().all(stored) {
        members
    } else {
        Vec::new()
    }
}

fn is_nearest(node: &Node) -> bool {
    // a crop region may bring in values from outside the image
    node.typed::<Resize>().is_ok_and(|resize| {
        resize.interpolation == Interpolation::Nearest && resize.coordinates != Coordinates::TfCropAndResize
    })
}

/// The encodings that makers and readers of a tensor name; `None` where one of them would see the
/// encoding as something else than the integers.
fn evidence(graph: &Graph, id: TensorId) -> Option<Vec<Encoding>> {
    let tensor = graph.tensor(id);
    if !tensor.typed || !scale::is_storage(tensor.ty.dtype) || tensor.is_constant() {
        return None;
    }
    if tensor.encoding.is_some() || tensor.container != crate::Container::Tensor {
        return None;
    }
    let mut found = Vec::new();
    if let Some(producer) = graph.producer(id) {
        let node = graph.node(producer);
        match node.op {
            Op::QuantizeLinear => found.push(scale::encoding(graph, node)?),
            _ if moved(graph, node).contains(&id) => {}
            _ => return None,
        }
    }
    for &reader in graph.consumers(id) {
        let node = graph.node(reader);
        let elsewhere = node.reads().filter(|&read| read == id).count();
        match node.op {
            Op::DequantizeLinear if node.input(0) == Some(id) && elsewhere == 1 => {
                found.push(scale::encoding(graph, node)?);
            }
            _ => {
                let members = moved(graph, node);
                let inside = members.iter().filter(|&&member| member == id).count();
                if !node.bodies.is_empty() || inside != elsewhere {
                    return None;
                }
            }
        }
    }
    Some(found)
}
