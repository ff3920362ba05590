//! Ops of older opsets brought to opset 28, node by node, as the graph is built.
//!
//! Invariants:
//! 1. What comes out means in opset 28 what the node meant in its own opset.
//! 2. A change that no node of the model needs is not made: nodes of opset 28 pass as they are.
//! 3. A meaning that opset 28 cannot express is an error that names the node.
//!
//! Not here: opsets below 6 and the nodes' own validity (inference checks that).
//! To add one: a function in the file of its kind, and its line in [`convert`] with the version that
//! changed the op.

use polychip_ops::{AttrKey, AttrValue, Attributes, DType, Literal, Op, TensorType};

use super::build::Target;
use crate::infer::describe;
use crate::{Error, Node, TensorId};

mod axes;
mod legacy;
mod limits;
mod normal;
mod resize;
mod scan;
mod softmax;

/// Adds the node, and whatever else says in opset 28 what it said in `version`.
pub(super) fn convert(target: &mut Target<'_>, node: Node, version: i64) -> Result<(), Error> {
    let mut rewrite = Rewrite {
        target,
        node,
        version,
    };
    if version < 7 {
        legacy::six(&mut rewrite)?;
    }
    let done = match rewrite.node.op {
        Op::Softmax | Op::LogSoftmax | Op::Hardmax if version < 13 => softmax::flat(&mut rewrite)?,
        Op::BatchNormalization if version < 14 => normal::batch(&mut rewrite)?,
        Op::GroupNormalization if version < 21 => normal::group(&mut rewrite)?,
        Op::Dropout if version < 12 => normal::dropout(&mut rewrite)?,
        op => {
            match op {
                Op::Squeeze | Op::Unsqueeze | Op::ReduceSum if version < 13 => {
                    axes::attribute_to_input(&mut rewrite)
                }
                Op::ReduceL1
                | Op::ReduceL2
                | Op::ReduceLogSum
                | Op::ReduceLogSumExp
                | Op::ReduceMax
                | Op::ReduceMean
                | Op::ReduceMin
                | Op::ReduceProd
                | Op::ReduceSumSquare
                    if version < 18 =>
                {
                    axes::attribute_to_input(&mut rewrite);
                }
                Op::Split if version < 18 => axes::split(&mut rewrite),
                Op::Slice if version < 10 => axes::slice(&mut rewrite),
                Op::TopK if version < 10 => axes::top_k(&mut rewrite),
                Op::DFT if version < 20 => axes::dft(&mut rewrite),
                Op::Clip if version < 11 => limits::clip(&mut rewrite)?,
                Op::Pad if version < 11 => limits::pad(&mut rewrite)?,
                Op::Scan if version < 9 => scan::batched(&mut rewrite)?,
                Op::Upsample => resize::upsample(&mut rewrite)?,
                Op::Resize if version < 11 => resize::resize(&mut rewrite),
                Op::Resize => resize::tidy(&mut rewrite),
                Op::RoiAlign if version < 16 => resize::roi_align(&mut rewrite),
                Op::GridSample if version < 20 => resize::grid_sample(&mut rewrite),
                Op::Scatter => rewrite.rename(Op::ScatterElements),
                _ => {}
            }
            false
        }
    };
    if !done {
        rewrite.target.add(rewrite.node)?;
    }
    Ok(())
}

/// One node on its way.
struct Rewrite<'t, 'g> {
    target: &'t mut Target<'g>,
    node: Node,
    version: i64,
}

impl Rewrite<'_, '_> {
    /// A name for a tensor that the conversion makes.
    fn name(&self, role: &str) -> String {
        let output = self.node.writes().next();
        let output = output.map_or(self.node.name.as_str(), |id| {
            self.target.graph.tensor(id).name.as_str()
        });
        format!("{output}.{role}")
    }

    /// Whether an input is known to have no elements.
    fn is_empty(&self, slot: usize) -> bool {
        self.input_ty(slot).is_some_and(|ty| ty.elements() == Some(0))
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::unsupported(format!(
            "node {}: {what} is not supported",
            describe(self.target.graph, &self.node)
        ))
    }

    fn malformed(&self, why: &str) -> Error {
        Error::malformed(format!("node {}: {why}", describe(self.target.graph, &self.node)))
    }

    fn rename(&mut self, op: Op) {
        self.node.op = op;
        self.node.op_name = op.name().into();
    }

    /// Takes an attribute out; old ones need not be in the list of opset 28.
    fn take(&mut self, attr: &str) -> Option<AttrValue> {
        self.node.attributes.remove(&AttrKey::from_name(attr))
    }

    fn constant(&mut self, role: &str, literal: &Literal) -> TensorId {
        let name = self.name(role);
        self.target.constant(name, literal)
    }

    /// Puts a tensor into an input slot.
    fn set_input(&mut self, slot: usize, tensor: TensorId) {
        if self.node.inputs.len() <= slot {
            self.node.inputs.resize(slot + 1, None);
        }
        self.node.inputs[slot] = Some(tensor);
    }

    /// Moves a list of integers from an attribute to an input.
    fn ints_to_input(&mut self, attr: &str, slot: usize) {
        if let Some(AttrValue::Ints(values)) = self.take(attr) {
            let tensor = self.constant(attr, &Literal::i64s(&values));
            self.set_input(slot, tensor);
        }
    }

    /// The type of an input, if it is known.
    fn input_ty(&self, slot: usize) -> Option<&TensorType> {
        self.target.ty(self.node.input(slot)?)
    }

    /// An input that has to be there.
    fn input(&self, slot: usize) -> Result<TensorId, Error> {
        self.node
            .input(slot)
            .ok_or_else(|| self.malformed(&format!("input {slot} is missing")))
    }

    /// A float scalar of the element type of a tensor; by CastLike where that is not known.
    fn scalar_like(&mut self, role: &str, value: f32, like: TensorId) -> Result<TensorId, Error> {
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
    fn step(
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
    fn emit(
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

#[cfg(test)]
mod tests;
