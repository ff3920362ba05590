//! Hashes that name a graph: by its structure, and by its structure and constants; and some of its nodes by themselves.
//!
//! Invariants:
//! 1. Of whole graphs, names of graphs, nodes and tensors, the order of nodes, the order of captures and the places of
//!    constants in files do not count; the order of inputs and outputs does.
//! 2. Ops, attributes, types, encodings, bodies, decompositions, groups and states count.
//! 3. Of constants the structure counts type and encoding, and the values of short `i64` vectors,
//!    which are axes, sizes and the like.
//! 4. A large constant counts by the BLAKE3 hash of its bytes, which a caller may know already.
//!
//! Each node is hashed from what it reads (inputs first), then again with what reads it, so that nodes
//! that look alike differ by their use; the hash of the graph is the hash of all of them, sorted.

use std::collections::BTreeMap;
use std::sync::Arc;

use blake3::Hasher;
use bytes::Bytes;
use polychip_ops::{AttrValue, Attributes, DType, Dim, TensorType};
use smallvec::SmallVec;

use crate::{Container, Encoding, EncodingAxis, Graph, Node, NodeId, Tensor, TensorId};

/// Longest `i64` vector whose values count as structure.
const STRUCTURAL: usize = 64;

/// Size from which on a constant counts by its own hash, in bytes.
const LARGE: usize = 4096;

type Hash = [u8; 32];

/// The hash of ops, attributes, shapes and data types: the key of profiles.
pub fn structure(graph: &Graph) -> [u8; 32] {
    outermost(graph, None)
}

/// The hash of structure and constants: the key of compiled blobs.
pub fn content(graph: &Graph) -> [u8; 32] {
    content_with(graph, &ConstantHashes::default())
}

/// As [`content`], without reading the constants whose hashes are known.
pub fn content_with(graph: &Graph, known: &ConstantHashes) -> [u8; 32] {
    outermost(graph, Some(known))
}

/// BLAKE3 hashes of constants' bytes, by where the bytes lie. Holds that memory.
#[derive(Clone, Debug, Default)]
pub struct ConstantHashes(BTreeMap<(usize, usize), (Bytes, Hash)>);

impl ConstantHashes {
    /// Adds a constant. `hash` must be the BLAKE3 hash of `bytes`.
    pub fn add(&mut self, bytes: Bytes, hash: [u8; 32]) {
        self.0.insert(place(&bytes), (bytes, hash));
    }

    /// Whether no hash is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the hash of these bytes is known.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        self.0.contains_key(&place(bytes))
    }

    /// The hash of the bytes, computed if it is not known.
    fn of(&self, bytes: &[u8]) -> Hash {
        match self.0.get(&place(bytes)) {
            Some((_, hash)) => *hash,
            None => *blake3::hash(bytes).as_bytes(),
        }
    }
}

fn place(bytes: &[u8]) -> (usize, usize) {
    (bytes.as_ptr().addr(), bytes.len())
}

/// The hash of some nodes by themselves, in the order given: names, ops, attributes, bodies, the types of what they
/// read and write, and which of them reads what which of them writes. The rest of the graph does not count, nor do
/// indices, so that it stays the same while other nodes come and go.
///
/// Unlike the hashes of whole graphs this one includes node names, which distinguish repeated blocks.
pub fn nodes(graph: &Graph, nodes: &[NodeId]) -> [u8; 32] {
    let context = Context {
        content: None,
        symbols: BTreeMap::new(),
    };
    let place: BTreeMap<NodeId, usize> = nodes.iter().enumerate().map(|(at, &id)| (id, at)).collect();
    let mut feed = Feed::new("nodes");
    for node in nodes.iter().filter_map(|&id| graph.find_node(id)) {
        feed.text(&node.name);
        feed.text(&node.domain);
        feed.text(&node.op_name);
        attributes(&mut feed, &node.attributes);
        feed.number(node.inputs.len() as u64);
        for input in &node.inputs {
            let Some(id) = *input else {
                feed.text("none");
                continue;
            };
            let tensor = graph.tensor(id);
            context.tensor(&mut feed, tensor);
            let writer = graph
                .producer(id)
                .and_then(|writer| Some((writer, place.get(&writer)?)));
            match (writer, structural(tensor)) {
                (Some((writer, at)), _) => {
                    let slot = graph
                        .node(writer)
                        .outputs
                        .iter()
                        .position(|output| *output == Some(id));
                    feed.number(1 + *at as u64);
                    feed.number(slot.unwrap_or(0) as u64);
                }
                (None, Some(bytes)) => feed.bytes(bytes),
                (None, None) => feed.number(0),
            }
        }
        feed.number(node.outputs.len() as u64);
        for output in &node.outputs {
            match output {
                Some(id) => context.tensor(&mut feed, graph.tensor(*id)),
                None => feed.text("none"),
            }
        }
        feed.number(node.bodies.len() as u64);
        for body in &node.bodies {
            feed.text(body.attr.name());
            let captured = vec![[0; 32]; body.captures.len()];
            feed.hash(&context.graph(&body.graph, &captured));
        }
    }
    feed.done()
}

