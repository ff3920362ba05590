//! Graphs of a node that are no bodies: they stand in the graph around them, as FlexAttention's modifiers do.
//!
//! Invariant: a name that such a graph defines is its own; every other name is that of the graph around it.

use std::collections::BTreeMap;

use super::{Importer, Scope, shortened};
use crate::onnx::attribute::Read;
use crate::onnx::convert::flex;
use crate::onnx::messages;
use crate::onnx::{types, weights};
use crate::{Error, Node, TensorId};

impl Importer<'_> {
    /// Adds FlexAttention, its modifiers between its pieces.
    pub(super) fn flex(
        &mut self,
        message: &messages::Node,
        read: Read<'_>,
        inputs: Vec<Option<TensorId>>,
        what: &str,
    ) -> Result<(), Error> {
        let outputs = self.outputs(message)?;
        let mut node = Node::custom("ai.onnx.preview", &message.op_type, inputs, outputs);
        node.name = self.prefixed(&message.name);
        node.attributes = read.values;
        let modifier = |name: &str| {
            let found = read.graphs.iter().find(|(attribute, _)| attribute == name);
            found.map(|(_, graph)| *graph)
        };
        if read.graphs.is_empty() {
            return flex::plain(&mut self.target(), &node);
        }
        let mut scores = flex::scores(&mut self.target(), &node)?;
        if let Some(graph) = modifier("score_mod") {
            scores = self.inline(graph, scores, &format!("{what}, score_mod"))?;
        }
        let mut probabilities = flex::probabilities(&mut self.target(), &node, scores)?;
        if let Some(graph) = modifier("prob_mod") {
            probabilities = self.inline(graph, probabilities, &format!("{what}, prob_mod"))?;
        }
        flex::values(&mut self.target(), &node, probabilities)
    }

    /// Adds the nodes of a graph with one input and one output; what comes out of it.
    fn inline(&mut self, graph: &messages::Graph, x: TensorId, what: &str) -> Result<TensorId, Error> {
        let ([input], [output]) = (&graph.input[..], &graph.output[..]) else {
            return Err(Error::malformed(format!(
                "{what}: the graph has {} inputs and {} outputs instead of 1 and 1",
                graph.input.len(),
                graph.output.len()
            )));
        };
        let outer = self.level().scope();
        let mut names = outer.names.clone();
        for tensor in &graph.initializer {
            names.remove(&tensor.name);
        }
        for name in graph.node.iter().flat_map(|node| &node.output) {
            names.remove(name);
        }
        names.insert(input.name.clone(), Some(x));
        let scope = Scope {
            names,
            declared: BTreeMap::new(),
            opsets: outer.opsets.clone(),
            bindings: outer.bindings.clone(),
            open: outer.open,
            prefix: shortened(format!("{}{}/", outer.prefix, graph.name)),
        };
        self.level().scopes.push(scope);
        for info in &graph.value_info {
            let declared = self.weakened(types::declared(info)?);
            self.level().scope().declared.insert(info.name.clone(), declared);
        }
        for tensor in &graph.initializer {
            let (ty, data) = weights::constant(tensor, &mut self.files)?;
            self.constant(&tensor.name, ty, data)?;
        }
        self.run(&graph.node)?;
        let made = self.lookup(&output.name).flatten();
        self.level().scopes.pop();
        made.ok_or_else(|| {
            Error::malformed(format!(
                "{what}: the output \"{}\" is made by no node",
                output.name
            ))
        })
    }
}
