//! One node on its way from its own opset to opset 28, and what conversions do to it.
//!
//! Invariant: what a conversion adds stands before the node and is named after its first output.
//! Not here: which op changed in which version (`convert`, and the files beside this one).

use polychip_ops::{AttrKey, AttrValue, Attributes, DType, Literal, Op, TensorType};

use crate::describe::describe;
use crate::onnx::target::Target;
use crate::{Error, Node, TensorId};

/// One node on its way.
pub(super) struct Rewrite<'t, 'g> {
    pub(super) target: &'t mut Target<'g>,
    pub(super) node: Node,
    pub(super) version: i64,
}

impl Rewrite<'_, '_> {
    /// A name for a tensor that the conversion makes.
    pub(super) fn name(&self, role: &str) -> String {
        let output = self.node.writes().next();
        let output = output.map_or(self.node.name.as_str(), |id| {
            self.target.graph.tensor(id).name.as_str()
        });
        format!("{output}.{role}")
    }

    /// Whether an input is known to have no elements.
    pub(super) fn is_empty(&self, slot: usize) -> bool {
        self.input_ty(slot).is_some_and(|ty| ty.elements() == Some(0))
    }

    pub(super) fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!(
            "node {}: {what} is not supported",
            describe(self.target.graph, &self.node)
        ))
    }

    pub(super) fn malformed(&self, why: &str) -> Error {
        Error::malformed(format!("node {}: {why}", describe(self.target.graph, &self.node)))
    }

    pub(super) fn rename(&mut self, op: Op) {
        self.node.op = op;
        self.node.op_name = op.name().into();
    }

    /// Takes an attribute out; old ones need not be in the list of opset 28.
    pub(super) fn take(&mut self, attr: &str) -> Option<AttrValue> {
        self.node.attributes.remove(&AttrKey::from_name(attr))
    }

    pub(super) fn constant(&mut self, role: &str, literal: &Literal) -> TensorId {
        let name = self.name(role);
        self.target.constant(name, literal)
    }

    /// Puts a tensor into an input slot.
    pub(super) fn set_input(&mut self, slot: usize, tensor: TensorId) {
        if self.node.inputs.len() <= slot {
            self.node.inputs.resize(slot + 1, None);
        }
        self.node.inputs[slot] = Some(tensor);
    }

    /// Moves a list of integers from an attribute to an input.
    pub(super) fn ints_to_input(&mut self, attr: &str, slot: usize) {
        if let Some(AttrValue::Ints(values)) = self.take(attr) {
            let tensor = self.constant(attr, &Literal::i64s(&values));
            self.set_input(slot, tensor);
        }
    }

    /// The type of an input, if it is known.
    pub(super) fn input_ty(&self, slot: usize) -> Option<&TensorType> {
        self.target.ty(self.node.input(slot)?)
    }

    /// Whether the sizes of an input are upper bounds.
    pub(super) fn has_bound(&self, slot: usize) -> bool {
        self.node
            .input(slot)
            .is_some_and(|input| self.target.graph.tensor(input).upper_bound)
    }

    /// An input that has to be there.
    pub(super) fn input(&self, slot: usize) -> Result<TensorId, Error> {
        self.node
            .input(slot)
            .ok_or_else(|| self.malformed(&format!("input {slot} is missing")))
    }

    /// A float scalar of the element type of a tensor; by CastLike where that is not known.
    pub(super) fn scalar_like(&mut self, role: &str, value: f32, like: TensorId) -> Result<TensorId, Error> {
        let dtype = self.target.ty(like).map(|ty| ty.dtype);
        let bytes: Vec<u8> = match dtype {
            Some(DType::F16) => half::f16::from_f32(value).to_le_bytes().to_vec(),
            Some(DType::BF16) => half::bf16::from_f32(value).to_le_bytes().to_vec(),
            Some(DType::F64) => f64::from(value).to_le_bytes().to_vec(),
            Some(DType::F32) => value.to_le_bytes().to_vec(),
            _ => {
                let wide = self.constant(role, &Literal::scalar_f32(value));
                return self.step(Op::CastLike, &[wide, like], role, Attributes::new());
            }
        };
        let dtype = dtype.expect("invariant: matched above");
        let literal = Literal::new(dtype, Vec::new(), bytes).expect("invariant: one element");
        Ok(self.constant(role, &literal))
    }

    /// Adds a node with one output before this one.
    pub(super) fn step(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        role: &str,
        attributes: Attributes,
    ) -> Result<TensorId, Error> {
        let name = self.name(role);
        let output = self.target.fresh(name.clone());
        self.emit(op, inputs, output, &name, attributes)?;
        Ok(output)
    }

    /// Adds a node that makes `output`.
    pub(super) fn emit(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        output: TensorId,
        name: &str,
        attributes: Attributes,
    ) -> Result<(), Error> {
        let inputs = inputs.iter().copied().map(Some).collect();
        self.target.add(
            Node::new(op, inputs, vec![Some(output)])
                .named(name)
                .with(attributes),
        )?;
        Ok(())
    }
}