/// The values of a constant that count as structure.
fn structural(tensor: &Tensor) -> Option<&[u8]> {
    let data = tensor.data.as_ref()?;
    let short = tensor.ty.dtype == DType::I64
        && tensor.ty.rank().is_some_and(|rank| rank <= 1)
        && data.bytes.len() <= STRUCTURAL * 8;
    short.then_some(&data.bytes[..])
}

fn outermost(graph: &Graph, content: Option<&ConstantHashes>) -> Hash {
    let mut symbols = BTreeMap::new();
    for &input in &graph.inputs {
        for dim in graph.tensor(input).ty.shape.iter().flatten() {
            if let Dim::Symbol(name) = dim {
                let next = symbols.len();
                symbols.entry(name.clone()).or_insert(next);
            }
        }
    }
    let context = Context { content, symbols };
    context.graph(graph, &[])
}

struct Context<'k> {
    /// Known hashes, if the bytes of constants count.
    content: Option<&'k ConstantHashes>,
    /// Named sizes by first mention: the names themselves do not count.
    symbols: BTreeMap<Arc<str>, usize>,
}

/// Bytes that are collected before they are hashed.
const COLLECTED: usize = 512;

/// A hash being fed with values that cannot run into each other. Most are so short that making a hasher would take longer
/// than hashing them, so that one is made only for long ones.
struct Feed {
    bytes: SmallVec<[u8; COLLECTED]>,
    /// Holds what came before `bytes`.
    hasher: Option<Box<Hasher>>,
}

