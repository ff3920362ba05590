//! A node of another domain than ONNX's own on its way to ops of ONNX: its inputs and attributes by name, and what is added.
//!
//! Invariant: attributes are read by their names in that domain; one of another kind counts as not there.
//! Not here: which ops there are (`contrib`, `ml`, `training`).

use polychip_ops::{AttrKey, AttrValue, Attributes, DType, Literal, Op};

use super::rewrite::Rewrite;
use crate::{Error, Node, TensorId};

/// A node of another domain on its way.
pub(super) struct Foreign<'t, 'g>(pub(super) Rewrite<'t, 'g>);

impl Foreign<'_, '_> {
    pub(super) fn input(&self, slot: usize) -> Option<TensorId> {
        self.0.node.input(slot)
    }

    /// Whether the node has no attributes but these.
    pub(super) fn has_only(&self, names: &[&str]) -> bool {
        self.0
            .node
            .attributes
            .iter()
            .all(|(key, _)| names.contains(&key.name()))
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.0.node.attributes.get_key(&AttrKey::from_name(name)) {
            Some(AttrValue::Int(value)) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn float(&self, name: &str) -> Option<f32> {
        match self.0.node.attributes.get_key(&AttrKey::from_name(name)) {
            Some(AttrValue::Float(value)) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.0.node.attributes.get_key(&AttrKey::from_name(name)) {
            Some(AttrValue::String(value)) => Some(value.to_string()),
            _ => None,
        }
    }

    pub(super) fn floats(&self, name: &str) -> Vec<f32> {
        match self.0.node.attributes.get_key(&AttrKey::from_name(name)) {
            Some(AttrValue::Floats(values)) => values.to_vec(),
            _ => Vec::new(),
        }
    }

    pub(super) fn rank(&self, tensor: TensorId) -> Option<usize> {
        self.0.target.ty(tensor)?.rank()
    }

    pub(super) fn step(&mut self, op: Op, inputs: &[TensorId], role: &str) -> Result<TensorId, Error> {
        self.0.step(op, inputs, role, Attributes::new())
    }

    /// Adds a node some of whose inputs may be left out.
    pub(super) fn node(
        &mut self,
        op: Op,
        inputs: Vec<Option<TensorId>>,
        role: &str,
        attributes: Attributes,
    ) -> Result<TensorId, Error> {
        let name = self.0.name(role);
        let output = self.0.target.fresh(name.clone());
        let node = Node::new(op, inputs, vec![Some(output)]);
        self.0.target.add(node.named(name).with(attributes))?;
        Ok(output)
    }

    /// Adds the last node, which gives the node's first output.
    pub(super) fn last(
        &mut self,
        op: Op,
        inputs: Vec<Option<TensorId>>,
        attributes: Attributes,
    ) -> Result<bool, Error> {
        let output = self.0.node.output(0);
        let name = self.0.node.name.clone();
        let node = Node::new(op, inputs, vec![output]);
        self.0.target.add(node.named(name).with(attributes))?;
        Ok(true)
    }

    /// Whether these inputs are there.
    pub(super) fn has(&self, slots: &[usize]) -> bool {
        slots.iter().all(|&slot| self.input(slot).is_some())
    }

    pub(super) fn scaled(&mut self, x: TensorId, factor: f32, role: &str) -> Result<TensorId, Error> {
        if factor == 1.0 {
            return Ok(x);
        }
        let factor = self.0.scalar_like(&format!("{role}.factor"), factor, x)?;
        self.step(Op::Mul, &[x, factor], role)
    }

    /// The attributes of these names.
    pub(super) fn kept(&self, names: &[&str]) -> Attributes {
        let mut kept = Attributes::new();
        for (key, value) in self.0.node.attributes.iter() {
            if names.contains(&key.name()) {
                kept.set(key.clone(), value.clone());
            }
        }
        kept
    }

    pub(super) fn ints(&self, name: &str) -> Vec<i64> {
        match self.0.node.attributes.get_key(&AttrKey::from_name(name)) {
            Some(AttrValue::Ints(values)) => values.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        match self.0.node.attributes.get_key(&AttrKey::from_name(name)) {
            Some(AttrValue::Strings(values)) => values.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn tensor(&self, name: &str) -> Option<Literal> {
        match self.0.node.attributes.get_key(&AttrKey::from_name(name)) {
            Some(AttrValue::Tensor(value)) => Some(value.clone()),
            _ => None,
        }
    }

    pub(super) fn dtype(&self, tensor: TensorId) -> Option<DType> {
        self.0.target.ty(tensor).map(|ty| ty.dtype)
    }
}
