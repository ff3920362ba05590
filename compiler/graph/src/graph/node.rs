//! One operation of a graph, and the graphs that it runs as its bodies (If, Loop, Scan).
//!
//! Invariants:
//! 1. `op` is `Custom` exactly where `domain` is not the default one or the op is not in the list.
//! 2. An input or output that is left out is `None`; trailing ones are not stored.
//! 3. A body reads outer tensors through its captures only.
//! 4. The inner tensors of the captures are the last inputs of the body graph, in the same order;
//!    the inputs before them are those that the op itself passes.
//!
//! Not here: edges seen from a tensor (`Graph::producer`, `Graph::consumers`).

use std::sync::Arc;

use polychip_ops::operator::OperatorAttributes;
use polychip_ops::{Attr, Attributes, InferError, Op, Operator};

use crate::{Graph, TensorId};

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
