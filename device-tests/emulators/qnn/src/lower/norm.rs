//! Normalisations and softmax.
//!
//! Invariant: channels are last.

use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};

use crate::recipe::{Recipe, Value, with};
use crate::view::{Refusal, View};

const X: Value = Value::Input(0);

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    Some(match view.op {
        "Softmax" => softmax(view, Op::Softmax),
        "LogSoftmax" => softmax(view, Op::LogSoftmax),
        "LayerNorm" => trailing(view, true),
        "RmsNorm" => trailing(view, false),
        "InstanceNorm" => instance(view),
        "GroupNorm" => group(view),
        "Batchnorm" => batch(view),
        "L2Norm" => l2(view),
        "Lrn" => lrn(view),
        _ => return None,
    })
}

fn softmax(view: &View<'_>, op: Op) -> Result<Recipe, Refusal> {
    let axis = view.axis("axis", -1, view.shape(0)?.len())?;
    let beta = view.float("beta", 1.0)?;
    let mut r = Recipe::default();
    let mut x = X;
    if beta != 1.0 {
        let beta = r.real(view.real(), beta);
        x = r.plain(Op::Mul, &[x, beta]);
    }
    let y = r.step(op, with([(Attr::Axis, AttrValue::Int(axis as i64))]), &[x]);
    Ok(r.gives(&[y]))
}

/// A vector of ones or zeros in the node's real type.
fn fill(r: &mut Recipe, real: DType, shape: &[usize], value: f64) -> Value {
    let count: usize = shape.iter().product();
    let bytes: Vec<u8> = match real {
        DType::F64 => value.to_le_bytes().repeat(count),
        _ => (value as f32).to_le_bytes().repeat(count),
    };
    let literal = Literal::new(real, shape.to_vec(), bytes).expect("invariant: bytes fit the shape");
    r.constant(literal)
}

fn epsilon(view: &View<'_>, default: f64) -> Result<f32, Refusal> {
    Ok(view.float("epsilon", default)? as f32)
}

fn trailing(view: &View<'_>, centred: bool) -> Result<Recipe, Refusal> {
    let x = view.shape(0)?;
    let mut axes = match view.ints("axes")? {
        Some(axes) => axes,
        None => vec![x.len() as i64 - 1],
    };
    axes.sort_unstable();
    let first = x.len().saturating_sub(axes.len());
    if axes.is_empty() || !axes.iter().copied().eq((first as i64)..(x.len() as i64)) {
        return Refusal::rule(format!("{}: axes {axes:?} of {x:?} are not the last", view.op));
    }
    let attributes = Attributes::new()
        .with_int(Attr::Axis, first as i64)
        .with_float(Attr::Epsilon, epsilon(view, 1e-6)?);
    let mut r = Recipe::default();
    let scale = if view.has(1) {
        Value::Input(1)
    } else {
        fill(&mut r, view.real(), &x[first..], 1.0)
    };
    let shift = view.has(2).then_some(Value::Input(2));
    let y = if centred {
        r.many(
            Op::LayerNormalization,
            attributes,
            &[Some(X), Some(scale), shift],
            1,
        )[0]
    } else {
        let y = r.step(Op::RMSNormalization, attributes, &[X, scale]);
        match shift {
            Some(shift) => r.plain(Op::Add, &[y, shift]),
            None => y,
        }
    };
    Ok(r.gives(&[y]))
}

fn channels(view: &View<'_>) -> Result<(usize, usize), Refusal> {
    match view.shape(0)?[..] {
        [_, .., channels] => Ok((view.shape(0)?.len(), channels)),
        ref other => Refusal::rule(format!("{}: shape {other:?} has no channels", view.op)),
    }
}

fn scale_and_shift(view: &View<'_>, r: &mut Recipe, channels: usize) -> [Value; 2] {
    [(1, 1.0), (2, 0.0)].map(|(i, default)| {
        if view.has(i) {
            Value::Input(i)
        } else {
            fill(r, view.real(), &[channels], default)
        }
    })
}

fn instance(view: &View<'_>) -> Result<Recipe, Refusal> {
    let (rank, count) = channels(view)?;
    if view.int("mode", 0)? != 0 || view.int("region", 0)? != 0 || !view.flag("normalize_variance", true)? {
        return Refusal::rule("InstanceNorm: only mode 0, region 0 and with variance");
    }
    let mut r = Recipe::default();
    let [scale, shift] = scale_and_shift(view, &mut r, count);
    let x = r.channels_first(X, rank);
    let attributes = Attributes::new().with_float(Attr::Epsilon, epsilon(view, 1e-12)?);
    let y = r.step(Op::InstanceNormalization, attributes, &[x, scale, shift]);
    let y = r.channels_last(y, rank);
    Ok(r.gives(&[y]))
}

fn group(view: &View<'_>) -> Result<Recipe, Refusal> {
    let (rank, count) = channels(view)?;
    let mut r = Recipe::default();
    let [scale, shift] = scale_and_shift(view, &mut r, count);
    let x = r.channels_first(X, rank);
    let attributes = Attributes::new()
        .with_float(Attr::Epsilon, epsilon(view, 1e-12)?)
        .with_int(Attr::NumGroups, view.required("group")?);
    let y = r.step(Op::GroupNormalization, attributes, &[x, scale, shift]);
    let y = r.channels_last(y, rank);
    Ok(r.gives(&[y]))
}

fn batch(view: &View<'_>) -> Result<Recipe, Refusal> {
    view.input(2)?;
    let mut r = Recipe::default();
    let scaled = r.plain(Op::Mul, &[X, Value::Input(1)]);
    let y = r.plain(Op::Add, &[scaled, Value::Input(2)]);
    Ok(r.gives(&[y]))
}

fn l2(view: &View<'_>) -> Result<Recipe, Refusal> {
    let rank = view.shape(0)?.len();
    let axes = match view.ints("axes")? {
        Some(axes) => axes,
        None => vec![view.axis("axis", -1, rank)? as i64],
    };
    let mut r = Recipe::default();
    let axes = r.ints(&axes);
    let squares = r.plain(Op::Mul, &[X, X]);
    let sum = r.plain(Op::ReduceSum, &[squares, axes]);
    let least = r.real(view.real(), view.float("epsilon", 1e-12)?);
    let sum = r.plain(Op::Max, &[sum, least]);
    let length = r.plain(Op::Sqrt, &[sum]);
    let y = r.plain(Op::Div, &[X, length]);
    Ok(r.gives(&[y]))
}

fn lrn(view: &View<'_>) -> Result<Recipe, Refusal> {
    let (rank, _) = channels(view)?;
    if view.int("region", 0)? != 0 {
        return Refusal::rule("Lrn: only across channels");
    }
    let size = view
        .required("radius")?
        .checked_mul(2)
        .and_then(|size| size.checked_add(1))
        .filter(|size| (1..=1 << 20).contains(size));
    let Some(size) = size else {
        return Refusal::rule("Lrn: radius is out of range");
    };
    // ONNX divides alpha by the window's size, QNN does not
    let attributes = Attributes::new()
        .with_int(Attr::Size, size)
        .with_float(Attr::Alpha, (view.float("alpha", 1.0)? * size as f64) as f32)
        .with_float(Attr::Beta, view.float("beta", 0.5)? as f32)
        .with_float(Attr::Bias, view.float("bias", 1.0)? as f32);
    let mut r = Recipe::default();
    let x = r.channels_first(X, rank);
    let y = r.step(Op::LRN, attributes, &[x]);
    let y = r.channels_last(y, rank);
    Ok(r.gives(&[y]))
}