impl Feed {
    fn new(what: &str) -> Feed {
        let mut feed = Feed {
            bytes: SmallVec::new(),
            hasher: None,
        };
        feed.text(what);
        feed
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > COLLECTED {
            let hasher = self.hasher.get_or_insert_with(Box::default);
            hasher.update(&self.bytes);
            hasher.update(bytes);
            self.bytes.clear();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.push(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.push(&number.to_le_bytes());
    }

    fn hash(&mut self, hash: &Hash) {
        self.push(hash);
    }

    /// Hashes of which the order does not count.
    fn sorted(&mut self, mut hashes: Vec<Hash>) {
        hashes.sort_unstable();
        self.number(hashes.len() as u64);
        for hash in &hashes {
            self.hash(hash);
        }
    }

    fn done(mut self) -> Hash {
        let hash = match &mut self.hasher {
            Some(hasher) => hasher.update(&self.bytes).finalize(),
            None => blake3::hash(&self.bytes),
        };
        *hash.as_bytes()
    }
}

impl Context<'_> {
    /// The hash of a graph whose last inputs are captures of tensors with these hashes.
    fn graph(&self, graph: &Graph, captured: &[Hash]) -> Hash {
        let order = crate::graph::order::execution_order(graph);
        let mut tensors: Vec<Option<Hash>> = vec![None; graph.tensor_count()];
        let formals = graph.inputs.len().saturating_sub(captured.len());
        for (index, &input) in graph.inputs.iter().enumerate() {
            let mut feed = Feed::new("input");
            match index.checked_sub(formals).and_then(|index| captured.get(index)) {
                Some(outer) => feed.hash(outer),
                None => feed.number(index as u64),
            }
            self.tensor(&mut feed, graph.tensor(input));
            tensors[input.index()] = Some(feed.done());
        }
        for (id, tensor) in graph.tensors() {
            if let Some(data) = &tensor.data {
                let mut feed = Feed::new("constant");
                self.tensor(&mut feed, tensor);
                if let Some(known) = self.content {
                    if data.bytes.len() < LARGE {
                        feed.bytes(&data.bytes);
                    } else {
                        feed.number(data.bytes.len() as u64);
                        feed.hash(&known.of(&data.bytes));
                    }
                } else if let Some(bytes) = structural(tensor) {
                    feed.bytes(bytes);
                }
                tensors[id.index()] = Some(feed.done());
            }
        }
        let mut forward: Vec<Hash> = vec![[0; 32]; graph.node_bound()];
        for &id in &order {
            let node = graph.node(id);
            forward[id.index()] = self.node(graph, node, &tensors);
            for (index, output) in node.outputs.iter().enumerate() {
                let Some(output) = *output else { continue };
                let mut feed = Feed::new("made");
                feed.hash(&forward[id.index()]);
                feed.number(index as u64);
                tensors[output.index()] = Some(feed.done());
            }
        }
        let used = self.uses(graph, &order, &forward, &tensors);
        let mut feed = Feed::new("graph");
        feed.number(formals as u64);
        let of = |id: TensorId| tensors[id.index()].unwrap_or([0; 32]);
        for &input in &graph.inputs[..formals] {
            feed.hash(&of(input));
        }
        feed.number(graph.outputs.len() as u64);
        for &output in &graph.outputs {
            feed.hash(&of(output));
        }
        feed.sorted(order.iter().map(|id| used[id.index()]).collect());
        let states = graph.states.iter().map(|state| {
            let mut feed = Feed::new("state");
            feed.hash(&of(state.input));
            feed.hash(&of(state.output));
            feed.done()
        });
        feed.sorted(states.collect());
        let groups = graph.groups.iter().map(|group| {
            let mut feed = Feed::new("group");
            feed.text(group.kind.name());
            feed.sorted(
                group
                    .nodes
                    .iter()
                    .filter_map(|id| used.get(id.index()).copied())
                    .collect(),
            );
            feed.done()
        });
        feed.sorted(groups.collect());
        feed.done()
    }

    /// Each node's hash joined with those of the readers of its outputs, back from the outputs. The readers' hashes
    /// distinguish a constant that several nodes share from copies of it.
    fn uses(&self, graph: &Graph, order: &[NodeId], forward: &[Hash], tensors: &[Option<Hash>]) -> Vec<Hash> {
        let mut used = forward.to_vec();
        let readers = |tensor: TensorId, used: &[Hash]| {
            let mut readers = Vec::new();
            for &reader in graph.consumers(tensor) {
                for (slot, read) in graph.node(reader).reads().enumerate() {
                    if read == tensor {
                        let mut feed = Feed::new("read");
                        feed.hash(&used[reader.index()]);
                        // captures have no order
                        feed.number(slot.min(graph.node(reader).inputs.iter().flatten().count()) as u64);
                        readers.push(feed.done());
                    }
                }
            }
            for (place, &output) in graph.outputs.iter().enumerate() {
                if output == tensor {
                    let mut feed = Feed::new("given");
                    feed.number(place as u64);
                    readers.push(feed.done());
                }
            }
            readers
        };
        for &id in order.iter().rev() {
            let mut feed = Feed::new("used");
            feed.hash(&forward[id.index()]);
            for output in &graph.node(id).outputs {
                match output {
                    Some(output) => feed.sorted(readers(*output, &used)),
                    None => feed.number(0),
                }
            }
            used[id.index()] = feed.done();
        }
        // constants last: how each is shared, told to the nodes that read it
        let mut shared: Vec<Vec<Hash>> = vec![Vec::new(); graph.node_bound()];
        for (id, tensor) in graph.tensors() {
            if !tensor.is_constant() {
                continue;
            }
            let mut feed = Feed::new("shared");
            feed.hash(&tensors[id.index()].unwrap_or([0; 32]));
            feed.sorted(readers(id, &used));
            let hash = feed.done();
            for &reader in graph.consumers(id) {
                shared[reader.index()].push(hash);
            }
        }
        for (used, shared) in used.iter_mut().zip(shared) {
            let mut feed = Feed::new("node");
            feed.hash(used);
            feed.sorted(shared);
            *used = feed.done();
        }
        used
    }

    fn node(&self, graph: &Graph, node: &Node, tensors: &[Option<Hash>]) -> Hash {
        let of = |id: TensorId| tensors[id.index()].unwrap_or([0; 32]);
        let mut feed = Feed::new("node");
        feed.text(&node.domain);
        feed.text(&node.op_name);
        feed.number(node.inputs.len() as u64);
        for input in &node.inputs {
            match input {
                Some(id) => feed.hash(&of(*id)),
                None => feed.text("none"),
            }
        }
        feed.number(node.outputs.len() as u64);
        for output in &node.outputs {
            match output {
                Some(id) => self.tensor(&mut feed, graph.tensor(*id)),
                None => feed.text("none"),
            }
        }
        attributes(&mut feed, &node.attributes);
        feed.number(node.bodies.len() as u64);
        for body in &node.bodies {
            feed.text(body.attr.name());
            let captured: Vec<Hash> = body.captures.iter().map(|capture| of(capture.outer)).collect();
            feed.hash(&self.graph(&body.graph, &captured));
        }
        match &node.decomposition {
            Some(inner) => feed.hash(&self.graph(inner, &[])),
            None => feed.text("none"),
        }
        feed.done()
    }

    /// What is known of a tensor, but for its name and elements.
    fn tensor(&self, feed: &mut Feed, tensor: &Tensor) {
        feed.number(match tensor.container {
            Container::Tensor => 0,
            Container::Sequence => 1,
            Container::Optional => 2,
            Container::OptionalSequence => 3,
            Container::Other => 4,
        });
        feed.number(u64::from(tensor.typed) | u64::from(tensor.upper_bound) << 1);
        if tensor.typed {
            self.ty(feed, &tensor.ty);
        }
        match &tensor.encoding {
            Some(encoding) => self::encoding(feed, encoding),
            None => feed.text("plain"),
        }
    }

    fn ty(&self, feed: &mut Feed, ty: &TensorType) {
        feed.number(ty.dtype.code().into());
        let Some(shape) = &ty.shape else {
            feed.text("unranked");
            return;
        };
        feed.number(shape.len() as u64);
        for dim in shape {
            match dim {
                Dim::Known(size) => {
                    feed.number(0);
                    feed.number(*size as u64);
                }
                Dim::Symbol(name) => match self.symbols.get(name) {
                    Some(index) => {
                        feed.number(1);
                        feed.number(*index as u64);
                    }
                    None => {
                        feed.number(2);
                        feed.text(name);
                    }
                },
                Dim::Unknown => feed.number(3),
            }
        }
    }
}

fn encoding(feed: &mut Feed, encoding: &Encoding) {
    feed.text("encoding");
    let (kind, axis, block) = match encoding.axis {
        EncodingAxis::PerTensor => (0, 0, 0),
        EncodingAxis::PerAxis(axis) => (1, axis, 0),
        EncodingAxis::PerBlock { axis, block } => (2, axis, block),
        EncodingAxis::Blocks(layout) => (3, 0, layout.code() as usize),
    };
    feed.number(kind);
    feed.number(axis as u64);
    feed.number(block as u64);
    feed.number(encoding.real.code().into());
    feed.number(encoding.scales.len() as u64);
    for scale in &*encoding.scales {
        feed.number(scale.to_bits().into());
    }
    feed.number(encoding.zero_points.len() as u64);
    for zero in &*encoding.zero_points {
        feed.number(zero.cast_unsigned().into());
    }
}

fn attributes(feed: &mut Feed, attributes: &Attributes) {
    feed.number(attributes.len() as u64);
    for (key, value) in attributes.iter() {
        feed.text(key.name());
        match value {
            AttrValue::Int(value) => {
                feed.number(1);
                feed.number(value.cast_unsigned());
            }
            AttrValue::Float(value) => {
                feed.number(2);
                feed.number(value.to_bits().into());
            }
            AttrValue::String(value) => {
                feed.number(3);
                feed.text(value);
            }
            AttrValue::Ints(values) => {
                feed.number(4);
                feed.number(values.len() as u64);
                values.iter().for_each(|value| feed.number(value.cast_unsigned()));
            }
            AttrValue::Floats(values) => {
                feed.number(5);
                feed.number(values.len() as u64);
                values
                    .iter()
                    .for_each(|value| feed.number(value.to_bits().into()));
            }
            AttrValue::Strings(values) => {
                feed.number(6);
                feed.number(values.len() as u64);
                values.iter().for_each(|value| feed.text(value));
            }
            AttrValue::Tensor(value) => {
                feed.number(7);
                feed.number(value.dtype.code().into());
                feed.number(value.shape.len() as u64);
                value.shape.iter().for_each(|&size| feed.number(size as u64));
                feed.bytes(&value.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests;
