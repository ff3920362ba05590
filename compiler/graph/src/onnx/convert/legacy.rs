//! Opset 6, the last without NumPy's broadcasting: shapes were aligned by attributes, and `is_test`
//! said whether a node ran in training.
//!
//! Invariant: a node that trains is refused, never taken for one that does not.

use polychip_ops::{AttrValue, Attributes, Literal, Op};

use super::rewrite::Rewrite;
use crate::Error;

/// Says in opset 7 what the node says in opset 6.
pub(super) fn six(rewrite: &mut Rewrite<'_, '_>) -> Result<(), Error> {
    match rewrite.node.op {
        Op::Add
        | Op::Sub
        | Op::Mul
        | Op::Div
        | Op::Pow
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Equal
        | Op::Greater
        | Op::Less => {
            rewrite.take("broadcast");
            if let Some(AttrValue::Int(axis)) = rewrite.take("axis") {
                align(rewrite, axis)?;
            }
        }
        // a slope per channel lay on axis 1
        Op::PRelu => {
            let rank = rewrite.input_ty(1).and_then(|ty| ty.shape.as_ref()).map(Vec::len);
            if rank == Some(1) && rewrite.input_ty(1).and_then(|ty| ty.elements()) != Some(1) {
                align(rewrite, 1)?;
            }
        }
        Op::Gemm => {
            rewrite.take("broadcast");
        }
        Op::BatchNormalization | Op::Dropout => {
            let is_test = rewrite.take("is_test");
            if !matches!(is_test, Some(AttrValue::Int(test)) if test != 0) {
                return Err(rewrite.unsupported("training (is_test 0 in opset 6)"));
            }
        }
        // whether all steps are wanted is now said by the output being there
        Op::RNN | Op::GRU | Op::LSTM => {
            rewrite.take("output_sequence");
        }
        Op::Upsample => {
            let (height, width) = (rewrite.take("height_scale"), rewrite.take("width_scale"));
            if let (Some(AttrValue::Float(height)), Some(AttrValue::Float(width))) = (height, width) {
                let scales = rewrite.constant("scales", &Literal::f32s(&[1.0, 1.0, height, width]));
                rewrite.set_input(1, scales);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Moves the dims of the second input to where they start on `axis` of the first.
fn align(rewrite: &mut Rewrite<'_, '_>, axis: i64) -> Result<(), Error> {
    let rank = |slot| {
        rewrite
            .input_ty(slot)
            .and_then(|ty| i64::try_from(ty.shape.as_ref()?.len()).ok())
    };
    let (Some(whole), Some(part)) = (rank(0), rank(1)) else {
        return Err(rewrite.unsupported("an axis of broadcasting where a rank is not known"));
    };
    let first = if axis < 0 {
        axis.checked_add(whole)
    } else {
        Some(axis)
    };
    let Some(missing) = first
        .filter(|first| (0..=whole).contains(first))
        .map(|first| whole - first - part)
        .filter(|missing| *missing >= 0)
    else {
        return Err(rewrite.malformed(&format!(
            "axis {axis} of broadcasting does not fit ranks {whole} and {part}"
        )));
    };
    if missing > 0 {
        let small = rewrite.input(1)?;
        let axes: Vec<i64> = (part..part + missing).collect();
        let axes = rewrite.constant("axes", &Literal::i64s(&axes));
        let aligned = rewrite.step(Op::Unsqueeze, &[small, axes], "aligned", Attributes::new())?;
        rewrite.set_input(1, aligned);
    }
    Ok(())
}
