//! The evaluator's two questions: can it compute a node, and what comes out.
//!
//! Invariant: `evaluate` asks what `supported` asks before it computes.

use polychip_cpu_kernels::reference::Tensor;
use polychip_ops::{Attributes, DType, Op};

use crate::call::Call;
use crate::error::{EvaluateError, Reason};
use crate::{literal, table};

/// Whether a node of this op, these attributes and these input element types (absent inputs: `None`)
/// can be computed.
///
/// # Errors
/// The reason why not.
pub fn supported(op: Op, attributes: &Attributes, input_dtypes: &[Option<DType>]) -> Result<(), Reason> {
    match table::refusal(op, attributes, input_dtypes.iter().copied()) {
        Some(reason) => Err(reason),
        None => Ok(()),
    }
}

/// Computes a node: the first `outputs` outputs of `op` (at least one), absent optional ones included.
///
/// ```
/// use polychip_ops::{Attributes, Op};
/// use polychip_reference::{evaluate, Tensor};
/// let a = Tensor::from_i64s(vec![2], vec![1, 2]).unwrap();
/// let sum = evaluate(Op::Add, &Attributes::new(), &[Some(&a), Some(&a)], 1).unwrap();
/// assert_eq!(sum[0].to_i64s().unwrap(), [2, 4]);
/// ```
///
/// # Errors
/// If the node is not supported, or its inputs do not fit the op.
pub fn evaluate(
    op: Op,
    attributes: &Attributes,
    inputs: &[Option<&Tensor>],
    outputs: usize,
) -> Result<Vec<Tensor>, EvaluateError> {
    evaluate_packed(op, attributes, inputs, &[], outputs)
}

/// As [`evaluate`], told which inputs are sequences or optionals packed into bytes ([`polychip_ops::Packed`]) and no
/// tensors of bytes; those beyond the end of `packed` are none.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_packed(
    op: Op,
    attributes: &Attributes,
    inputs: &[Option<&Tensor>],
    packed: &[bool],
    outputs: usize,
) -> Result<Vec<Tensor>, EvaluateError> {
    let dtypes = inputs.iter().map(|t| t.map(|t| literal::dtype(t.element())));
    if let Some(reason) = table::refusal(op, attributes, dtypes) {
        return Err(EvaluateError::unsupported(op, reason));
    }
    let Some(row) = table::row(op) else {
        unreachable!("invariant: an op without a row was refused");
    };
    let call = Call {
        op,
        attributes,
        inputs,
        packed,
        outputs,
    };
    let mut results = (row.run)(&call).map_err(|why| EvaluateError::bad_input(op, why))?;
    results.truncate(outputs.max(1));
    Ok(results)
}
