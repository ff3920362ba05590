//! Reductions, extremes by index, running sums.
//!
//! Invariant: `keep_dims` is false by default, as in the op definitions.

use polychip_ops::{Attr, AttrValue, Attributes, Op};

use crate::recipe::{Recipe, Value};
use crate::view::{Refusal, View};

const X: Value = Value::Input(0);

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    Some(match view.op {
        "ReduceMean" => reduce(view, Op::ReduceMean),
        "ReduceSum" => reduce(view, Op::ReduceSum),
        "ReduceMax" => reduce(view, Op::ReduceMax),
        "ReduceMin" => reduce(view, Op::ReduceMin),
        "ReduceProd" => reduce(view, Op::ReduceProd),
        "ReduceSumSquare" => reduce(view, Op::ReduceSumSquare),
        "Argmax" => arg(view, Op::ArgMax),
        "Argmin" => arg(view, Op::ArgMin),
        "TopK" => top(view),
        "CumulativeSum" => running(view),
        _ => return None,
    })
}

fn reduce(view: &View<'_>, op: Op) -> Result<Recipe, Refusal> {
    let axes = match view.ints("axes")? {
        Some(axes) => axes,
        None => return Refusal::rule(format!("{}: parameter axes is missing", view.op)),
    };
    let keep = i64::from(view.flag("keep_dims", false)?);
    let mut r = Recipe::default();
    let axes = r.ints(&axes);
    let y = r.step(op, Attributes::new().with_int(Attr::Keepdims, keep), &[X, axes]);
    Ok(r.gives(&[y]))
}

fn arg(view: &View<'_>, op: Op) -> Result<Recipe, Refusal> {
    let axis = view.axis("axis", 0, view.shape(0)?.len())?;
    view.required("axis")?;
    let attributes = Attributes::new()
        .with_int(Attr::Axis, axis as i64)
        .with_int(Attr::Keepdims, i64::from(view.flag("keep_dims", false)?));
    let mut r = Recipe::default();
    let y = r.step(op, attributes, &[X]);
    Ok(r.gives(&[y]))
}

fn top(view: &View<'_>) -> Result<Recipe, Refusal> {
    let attributes = Attributes::new()
        .with_int(Attr::Axis, -1)
        .with_int(Attr::Largest, i64::from(view.flag("largest", true)?));
    let mut r = Recipe::default();
    let k = r.ints(&[view.required("k")?]);
    let both = r.many(Op::TopK, attributes, &[Some(X), Some(k)], 2);
    Ok(r.gives(&both))
}

fn running(view: &View<'_>) -> Result<Recipe, Refusal> {
    let axis = view.axis("axis", 0, view.shape(0)?.len())?;
    let flag = |name| Ok::<_, Refusal>(AttrValue::Int(i64::from(view.flag(name, false)?)));
    let attributes = crate::recipe::with([
        (Attr::Exclusive, flag("exclusive")?),
        (Attr::Reverse, flag("reverse")?),
    ]);
    let mut r = Recipe::default();
    let axis = r.constant(polychip_ops::Literal::scalar_i64(axis as i64));
    let y = r.step(Op::CumSum, attributes, &[X, axis]);
    Ok(r.gives(&[y]))
}
