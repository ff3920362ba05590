//! Small graphs, written node by node.

use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op, TensorType};

use crate::{Constant, Graph, Node, Tensor, TensorId, infer};

/// A graph in the making.
pub(super) struct Build {
    pub(super) graph: Graph,
    next: usize,
}

/// A list of attributes.
pub(super) fn with(attributes: &[(Attr, AttrValue)]) -> Attributes {
    attributes.iter().fold(Attributes::new(), |all, (attr, value)| {
        all.with(*attr, value.clone())
    })
}

pub(super) fn ints(values: &[i64]) -> AttrValue {
    AttrValue::Ints(values.to_vec())
}

impl Build {
    pub(super) fn new() -> Build {
        Build {
            graph: Graph::new("test"),
            next: 0,
        }
    }

    pub(super) fn input(&mut self, name: &str, shape: &[usize]) -> TensorId {
        self.typed_input(name, DType::F32, shape)
    }

    pub(super) fn typed_input(&mut self, name: &str, dtype: DType, shape: &[usize]) -> TensorId {
        let id = self
            .graph
            .add_tensor(Tensor::new(name, TensorType::known(dtype, shape)));
        self.graph.inputs.push(id);
        id
    }

    pub(super) fn literal(&mut self, name: &str, literal: &Literal) -> TensorId {
        let tensor = Tensor::constant(name, literal.ty(), Constant::from_literal(literal));
        self.graph.add_tensor(tensor)
    }

    pub(super) fn number(&mut self, value: f32) -> TensorId {
        self.literal(&format!("{value}"), &Literal::scalar_f32(value))
    }

    pub(super) fn list(&mut self, values: &[i64]) -> TensorId {
        self.literal(&format!("{values:?}"), &Literal::i64s(values))
    }

    /// A constant whose elements are small, different and of both signs.
    pub(super) fn weights(&mut self, name: &str, shape: &[usize]) -> TensorId {
        let count: usize = shape.iter().product();
        let start: usize = name.bytes().map(usize::from).sum();
        let values: Vec<f32> = (start..start + count)
            .map(|i| ((i * 37 + 11) % 29) as f32 / 17.0 - 0.8)
            .collect();
        let literal = Literal {
            shape: shape.to_vec(),
            ..Literal::f32s(&values)
        };
        self.literal(name, &literal)
    }

    /// A constant of positive elements.
    pub(super) fn positive(&mut self, name: &str, count: usize) -> TensorId {
        let values: Vec<f32> = (0..count)
            .map(|i| 0.5 + ((i * 13 + 3) % 7) as f32 / 4.0)
            .collect();
        self.literal(name, &Literal::f32s(&values))
    }

    pub(super) fn op(&mut self, op: Op, inputs: &[TensorId]) -> TensorId {
        self.op_with(op, inputs, &[])
    }

    pub(super) fn op_with(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        attributes: &[(Attr, AttrValue)],
    ) -> TensorId {
        self.ops(op, inputs, attributes, 1)[0]
    }

    pub(super) fn ops(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        attributes: &[(Attr, AttrValue)],
        outputs: usize,
    ) -> Vec<TensorId> {
        let mut made = Vec::new();
        for _ in 0..outputs {
            made.push(self.graph.add_tensor(Tensor::untyped(format!("t{}", self.next))));
            self.next += 1;
        }
        let inputs = inputs.iter().copied().map(Some).collect();
        let node = Node::new(op, inputs, made.iter().copied().map(Some).collect()).with(with(attributes));
        self.graph.add_node(node);
        made
    }

    /// Gives these tensors back as `y0`, `y1`, … and infers all types.
    pub(super) fn finish(mut self, outputs: &[TensorId]) -> Graph {
        for (index, &output) in outputs.iter().enumerate() {
            if !self.graph.is_input(output) {
                self.graph.tensor_mut(output).name = format!("y{index}");
            }
            self.graph.outputs.push(output);
        }
        infer(&mut self.graph).unwrap();
        self.graph.sort().unwrap();
        self.graph
    }
}
