//! The canonical order of a graph, and the renumbering that makes ids dense in it.
//!
//! Invariants:
//! 1. A node stands behind the producers of all it reads.
//! 2. Tensors are numbered by first mention: graph inputs, then node by node reads and outputs, then
//!    graph outputs.

use crate::{Error, Graph, Group, Node, NodeId, State, TensorId};

/// What became of the old ids.
#[derive(Clone, Debug)]
pub struct Renumbering {
    nodes: Vec<Option<NodeId>>,
    tensors: Vec<Option<TensorId>>,
}

impl Renumbering {
    /// The new id of a node; `None` if it was removed.
    pub fn node(&self, old: NodeId) -> Option<NodeId> {
        self.nodes.get(old.index()).copied().flatten()
    }

    /// The new id of a tensor; `None` if nothing mentioned it.
    pub fn tensor(&self, old: TensorId) -> Option<TensorId> {
        self.tensors.get(old.index()).copied().flatten()
    }
}

impl Graph {
    /// Brings the graph, its bodies and decompositions into canonical order, drops removed items and unreferenced
    /// tensors, and numbers the rest anew.
    ///
    /// # Errors
    /// If nodes depend on each other in a circle.
    pub fn sort(&mut self) -> Result<Renumbering, Error> {
        let order = order(self)?;
        for &id in &order {
            let node = self.node(id);
            if !node.bodies.is_empty() || node.decomposition.is_some() {
                sort_inner(self.inner_mut(id))?;
            }
        }
        if is_sorted(self, &order) {
            return Ok(Renumbering {
                nodes: order.into_iter().map(Some).collect(),
                tensors: (0..self.tensors.len())
                    .map(|id| Some(TensorId::new(id)))
                    .collect(),
            });
        }
        Ok(renumber(self, &order))
    }
}

/// Whether nodes, tensors and groups have the numbers that [`renumber`] would give them.
fn is_sorted(graph: &Graph, order: &[NodeId]) -> bool {
    let mut mentioned = 0;
    let mut is_next = |id: TensorId| {
        mentioned += usize::from(id.index() == mentioned);
        id.index() < mentioned
    };
    let mut nodes = order.iter().enumerate();
    let states = || graph.states.iter().flat_map(|state| [state.input, state.output]);
    let tensors = order.len() == graph.nodes.len()
        && graph.inputs.iter().copied().all(&mut is_next)
        && nodes.all(|(place, id)| {
            let node = graph.node(*id);
            let captures = node.bodies.iter().flat_map(|body| &body.captures);
            let captures = captures.map(|capture| capture.outer);
            let (inputs, outputs) = (node.inputs.iter().flatten(), node.outputs.iter().flatten());
            let mut tensors = inputs.copied().chain(captures).chain(outputs.copied());
            id.index() == place && tensors.all(&mut is_next)
        })
        && graph.outputs.iter().copied().chain(states()).all(&mut is_next);
    let groups = &graph.groups;
    tensors
        && mentioned == graph.tensors.len()
        && groups.is_sorted_by(|a, b| a.nodes <= b.nodes)
        && groups
            .iter()
            .all(|group| !group.nodes.is_empty() && group.nodes.is_sorted())
}

fn sort_inner(node: &mut Node) -> Result<(), Error> {
    for body in &mut node.bodies {
        let renumbering = body.graph.sort()?;
        for capture in &mut body.captures {
            capture.inner = renumbering
                .tensor(capture.inner)
                .ok_or_else(|| Error::invalid("a captured tensor is no input of its body"))?;
        }
    }
    if let Some(graph) = &mut node.decomposition {
        graph.sort()?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Open,
    Done,
}

/// The nodes in canonical order, or by id if the graph has a cycle.
pub(crate) fn execution_order(graph: &Graph) -> Vec<NodeId> {
    order(graph).unwrap_or_else(|_| graph.node_ids())
}

/// Depth-first post-order from the outputs; then the nodes that no output needs. Not petgraph's: fingerprints pin this
/// order among all topological ones, and the error names the nodes of a cycle.
fn order(graph: &Graph) -> Result<Vec<NodeId>, Error> {
    let mut walk = Walk {
        graph,
        marks: vec![Mark::New; graph.node_bound()],
        order: Vec::with_capacity(graph.node_bound()),
        open: Vec::new(),
        pending: Vec::new(),
    };
    let from_outputs = graph.outputs.iter().filter_map(|&output| graph.producer(output));
    // nodes that no output needs: the ones without any reader pull their inputs along
    let ends = graph
        .nodes()
        .filter(|(_, node)| node.writes().all(|t| graph.consumers(t).is_empty()));
    let rest = graph.nodes().map(|(id, _)| id);
    for root in from_outputs.chain(ends.map(|(id, _)| id)).chain(rest) {
        walk.visit(root)?;
    }
    Ok(walk.order)
}

/// A depth-first walk.
struct Walk<'a> {
    graph: &'a Graph,
    marks: Vec<Mark>,
    order: Vec<NodeId>,
    /// Nodes on the way to the current one, each with where its sources begin among those that are pending.
    open: Vec<(NodeId, usize)>,
    /// Sources of open nodes, the next one last.
    pending: Vec<NodeId>,
}

