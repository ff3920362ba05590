//! Softmax, LogSoftmax and Hardmax before 13: over all dimensions from `axis` on, as one.

use polychip_ops::{Attr, Attributes, Dim, Literal, Op};

use super::rewrite::Rewrite;
use crate::Error;

/// Where the axis is the last one, or those behind it have size 1, the meaning is the same today;
/// else flatten, compute along the last axis, and reshape.
pub(super) fn flat(rewrite: &mut Rewrite<'_, '_>) -> Result<bool, Error> {
    let axis = rewrite.node.attributes.int(Attr::Axis).unwrap_or(1);
    let shape = rewrite.input_ty(0).and_then(|ty| ty.shape.clone());
    let is_bound = rewrite.has_bound(0);
    if let Some(shape) = &shape {
        let rank = i64::try_from(shape.len()).expect("invariant: ranks are small");
        let front = if axis < 0 { axis.saturating_add(rank) } else { axis };
        let last = usize::try_from(front).ok().filter(|&front| front < shape.len());
        if last.is_some_and(|last| shape[last + 1..].iter().all(|dim| *dim == Dim::Known(1))) {
            rewrite
                .node
                .attributes
                .set(Attr::Axis, polychip_ops::AttrValue::Int(front));
            return Ok(false);
        }
    }
    let (x, Some(output)) = (rewrite.input(0)?, rewrite.node.output(0)) else {
        return Ok(false);
    };
    // sizes that values decide are known to the run only
    let shape = shape.filter(|_| !is_bound);
    let sizes: Option<Vec<i64>> =
        shape.and_then(|shape| shape.iter().map(|dim| i64::try_from(dim.known()?).ok()).collect());
    let matrix = rewrite.step(
        Op::Flatten,
        &[x],
        "matrix",
        Attributes::new().with_int(Attr::Axis, axis),
    )?;
    let op = rewrite.node.op;
    let rows = rewrite.step(op, &[matrix], "rows", Attributes::new().with_int(Attr::Axis, -1))?;
    let shape = match sizes {
        Some(sizes) => rewrite.constant("shape", &Literal::i64s(&sizes)),
        None => rewrite.step(Op::Shape, &[x], "shape", Attributes::new())?,
    };
    let name = rewrite.node.name.clone();
    // a size of zero is one, and copies none
    let plain = Attributes::new().with_int(Attr::Allowzero, 1);
    rewrite.emit(Op::Reshape, &[rows, shape], output, &name, plain)?;
    Ok(true)
}
