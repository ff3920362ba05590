//! Lists of axes and sizes that were attributes and became inputs.

use polychip_ops::{Attr, AttrValue, Literal};

use super::rewrite::Rewrite;

/// Squeeze, Unsqueeze, ReduceSum before 13, the other reductions before 18: `axes`.
pub(super) fn attribute_to_input(rewrite: &mut Rewrite<'_, '_>) {
    rewrite.ints_to_input("axes", 1);
}

/// Before 13 `split` was an attribute; before 18 equal parts needed no `num_outputs`.
pub(super) fn split(rewrite: &mut Rewrite<'_, '_>) {
    if rewrite.version < 13 {
        rewrite.ints_to_input("split", 1);
    }
    if rewrite.node.input(1).is_none() {
        let count = i64::try_from(rewrite.node.outputs.len()).expect("invariant: outputs fit memory");
        rewrite
            .node
            .attributes
            .set(Attr::NumOutputs, AttrValue::Int(count));
    }
}

/// Before 10 `starts`, `ends` and `axes` were attributes.
pub(super) fn slice(rewrite: &mut Rewrite<'_, '_>) {
    rewrite.ints_to_input("starts", 1);
    rewrite.ints_to_input("ends", 2);
    rewrite.ints_to_input("axes", 3);
}

/// Before 10 `k` was an attribute.
pub(super) fn top_k(rewrite: &mut Rewrite<'_, '_>) {
    if let Some(AttrValue::Int(k)) = rewrite.take("k") {
        let k = rewrite.constant("k", &Literal::i64s(&[k]));
        rewrite.set_input(1, k);
    }
}

/// Before 20 `axis` was an attribute whose default was 1; now it is an input whose default is −2.
pub(super) fn dft(rewrite: &mut Rewrite<'_, '_>) {
    let axis = match rewrite.take("axis") {
        Some(AttrValue::Int(axis)) => axis,
        _ => 1,
    };
    let axis = rewrite.constant("axis", &Literal::scalar_i64(axis));
    rewrite.set_input(2, axis);
}
