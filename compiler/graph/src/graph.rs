//! A graph: nodes, the tensors between them, the graphs that nodes run as their bodies (If, Loop, Scan), and the
//! edits that passes make. Graphs, nodes and bodies hold each other, so they are in one file.
//!
//! Invariants:
//! 1. Every tensor has at most one producer; `producer` and `consumers` follow each edit.
//! 2. An id names the same item until [`Graph::sort`], which numbers the items anew.
//! 3. After `sort` the nodes are in canonical order: depth first from the outputs, inputs left to
//!    right, then captures, so that a node comes right before its first use. Nodes that no output
//!    needs come last. Except for these, the order does not depend on the order of insertion.
//! 4. `Node::op` is `Custom` exactly where the domain is not the default one or the op is not in the list.
//! 5. An input or output that is left out is `None`; trailing ones are not stored.
//! 6. A body reads outer tensors through its captures only. Their inner tensors are the last inputs of the body graph,
//!    in the same order; the inputs before them are those that the op itself passes.
//!
//! Not here: rules of well-formed graphs (`verify`), types (`infer`).

use std::sync::Arc;

use polychip_ops::operator::OperatorAttributes;
use polychip_ops::{Attr, Attributes, InferError, Op, Operator};
use smallvec::SmallVec;

use crate::{Group, NodeId, Tensor, TensorId};

pub(crate) mod order;

/// A graph input and output that share memory across runs, such as a KV cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct State {
    /// The graph input read at the start of a run.
    pub input: TensorId,
    /// The graph output that holds the new value.
    pub output: TensorId,
}

/// Most tensors have few readers: these need no allocation.
type Consumers = SmallVec<[NodeId; 4]>;

