//! A part as this plugin reads it: the front end's, and the graphs inside its nodes ready for the reference evaluator.
//!
//! Not here: what to do with the nodes (`lower`).

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_ops::DType;
use polychip_reference::Program;
use polychip_sdk::{Error, GraphView, Result};

pub(crate) use polychip_lowering::{Node, Part, Tensor, TensorIndex};
pub(crate) use polychip_sdk::{Encoding, EncodingKind};

/// The graphs inside the nodes of a part; by node, of those that have one.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    of_nodes: BTreeMap<u32, Inner>,
}

/// The graphs inside a node.
#[derive(Debug, Default)]
struct Inner {
    /// Each body, or why it cannot be computed.
    bodies: Vec<Result<Arc<Program>, String>>,
    /// The primitive ops that it was recomposed from, where they can be computed.
    decomposition: Option<Arc<Program>>,
}

impl Programs {
    /// The bodies of a node, in the order of [`Node::bodies`]; of each the program, or why it cannot be computed.
    pub(crate) fn bodies(&self, node: &Node) -> &[Result<Arc<Program>, String>] {
        let inner = self.of_nodes.get(&node.index);
        inner.map_or(&[], |inner| &inner.bodies)
    }

    /// The primitive ops that a node was recomposed from, where they can be computed.
    pub(crate) fn decomposition(&self, node: &Node) -> Option<&Arc<Program>> {
        self.of_nodes.get(&node.index)?.decomposition.as_ref()
    }
}

/// The part that a view shows, and the graphs inside its nodes.
///
/// # Errors
/// Where a body hangs on an attribute that this build does not know.
pub(crate) fn read(graph: &GraphView<'_>) -> Result<(Part, Programs)> {
    // kernels pack constants of f32 only: what is filled with another type is computed like any other node's result
    let part = Part::of(graph, |dtype| dtype == DType::F32);
    let mut programs = Programs::default();
    for view in graph.nodes() {
        let mut inner = Inner {
            bodies: Vec::new(),
            decomposition: view
                .decomposition()
                .and_then(|graph| Program::new(&graph).ok())
                .map(Arc::new),
        };
        for body in view.bodies() {
            if body.attr.is_none() {
                let error = Error::unsupported("a body graph under an unknown attribute");
                return Err(error.at_node(view.index()));
            }
            let program = Program::new(&body.graph);
            inner
                .bodies
                .push(program.map(Arc::new).map_err(|error| error.to_string()));
        }
        if !inner.bodies.is_empty() || inner.decomposition.is_some() {
            programs.of_nodes.insert(view.index(), inner);
        }
    }
    Ok((part, programs))
}