impl Walk<'_> {
    fn visit(&mut self, root: NodeId) -> Result<(), Error> {
        if self.marks[root.index()] != Mark::New {
            return Ok(());
        }
        self.enter(root);
        while let Some(&(id, start)) = self.open.last() {
            let next = (self.pending.len() > start).then(|| self.pending.pop()).flatten();
            let Some(next) = next else {
                self.marks[id.index()] = Mark::Done;
                self.order.push(id);
                self.open.pop();
                continue;
            };
            match self.marks[next.index()] {
                Mark::Done => {}
                Mark::New => self.enter(next),
                Mark::Open => return Err(self.circle(next)),
            }
        }
        Ok(())
    }

    fn enter(&mut self, id: NodeId) {
        let graph = self.graph;
        self.marks[id.index()] = Mark::Open;
        let start = self.pending.len();
        self.open.push((id, start));
        let sources = graph.node(id).reads().filter_map(|t| graph.producer(t));
        self.pending.extend(sources);
        self.pending[start..].reverse();
    }

    fn circle(&self, first: NodeId) -> Error {
        let start = self.open.iter().position(|(id, _)| *id == first).unwrap_or(0);
        let names: Vec<String> = self.open[start..]
            .iter()
            .rev()
            .map(|(id, _)| describe(self.graph, *id))
            .collect();
        Error::cycle(format!(
            "nodes depend on each other in a circle: {}",
            names.join(" -> ")
        ))
    }
}

fn describe(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let name = if node.name.is_empty() {
        node.writes()
            .next()
            .map_or("", |tensor| graph.tensor(tensor).name.as_str())
    } else {
        node.name.as_str()
    };
    format!("{} \"{name}\"", node.label())
}

fn renumber(graph: &mut Graph, order: &[NodeId]) -> Renumbering {
    let mut old = std::mem::take(graph);
    let mut map = Renumbering {
        nodes: vec![None; old.nodes.len()],
        tensors: vec![None; old.tensors.len()],
    };
    graph.reserve(order.len(), old.tensors.len());
    graph.name = std::mem::take(&mut old.name);
    graph.files = std::mem::take(&mut old.files);
    graph.defaults = std::mem::take(&mut old.defaults);
    graph.warnings = std::mem::take(&mut old.warnings);
    let mut tensors: Vec<Option<crate::Tensor>> = old.tensors.into_iter().map(Some).collect();
    let mut take = |id: TensorId, graph: &mut Graph, map: &mut Renumbering| -> TensorId {
        *map.tensors[id.index()].get_or_insert_with(|| {
            graph.add_tensor(
                tensors[id.index()]
                    .take()
                    .expect("invariant: each tensor moves once"),
            )
        })
    };
    for &input in &old.inputs {
        let id = take(input, graph, &mut map);
        graph.inputs.push(id);
    }
    for &id in order {
        let mut node = old.nodes[id.index()]
            .take()
            .expect("invariant: each node moves once");
        for input in node.inputs.iter_mut().flatten() {
            *input = take(*input, graph, &mut map);
        }
        for capture in node.bodies.iter_mut().flat_map(|body| &mut body.captures) {
            capture.outer = take(capture.outer, graph, &mut map);
        }
        for output in node.outputs.iter_mut().flatten() {
            *output = take(*output, graph, &mut map);
        }
        map.nodes[id.index()] = Some(graph.add_node(node));
    }
    for &output in &old.outputs {
        let id = take(output, graph, &mut map);
        graph.outputs.push(id);
    }
    for state in &old.states {
        let state = State {
            input: take(state.input, graph, &mut map),
            output: take(state.output, graph, &mut map),
        };
        graph.states.push(state);
    }
    for group in old.groups {
        let mut nodes: Vec<NodeId> = group.nodes.iter().filter_map(|&node| map.node(node)).collect();
        nodes.sort_unstable();
        if !nodes.is_empty() {
            graph.groups.push(Group {
                kind: group.kind,
                nodes,
            });
        }
    }
    graph.groups.sort_by(|a, b| a.nodes.cmp(&b.nodes));
    map
}