/// Nodes and the tensors between them.
///
/// ```
/// use polychip_graph::{Graph, Node, Tensor};
/// use polychip_ops::{DType, Op, TensorType};
///
/// let mut graph = Graph::new("negate");
/// let x = graph.add_tensor(Tensor::new("x", TensorType::known(DType::F32, &[2])));
/// let y = graph.add_tensor(Tensor::new("y", TensorType::known(DType::F32, &[2])));
/// let node = graph.add_node(Node::new(Op::Neg, vec![Some(x)], vec![Some(y)]));
/// graph.inputs.push(x);
/// graph.outputs.push(y);
/// assert_eq!(graph.producer(y), Some(node));
/// assert_eq!(graph.consumers(x), [node]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name in the model, for messages only.
    pub name: String,
    /// Input tensors, in port order.
    pub inputs: Vec<TensorId>,
    /// Output tensors, in port order.
    pub outputs: Vec<TensorId>,
    /// Fusion groups.
    pub groups: Vec<Group>,
    /// In-out pairs.
    pub states: Vec<State>,
    /// Files that hold constants: the model itself first, as `""`, then external data by its location. Empty in body
    /// graphs, whose constants refer to the outermost graph's files.
    pub files: Vec<String>,
    /// Inputs of the model that are constants here, because it has a default for them: name and declared type, in port order.
    pub defaults: Vec<Tensor>,
    /// What the importer has to tell about the model although it could read it.
    pub warnings: Vec<String>,
    nodes: Vec<Option<Node>>,
    tensors: Vec<Tensor>,
    producers: Vec<Option<NodeId>>,
    /// Ascending, one entry per node.
    consumers: Vec<Consumers>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph {
            name: name.into(),
            ..Graph::default()
        }
    }

    /// The nodes in order of their ids. After `sort`, this is an order of execution.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + Clone {
        let live = |(index, node): (usize, &'_ Option<Node>)| node.is_some().then(|| NodeId::new(index));
        self.nodes
            .iter()
            .enumerate()
            .filter_map(live)
            .map(|id| (id, self.node(id)))
    }

    /// The ids of the nodes, collected so that a loop can edit the graph.
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.nodes().map(|(id, _)| id).collect()
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.iter().flatten().count()
    }

    /// One more than the highest node index that was ever used: the length of arrays indexed by node.
    pub fn node_bound(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node with this id.
    ///
    /// # Panics
    /// If the node was removed, or the id is not from this graph.
    pub fn node(&self, id: NodeId) -> &Node {
        self.find_node(id)
            .expect("invariant: the id names a node of this graph")
    }

    /// Returns the node with this id, or `None` if it was removed.
    pub fn find_node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// The tensors in order of their ids.
    pub fn tensors(
        &self,
    ) -> impl DoubleEndedIterator<Item = (TensorId, &Tensor)> + ExactSizeIterator + Clone {
        self.tensors
            .iter()
            .enumerate()
            .map(|(index, tensor)| (TensorId::new(index), tensor))
    }

    /// Number of tensors: the length of arrays indexed by tensor.
    pub fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// Returns the tensor with this id.
    ///
    /// # Panics
    /// If the id is not from this graph.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// The node in messages: its name and op, or its op and first output if it has no name.
    pub fn describe(&self, node: &Node) -> String {
        if !node.name.is_empty() {
            return format!("\"{}\" ({})", node.name, node.label());
        }
        let output = node
            .writes()
            .next()
            .map_or("", |tensor| self.tensor(tensor).name.as_str());
        format!("{} of \"{output}\"", node.label())
    }

    /// Returns the tensor with this id for changes. Producers and consumers stay as they are.
    ///
    /// # Panics
    /// If the id is not from this graph.
    pub fn tensor_mut(&mut self, id: TensorId) -> &mut Tensor {
        &mut self.tensors[id.index()]
    }

    /// The node that writes a tensor; `None` for graph inputs and constants.
    pub fn producer(&self, id: TensorId) -> Option<NodeId> {
        self.producers[id.index()]
    }

    /// The nodes that read a tensor through an input or a capture, in ascending order, each once.
    pub fn consumers(&self, id: TensorId) -> &[NodeId] {
        &self.consumers[id.index()]
    }

    /// Whether the tensor is an output of the graph.
    pub fn is_output(&self, id: TensorId) -> bool {
        self.outputs.contains(&id)
    }

    /// Whether the tensor is an input of the graph.
    pub fn is_input(&self, id: TensorId) -> bool {
        self.inputs.contains(&id)
    }

    /// The only node that reads a tensor; `None` if several do, or the tensor is a graph output.
    pub fn only_consumer(&self, id: TensorId) -> Option<NodeId> {
        match self.consumers(id) {
            &[node] if !self.is_output(id) => Some(node),
            _ => None,
        }
    }

    /// The input of this name.
    pub fn input_named(&self, name: &str) -> Option<TensorId> {
        self.inputs
            .iter()
            .copied()
            .find(|&id| self.tensor(id).name == name)
    }

    /// The output of this name.
    pub fn output_named(&self, name: &str) -> Option<TensorId> {
        self.outputs
            .iter()
            .copied()
            .find(|&id| self.tensor(id).name == name)
    }

    /// Bytes of constant data, bodies included.
    pub fn constant_bytes(&self) -> u64 {
        let own = self
            .tensors
            .iter()
            .filter_map(|tensor| tensor.data.as_ref())
            .map(|data| data.bytes.len() as u64);
        let bodies = self
            .nodes
            .iter()
            .flatten()
            .flat_map(|node| &node.bodies)
            .map(|body| body.graph.constant_bytes());
        own.chain(bodies).sum()
    }

    /// Adds a tensor.
    pub fn add_tensor(&mut self, tensor: Tensor) -> TensorId {
        let id = TensorId::new(self.tensors.len());
        self.tensors.push(tensor);
        self.producers.push(None);
        self.consumers.push(Consumers::new());
        id
    }

    /// Appends a node.
    ///
    /// # Panics
    /// If the node names a tensor that is not in this graph, or writes one that has a producer.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        let id = NodeId::new(self.nodes.len());
        self.nodes.push(None);
        self.put(id, node);
        id
    }

    /// Removes a node. Its outputs then have no producer.
    ///
    /// # Panics
    /// If the node was removed before.
    pub fn remove_node(&mut self, id: NodeId) -> Node {
        let node = self.nodes[id.index()]
            .take()
            .expect("invariant: the id names a node of this graph");
        for tensor in node.reads() {
            self.consumers[tensor.index()].retain(|reader| *reader != id);
        }
        for tensor in node.writes() {
            self.producers[tensor.index()] = None;
        }
        for group in &mut self.groups {
            group.nodes.retain(|&member| member != id);
        }
        self.groups.retain(|group| !group.nodes.is_empty());
        node
    }

    /// Changes any part of a node in place. The node stays in its fusion group.
    ///
    /// # Panics
    /// As [`Graph::add_node`], and if the node was removed.
    pub fn edit_node<T>(&mut self, id: NodeId, edit: impl FnOnce(&mut Node) -> T) -> T {
        let groups = std::mem::take(&mut self.groups);
        let mut node = self.remove_node(id);
        let result = edit(&mut node);
        self.put(id, node);
        self.groups = groups;
        result
    }

    /// Changes attributes of a node.
    ///
    /// # Panics
    /// If the node was removed.
    pub fn attributes_mut(&mut self, id: NodeId) -> &mut polychip_ops::Attributes {
        &mut self.inner_mut(id).attributes
    }

    /// Makes every reader of `from` (nodes, captures, the graph's outputs and states) read `to`.
    pub fn replace_uses(&mut self, from: TensorId, to: TensorId) {
        for id in self.consumers(from).to_vec() {
            self.edit_node(id, |node| {
                for input in node.inputs.iter_mut().filter(|input| **input == Some(from)) {
                    *input = Some(to);
                }
                let captures = node.bodies.iter_mut().flat_map(|body| &mut body.captures);
                for capture in captures.filter(|capture| capture.outer == from) {
                    capture.outer = to;
                }
            });
        }
        for output in self.outputs.iter_mut().filter(|output| **output == from) {
            *output = to;
        }
        for state in self.states.iter_mut().filter(|state| state.output == from) {
            state.output = to;
        }
    }

    /// Removes all nodes that no output needs, directly or through others, and returns their number.
    /// Unused tensors go at the next `sort`. Unwanted outputs of live nodes become `None`.
    pub fn remove_dead(&mut self) -> usize {
        let mut wanted = vec![false; self.tensors.len()];
        for output in &self.outputs {
            wanted[output.index()] = true;
        }
        let mut queue: Vec<NodeId> = self
            .outputs
            .iter()
            .filter_map(|&output| self.producer(output))
            .collect();
        let mut live = vec![false; self.nodes.len()];
        while let Some(id) = queue.pop() {
            if std::mem::replace(&mut live[id.index()], true) {
                continue;
            }
            let reads: Vec<TensorId> = self.node(id).reads().collect();
            for tensor in reads {
                wanted[tensor.index()] = true;
                queue.extend(self.producer(tensor));
            }
        }
        let mut removed = 0;
        for id in self.node_ids() {
            if !live[id.index()] {
                self.remove_node(id);
                removed += 1;
            } else if self.node(id).writes().any(|tensor| !wanted[tensor.index()]) {
                self.edit_node(id, |node| {
                    // what a Split gives depends on how many outputs it has; others must have some: the last one that a
                    // node needs stays, wanted or not
                    let least = match node.op {
                        Op::Split => node.outputs.len(),
                        op => op.spec().output_arity().0,
                    };
                    for (place, output) in node.outputs.iter_mut().enumerate() {
                        *output = output.filter(|tensor| place + 1 == least || wanted[tensor.index()]);
                    }
                    while let Some(None) = node.outputs.last() {
                        node.outputs.pop();
                    }
                });
            }
        }
        removed
    }

    /// Makes room for so many nodes and tensors.
    fn reserve(&mut self, nodes: usize, tensors: usize) {
        self.nodes.reserve(nodes);
        self.tensors.reserve(tensors);
        self.producers.reserve(tensors);
        self.consumers.reserve(tensors);
    }

    /// A node for changes inside its bodies and its decomposition: what it reads and writes stays.
    ///
    /// # Panics
    /// If the node was removed.
    pub(crate) fn inner_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id.index()]
            .as_mut()
            .expect("invariant: the id names a node of this graph")
    }

    fn put(&mut self, id: NodeId, node: Node) {
        for tensor in node.reads() {
            let readers = &mut self.consumers[tensor.index()];
            if let Err(place) = readers.binary_search(&id) {
                readers.insert(place, id);
            }
        }
        for tensor in node.writes() {
            let before = self.producers[tensor.index()].replace(id);
            assert!(before.is_none(), "invariant: tensor {tensor} has one producer");
        }
        self.nodes[id.index()] = Some(node);
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Node {
    /// The op, or `Custom`.
    pub op: Op,
    /// Domain of the op; empty for the ONNX default.
    pub domain: Arc<str>,
    /// The ONNX op type, of a custom op too.
    pub op_name: Arc<str>,
    /// Name in the model; may be empty; never decides anything.
    pub name: String,
    /// What it reads.
    pub inputs: Vec<Option<TensorId>>,
    /// What it gives.
    pub outputs: Vec<Option<TensorId>>,
    /// Attributes, without those that held body graphs.
    pub attributes: Attributes,
    /// Body graphs of If (then, else), Loop and Scan.
    pub bodies: Vec<Body>,
    /// The primitive ops that this node was recomposed from; its inputs and outputs are those of
    /// the node that are present, in order.
    pub decomposition: Option<Box<Graph>>,
}

impl Node {
    /// A node of a listed op, without name, attributes and bodies.
    pub fn new(op: Op, inputs: Vec<Option<TensorId>>, outputs: Vec<Option<TensorId>>) -> Node {
        Node {
            op,
            domain: Arc::from(""),
            op_name: Arc::from(op.name()),
            name: String::new(),
            inputs,
            outputs,
            attributes: Attributes::new(),
            bodies: Vec::new(),
            decomposition: None,
        }
    }

    /// A node of an op outside the list.
    pub fn custom(
        domain: &str,
        op_name: &str,
        inputs: Vec<Option<TensorId>>,
        outputs: Vec<Option<TensorId>>,
    ) -> Node {
        Node {
            domain: Arc::from(domain),
            op_name: Arc::from(op_name),
            ..Node::new(Op::Custom, inputs, outputs)
        }
    }

    /// The same node with a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Node {
        self.name = name.into();
        self
    }

    /// The same node with these attributes.
    #[must_use]
    pub fn with(mut self, attributes: Attributes) -> Node {
        self.attributes = attributes;
        self
    }

    /// The op with its typed attributes, what is left out by the defaults of the op table.
    ///
    /// # Errors
    /// Where the attributes do not fit the op, as a word that ONNX does not have.
    pub fn operator(&self) -> Result<Operator, InferError> {
        Operator::decode(self.op, &self.attributes)
    }

    /// The typed attributes, where the op is known to have these.
    ///
    /// # Errors
    /// As [`Node::operator`], and where the op has others.
    pub fn typed<T: OperatorAttributes>(&self) -> Result<T, InferError> {
        Operator::attributes(self.op, &self.attributes)
    }

    /// Input `index`, if it is there.
    pub fn input(&self, index: usize) -> Option<TensorId> {
        self.inputs.get(index).copied().flatten()
    }

    /// Output `index`, if it is wanted.
    pub fn output(&self, index: usize) -> Option<TensorId> {
        self.outputs.get(index).copied().flatten()
    }

    /// Every tensor that the node reads: inputs in order, then captures of its bodies.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        let captures = self
            .bodies
            .iter()
            .flat_map(|body| body.captures.iter().map(|c| c.outer));
        self.inputs.iter().copied().flatten().chain(captures)
    }

    /// Every tensor that the node gives, in order.
    pub fn writes(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.outputs.iter().copied().flatten()
    }

    /// The op as messages name it: `Conv`, or `domain.Name` of a custom op.
    pub fn label(&self) -> String {
        if self.domain.is_empty() {
            self.op_name.to_string()
        } else {
            format!("{}.{}", self.domain, self.op_name)
        }
    }
}

/// A graph that a node runs as part of its work.
#[derive(Clone, Debug)]
pub struct Body {
    /// The attribute that held it: `body`, `then_branch`, `else_branch`.
    pub attr: Attr,
    /// The graph.
    pub graph: Graph,
    /// Outer tensors that the graph reads.
    pub captures: Vec<Capture>,
}

impl Body {
    /// The inputs that the op passes, without the captures.
    pub fn formals(&self) -> &[TensorId] {
        let count = self.graph.inputs.len().saturating_sub(self.captures.len());
        &self.graph.inputs[..count]
    }
}

/// One outer tensor that a body reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The tensor of the graph that holds the node.
    pub outer: TensorId,
    /// The body graph's input that represents it.
    pub inner: TensorId,
}

#[cfg(test)]
mod tests;
