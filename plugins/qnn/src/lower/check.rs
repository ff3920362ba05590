//! Whether a node is what its op allows: arity, attributes, extents.
//!
//! Invariant: what passed here has as many operands, axes and extents as the op's shape function says, so that
//! lowering may index by them.
//!
//! Not here: what the NPU makes of it.

use polychip_lowering::{Node, Outcome, Refusal};
use polychip_ops::{InferError, InferInput, Literal, Op, TensorType, Value, infer};

use super::builder::Lower;

/// Larger constants are data, which no shape depends on.
const MOST_VALUES: usize = 256;

impl Lower<'_> {
    /// Refuses a node whose outputs are not what its op makes of its inputs.
    pub(super) fn check(&self, node: &Node) -> Outcome<()> {
        let stored = matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear);
        let mut types: Vec<Option<(TensorType, Option<Value>)>> = Vec::new();
        for input in node.inputs.iter().copied() {
            let Some(input) = input else {
                types.push(None);
                continue;
            };
            let view = self.view(input);
            // but between reals and integers, the op sees the reals
            let dtype = if stored { view.dtype } else { view.real() };
            let ty = TensorType::known(dtype, &self.shape(input)?);
            let small = ty.elements().is_some_and(|count| count <= MOST_VALUES);
            let literal: Option<Literal> = small.then(|| view.literal()).flatten();
            types.push(Some((ty, literal.map(Value::Literal))));
        }
        let inputs: Vec<Option<InferInput<'_>>> = types
            .iter()
            .map(|input| {
                input.as_ref().map(|(ty, value)| InferInput {
                    ty,
                    value: value.as_ref(),
                })
            })
            .collect();
        let outputs = node.outputs.len();
        let wrong = |error: InferError| Refusal::shape(error.to_string());
        let inferred = infer(node.op, &node.attributes, &inputs, outputs).map_err(wrong)?;
        for (output, inferred) in node.outputs.iter().copied().zip(&inferred) {
            let Some(output) = output else { continue };
            let shape = self.shape(output)?;
            if inferred.ty.sizes().is_some_and(|sizes| sizes != shape) {
                return Err(Refusal::shape(format!(
                    "tensor {} has shape {shape:?}, {} gives {:?}",
                    self.view(output).name,
                    node.op_name,
                    inferred.ty.sizes()
                )));
            }
        }
        Ok(())
    }
}
