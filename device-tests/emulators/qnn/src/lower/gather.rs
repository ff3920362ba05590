//! Ops that take elements by index.
//!
//! Invariant: an index outside its axis is an error of the run, never a read outside.

use polychip_emulator_qnn_format::Dtype;
use polychip_ops::{Attr, AttrValue, Attributes, DType, Op};

use crate::recipe::{Recipe, Value, with};
use crate::view::{Refusal, View};

const X: Value = Value::Input(0);

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    Some(match view.op {
        "Gather" => by_axis(view, Op::Gather),
        "GatherElements" => by_axis(view, Op::GatherElements),
        "GatherNd" => nd(view),
        "ScatterNd" => scatter(view, Op::ScatterND, &[("none", 0), ("add", 1), ("mul", 2)]),
        "ScatterElements" => scatter(view, Op::ScatterElements, &[("none", 0), ("add", 1), ("mul", 2)]),
        _ => return None,
    })
}

/// Input `i` as indices that the oracle takes.
fn indices(view: &View<'_>, r: &mut Recipe, i: usize) -> Result<Value, Refusal> {
    match view.input(i)?.known_dtype() {
        Some(Dtype::Int32 | Dtype::Int64) => Ok(Value::Input(i)),
        Some(Dtype::Uint32) => {
            let to = AttrValue::Int(i64::from(DType::I64.code()));
            Ok(r.step(Op::Cast, with([(Attr::To, to)]), &[Value::Input(i)]))
        }
        other => Refusal::rule(format!("{}: indices of type {other:?}", view.op)),
    }
}

fn by_axis(view: &View<'_>, op: Op) -> Result<Recipe, Refusal> {
    let axis = view.axis("axis", 0, view.shape(0)?.len())?;
    let mut r = Recipe::default();
    let at = indices(view, &mut r, 1)?;
    let y = r.step(op, with([(Attr::Axis, AttrValue::Int(axis as i64))]), &[X, at]);
    Ok(r.gives(&[y]))
}

fn nd(view: &View<'_>) -> Result<Recipe, Refusal> {
    let mut r = Recipe::default();
    let at = indices(view, &mut r, 1)?;
    // the oracle takes 64-bit indices only
    let to = AttrValue::Int(i64::from(DType::I64.code()));
    let at = r.step(Op::Cast, with([(Attr::To, to)]), &[at]);
    let attributes = Attributes::new().with_int(Attr::BatchDims, view.int("batch_dims", 0)?);
    let y = r.step(Op::GatherND, attributes, &[X, at]);
    Ok(r.gives(&[y]))
}

fn scatter(view: &View<'_>, op: Op, names: &[(&str, i64)]) -> Result<Recipe, Refusal> {
    let reduction = view.int("reduction", 0)?;
    let Some(&(name, _)) = names.iter().find(|(_, code)| *code == reduction) else {
        return Refusal::rule(format!("{}: reduction is {reduction}", view.op));
    };
    let mut attributes = Attributes::new().with_str(Attr::Reduction, name);
    if op == Op::ScatterElements {
        let axis = view.axis("axis", 0, view.shape(0)?.len())?;
        attributes = attributes.with_int(Attr::Axis, axis as i64);
    }
    view.input(2)?;
    let mut r = Recipe::default();
    let at = indices(view, &mut r, 1)?;
    let to = AttrValue::Int(i64::from(DType::I64.code()));
    let at = r.step(Op::Cast, with([(Attr::To, to)]), &[at]);
    let y = r.step(op, attributes, &[X, at, Value::Input(2)]);
    Ok(r.gives(&[y]))
}
