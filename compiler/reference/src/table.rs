//! The table of what the evaluator computes: for each op its element types and its function.
//!
//! Invariant: an op has a row here or a reason in [`absent`], never both.

use polychip_ops::{Attributes, DType, DTypes, Op};

use crate::error::Reason;
use crate::row::Row;

/// The row of an op.
pub(crate) fn row(op: Op) -> Option<Row> {
    const CLASSES: &[fn(Op) -> Option<Row>] = &[
        crate::elementwise::row,
        crate::activation::row,
        crate::compare::row,
        crate::cast::row,
        crate::reduce::row,
        crate::matmul::row,
        crate::conv::row,
        crate::pool::row,
        crate::norm::row,
        crate::softmax::row,
        crate::shape::row,
        crate::gather::row,
        crate::resize::row,
        crate::quantise::row,
        crate::attention::row,
        crate::recurrent::row,
        crate::signal::row,
        crate::sort::row,
        crate::detect::row,
        crate::text::row,
        crate::ml::row,
        crate::sequence::row,
    ];
    CLASSES.iter().find_map(|class| class(op))
}

/// Why a node of this op, these attributes and these element types is not computed, if it is not.
pub(crate) fn refusal(
    op: Op,
    _attributes: &Attributes,
    inputs: impl Iterator<Item = Option<DType>>,
) -> Option<Reason> {
    let Some(row) = row(op) else {
        return Some(Reason(absent(op).to_owned()));
    };
    for (i, dtype) in inputs.enumerate() {
        let allowed = row
            .takes
            .get(i)
            .or(row.takes.last())
            .copied()
            .unwrap_or(DTypes::NONE);
        if let Some(dtype) = dtype
            && !allowed.contains(dtype)
        {
            return Some(Reason(format!("input {i} has element type {}", dtype.name())));
        }
    }
    None
}

/// Why an op has no row.
fn absent(op: Op) -> &'static str {
    match op {
        Op::Custom => "a custom op is known to its own device only",
        Op::Bernoulli
        | Op::Multinomial
        | Op::RandomNormal
        | Op::RandomNormalLike
        | Op::RandomUniform
        | Op::RandomUniformLike => "random values have no reference: ONNX fixes no generator",
        Op::If | Op::Loop | Op::Scan | Op::SequenceMap => {
            "a node with body graphs is not a single node's computation"
        }
        Op::ImageDecoder => "image files are decoded before the graph, not in it",
        _ => "no reference kernel computes it",
    }
}
