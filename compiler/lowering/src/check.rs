//! Whether a node is what its op allows: arity, attributes, extents.
//!
//! Invariant: what passed here has as many operands, axes and extents as the op's shape function says, so that
//! lowering may index by them.
//!
//! Not here: what a device makes of it.

use polychip_ops::{InferError, InferInput, Literal, Op, TensorType, Value, infer};
use polychip_sdk::Reason;

use crate::{Node, Outcome, Part, Refusal, TensorIndex};

/// Larger constants are data, which no shape depends on.
const MOST_VALUES: usize = 256;

/// Refuses a node whose outputs are not what its op makes of its inputs.
///
/// # Errors
/// The shape function's words, or the output that has another shape.
pub fn check(part: &Part, node: &Node) -> Outcome<()> {
    let shape = |tensor: TensorIndex| {
        part.dims(tensor).ok_or_else(|| {
            let what = format!(
                "the shape of tensor {} is known only after the run",
                part.tensors[tensor].name
            );
            Refusal::new(Reason::DynamicShape, what)
        })
    };
    // but between reals and integers, the op sees the reals
    let stored = matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear);
    let mut types: Vec<Option<(TensorType, Option<Value>)>> = Vec::new();
    for input in node.inputs.iter().copied() {
        let Some(input) = input else {
            types.push(None);
            continue;
        };
        let view = &part.tensors[input];
        let dtype = if stored { view.dtype } else { view.real() };
        let ty = TensorType::known(dtype, shape(input)?);
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
    let wrong = |error: InferError| Refusal::shape(error.to_string());
    let inferred = infer(node.op, &node.attributes, &inputs, node.outputs.len()).map_err(wrong)?;
    for (output, inferred) in node.outputs.iter().copied().zip(&inferred) {
        let Some(output) = output else { continue };
        let shape = shape(output)?;
        if inferred.ty.sizes().is_some_and(|sizes| sizes != shape) {
            return Err(Refusal::shape(format!(
                "tensor {} has shape {shape:?}, {} gives {:?}",
                part.tensors[output].name,
                node.op_name,
                inferred.ty.sizes()
            )));
        }
    }
    Ok(())
}
