//! Ops that only move elements.
//!
//! Invariant: values pass unchanged, up to the encoding of the output.

use polychip_ops::{Attr, AttrValue, Attributes, Literal, Op};

use crate::real::{self, one_step};
use crate::recipe::{Recipe, Value, with};
use crate::view::{Refusal, View};

const X: Value = Value::Input(0);

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    Some(match view.op {
        "Reshape" | "Squeeze" => reshape(view),
        "ExpandDims" => expand_dims(view),
        "Transpose" => transpose(view),
        "Concat" => concat(view),
        "Pack" => pack(view),
        "UnPack" => unpack(view),
        "Split" => split(view),
        "StridedSlice" => slice(view),
        "Pad" => pad(view),
        "Tile" => tile(view),
        "DepthToSpace" => blocks(view, Op::DepthToSpace),
        "SpaceToDepth" => blocks(view, Op::SpaceToDepth),
        _ => return None,
    })
}

fn signed(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

/// The wanted shape is the output's own.
fn reshape(view: &View<'_>) -> Result<Recipe, Refusal> {
    let wanted = signed(&view.output(0)?.shape());
    let mut r = Recipe::default();
    let y = r.reshape(X, &wanted);
    Ok(r.gives(&[y]))
}

fn expand_dims(view: &View<'_>) -> Result<Recipe, Refusal> {
    let axes = match view.ints("axes")? {
        Some(axes) => axes,
        None => vec![view.required("axis")?],
    };
    let mut r = Recipe::default();
    let axes = r.ints(&axes);
    let y = r.plain(Op::Unsqueeze, &[X, axes]);
    Ok(r.gives(&[y]))
}

fn transpose(view: &View<'_>) -> Result<Recipe, Refusal> {
    let perm = view.list("perm", view.shape(0)?.len())?;
    let mut r = Recipe::default();
    let y = r.step(Op::Transpose, with([(Attr::Perm, AttrValue::Ints(perm))]), &[X]);
    Ok(r.gives(&[y]))
}

fn all(view: &View<'_>) -> Result<Vec<Value>, Refusal> {
    (0..view.inputs.len())
        .map(|i| view.input(i).map(|_| Value::Input(i)))
        .collect()
}

fn concat(view: &View<'_>) -> Result<Recipe, Refusal> {
    let axis = view.axis("axis", 0, view.shape(0)?.len())?;
    let mut r = Recipe::default();
    let y = r.step(
        Op::Concat,
        with([(Attr::Axis, AttrValue::Int(axis as i64))]),
        &all(view)?,
    );
    Ok(r.gives(&[y]))
}

fn pack(view: &View<'_>) -> Result<Recipe, Refusal> {
    let axis = view.axis("axis", 0, view.shape(0)?.len() + 1)? as i64;
    let mut r = Recipe::default();
    let at = r.ints(&[axis]);
    let parts: Vec<Value> = all(view)?
        .into_iter()
        .map(|part| r.plain(Op::Unsqueeze, &[part, at]))
        .collect();
    let y = r.step(Op::Concat, with([(Attr::Axis, AttrValue::Int(axis))]), &parts);
    Ok(r.gives(&[y]))
}

fn unpack(view: &View<'_>) -> Result<Recipe, Refusal> {
    let shape = view.shape(0)?;
    let axis = view.axis("axis", 0, shape.len())?;
    let attributes = Attributes::new()
        .with_int(Attr::Axis, axis as i64)
        .with_int(Attr::NumOutputs, shape[axis] as i64);
    let mut r = Recipe::default();
    let parts = r.many(Op::Split, attributes, &[Some(X)], shape[axis]);
    let at = r.ints(&[axis as i64]);
    let parts: Vec<Value> = parts
        .into_iter()
        .map(|part| r.plain(Op::Squeeze, &[part, at]))
        .collect();
    Ok(r.gives(&parts))
}

/// `split_index` holds the start of each part but the first.
fn split(view: &View<'_>) -> Result<Recipe, Refusal> {
    let shape = view.shape(0)?;
    let axis = view.axis("axis", 0, shape.len())?;
    let Some(mut cuts) = view.ints("split_index")? else {
        return Refusal::rule("Split: parameter split_index is missing");
    };
    cuts.push(shape[axis] as i64);
    let mut sizes = Vec::with_capacity(cuts.len());
    let mut from = 0;
    for cut in cuts {
        if cut < from {
            return Refusal::rule(format!("Split: part {} of {shape:?} is negative", sizes.len()));
        }
        sizes.push(cut - from);
        from = cut;
    }
    if sizes.len() != view.outputs.len() {
        return Refusal::rule(format!(
            "Split: {} parts into {} outputs",
            sizes.len(),
            view.outputs.len()
        ));
    }
    let mut r = Recipe::default();
    let count = sizes.len();
    let sizes = r.ints(&sizes);
    let attributes = with([(Attr::Axis, AttrValue::Int(axis as i64))]);
    let parts = r.many(Op::Split, attributes, &[Some(X), Some(sizes)], count);
    Ok(r.gives(&parts))
}

/// `ranges` holds begin, end and stride of each axis. An end before the first element, which a negative
/// stride needs, is -1, not the last element as in ONNX.
fn slice(view: &View<'_>) -> Result<Recipe, Refusal> {
    let shape = view.shape(0)?;
    let rank = shape.len();
    let ranges = view.list("ranges", 3 * rank)?;
    let mask = |name| view.int(name, 0);
    let (begin_mask, end_mask) = (mask("begin_mask")?, mask("end_mask")?);
    let shrink = mask("shrink_axes")?;
    if mask("new_axes_mask")? != 0 {
        return Refusal::rule("StridedSlice: new axes are not supported");
    }
    let (mut starts, mut ends, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, range) in ranges.chunks_exact(3).enumerate() {
        let [begin, end, step] = [range[0], range[1], range[2]];
        if step == 0 {
            return Refusal::rule(format!("StridedSlice: the stride of axis {axis} is 0"));
        }
        let size = shape[axis] as i64;
        let masked = |mask: i64| mask >> axis & 1 == 1;
        starts.push(match masked(begin_mask) {
            true if step > 0 => 0,
            true => size - 1,
            false => begin,
        });
        ends.push(match masked(end_mask) {
            true if step > 0 => size,
            false if step > 0 || end >= 0 => end,
            _ => -size - 1,
        });
        steps.push(step);
    }
    let mut r = Recipe::default();
    let axes: Vec<i64> = (0..rank as i64).collect();
    let [starts, ends, axes, steps] = [starts, ends, axes, steps].map(|values| r.ints(&values));
    let mut y = r.plain(Op::Slice, &[X, starts, ends, axes, steps]);
    let gone: Vec<i64> = (0..rank as i64).filter(|axis| shrink >> axis & 1 == 1).collect();
    if !gone.is_empty() {
        let gone = r.ints(&gone);
        y = r.plain(Op::Squeeze, &[y, gone]);
    }
    Ok(r.gives(&[y]))
}

/// The constant is real, or a number of the input's encoding.
fn pad(view: &View<'_>) -> Result<Recipe, Refusal> {
    let x = view.input(0)?;
    let rank = x.dims.len();
    let amount = view.list("pad_amount", 2 * rank)?;
    let mut pads: Vec<i64> = amount.iter().step_by(2).copied().collect();
    pads.extend(amount.iter().skip(1).step_by(2));
    let mode = match view.int("scheme", 0)? {
        0 => "constant",
        2 => "reflect",
        3 => "edge",
        other => return Refusal::rule(format!("Pad: scheme {other} is not supported")),
    };
    let mut r = Recipe::default();
    let pads = r.ints(&pads);
    let mut args = vec![X, pads];
    if let Some(scalar) = view.raw_scalar("pad_constant_value")? {
        let dtype = x.known_dtype();
        let real_type = view.real();
        let constant = match (scalar.int(), one_step(x), dtype) {
            (Some(q), Some(step), _) => {
                let value = (q + i64::from(step.offset)) as f64 * f64::from(step.scale);
                r.real(real_type, value)
            }
            (Some(value), None, Some(dtype)) if !dtype.is_float() => {
                let dtype = real::oracle_dtype(dtype, real_type);
                match Literal::from_ints(dtype, Vec::new(), &[value]) {
                    Some(literal) => r.constant(literal),
                    None => return Refusal::rule(format!("Pad: constant {value} does not fit")),
                }
            }
            _ => r.real(real_type, view.float("pad_constant_value", 0.0)?),
        };
        args.push(constant);
    }
    let y = r.step(
        Op::Pad,
        with([(Attr::Mode, AttrValue::String(mode.into()))]),
        &args,
    );
    Ok(r.gives(&[y]))
}

fn tile(view: &View<'_>) -> Result<Recipe, Refusal> {
    let times = view.list("multiples", view.shape(0)?.len())?;
    let mut r = Recipe::default();
    let times = r.ints(&times);
    let y = r.plain(Op::Tile, &[X, times]);
    Ok(r.gives(&[y]))
}

fn blocks(view: &View<'_>, op: Op) -> Result<Recipe, Refusal> {
    view.ranked(0, 4)?;
    let block = view.list("block_size", 2)?;
    if block[0] != block[1] {
        return Refusal::rule(format!("{}: block {block:?} is not square", view.op));
    }
    let mut attributes = Attributes::new().with_int(Attr::Blocksize, block[0]);
    match (op, view.int("mode", 0)?) {
        (_, 0) => {}
        (Op::DepthToSpace, 1) => attributes = attributes.with_str(Attr::Mode, "CRD"),
        (_, mode) => return Refusal::rule(format!("{}: mode {mode} is not supported", view.op)),
    }
    let mut r = Recipe::default();
    let x = r.channels_first(X, 4);
    let y = r.step(op, attributes, &[x]);
    let y = r.channels_last(y, 4);
    Ok(r.gives(&[y]))
}
