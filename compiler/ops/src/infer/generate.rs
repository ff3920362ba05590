//! Shapes of ops that make tensors from sizes, seeds and attributes.
//!
//! Invariant: sizes come from attributes or from values of inputs; unknown values give unknown
//! sizes.
//! Not here: the numbers made.

use std::sync::Arc;

use crate::infer::call::{Call, MAX_VALUE, Out, Result, bail, make_value, unknown};
use crate::{Attr, AttrValue, DType, Dim, Element, Literal, Op, Value};

pub(super) fn infer(call: &Call<'_>) -> Result<Vec<Out>> {
    match call.op {
        Op::Constant => constant(call),
        Op::ConstantOfShape => of_shape(call),
        Op::RandomNormal | Op::RandomUniform => {
            let sizes = call.attributes.ints(Attr::Shape).unwrap_or_default();
            let shape: Result<Vec<Dim>> = sizes
                .iter()
                .map(|size| call.size(&Element::Int(*size), "a size"))
                .collect();
            Ok(vec![Out::dims(shape?).typed(call.dtype_attr(Attr::Dtype)?)])
        }
        Op::EyeLike => {
            call.rank_is(0, 2)?;
            like(call)
        }
        Op::Bernoulli | Op::RandomNormalLike | Op::RandomUniformLike => like(call),
        Op::Multinomial => {
            call.rank_is(0, 2)?;
            let count = call.size_from(call.int(Attr::SampleSize), 0, "sample_size")?;
            let batch = call.dims(0).map_or(Dim::Unknown, |dims| dims[0].clone());
            let dtype = call.dtype_attr(Attr::Dtype)?;
            Ok(vec![Out::dims(vec![batch, Dim::Known(count)]).typed(dtype)])
        }
        Op::OneHot => one_hot(call),
        Op::Range => range(call),
        Op::MelWeightMatrix => mel(call),
        // BlackmanWindow, HammingWindow and HannWindow.
        _ => {
            call.check_scalar(0)?;
            let size = size_of(call, 0, "the size")?;
            Ok(vec![
                Out::dims(vec![size]).typed(call.dtype_attr(Attr::OutputDatatype)?),
            ])
        }
    }
}

/// A size that is the only value of an input.
fn size_of(call: &Call<'_>, index: usize, what: &str) -> Result<Dim> {
    match call.elements(index).as_deref() {
        Some([element]) => call.size(element, what),
        _ => Ok(Dim::Unknown),
    }
}

/// The shape of the input, and its type where `dtype` names no other.
fn like(call: &Call<'_>) -> Result<Vec<Out>> {
    let dtype = call.dtype_attr(Attr::Dtype)?.or(call.dtype(0));
    Ok(vec![Out::new(call.dims(0).map(<[_]>::to_vec)).typed(dtype)])
}

fn constant(call: &Call<'_>) -> Result<Vec<Out>> {
    let mut values = call.attributes.iter();
    let (Some((_, value)), None) = (values.next(), values.next()) else {
        bail!(
            call,
            Attribute,
            "has {} values, needs exactly one",
            call.attributes.len()
        );
    };
    let literal = match value {
        AttrValue::Tensor(literal) => Some(literal.clone()),
        AttrValue::Float(value) => Some(Literal::scalar_f32(*value)),
        AttrValue::Floats(values) => Some(Literal::f32s(values)),
        AttrValue::Int(value) => Some(Literal::scalar_i64(*value)),
        AttrValue::Ints(values) => Some(Literal::i64s(values)),
        AttrValue::String(text) => Literal::from_strings(&[Arc::clone(text)]).map(|literal| Literal {
            shape: Vec::new(),
            ..literal
        }),
        AttrValue::Strings(texts) => Literal::from_strings(texts),
    };
    let Some(literal) = literal else {
        return Err(call.overflow());
    };
    let ty = literal.ty();
    Ok(vec![
        Out::new(ty.shape)
            .typed(Some(ty.dtype))
            .valued(Some(Value::Literal(literal))),
    ])
}

fn of_shape(call: &Call<'_>) -> Result<Vec<Out>> {
    let fill = call.attributes.tensor(Attr::Value);
    if let Some(fill) = fill
        && fill.elements() != Some(1)
    {
        bail!(
            call,
            Attribute,
            "value has the shape {:?}, not one element",
            fill.shape
        );
    }
    let dtype = fill.map_or(DType::F32, |fill| fill.dtype);
    let count = call.list_length(0)?;
    let Some(elements) = call.elements(0) else {
        return Ok(vec![Out::new(count.map(unknown)).typed(Some(dtype))]);
    };
    let shape: Result<Vec<Dim>> = elements
        .iter()
        .map(|element| call.size(element, "a size"))
        .collect();
    let shape = shape?;
    let fill = fill.filter(|_| dtype.is_int()).and_then(Literal::scalar_as_i64);
    let value = match (fill, &shape[..]) {
        (Some(fill), []) => make_value(dtype, 0, vec![Element::Int(fill)]),
        (Some(fill), [Dim::Known(size)]) if *size <= MAX_VALUE => {
            make_value(dtype, 1, vec![Element::Int(fill); *size])
        }
        _ => None,
    };
    Ok(vec![Out::dims(shape).typed(Some(dtype)).valued(value)])
}

fn one_hot(call: &Call<'_>) -> Result<Vec<Out>> {
    call.check_scalar(1)?;
    call.rank_is(2, 1)?;
    call.expect_dim(2, 0, &Dim::Known(2))?;
    let depth = match call.value(1).and_then(Value::as_f64s).as_deref() {
        // Depths may be floats, which are cut to integers.
        Some([depth]) if *depth >= 0.0 && *depth < 9e15 => Dim::Known(*depth as usize),
        Some([depth]) => bail!(call, Value, "depth is {depth}, which is no size"),
        _ => size_of(call, 1, "depth")?,
    };
    let Some(dims) = call.dims(0) else {
        return Ok(vec![Out::unranked()]);
    };
    let axis = call.axis(call.int(Attr::Axis), dims.len() + 1)?;
    let mut shape = dims.to_vec();
    shape.insert(axis, depth);
    Ok(vec![Out::dims(shape)])
}

fn range(call: &Call<'_>) -> Result<Vec<Out>> {
    for index in 0..3 {
        call.check_scalar(index)?;
    }
    let dtype = call.dtype(0);
    if dtype.is_some_and(DType::is_int)
        && let (Some(start), Some(limit), Some(delta)) = (call.scalar(0)?, call.scalar(1)?, call.scalar(2)?)
    {
        if delta == 0 {
            bail!(call, Value, "delta is 0");
        }
        let span = i128::from(limit) - i128::from(start);
        let delta_wide = i128::from(delta);
        let up = span.signum() == delta_wide.signum();
        let count = if up {
            span.unsigned_abs().div_ceil(delta_wide.unsigned_abs())
        } else {
            0
        };
        let count = usize::try_from(count).map_err(|_| call.overflow())?;
        let value = dtype.filter(|_| count <= MAX_VALUE).and_then(|dtype| {
            let values = std::iter::successors(Some(start), |value| value.checked_add(delta));
            make_value(dtype, 1, values.take(count).map(Element::Int).collect())
        });
        return Ok(vec![Out::dims(vec![Dim::Known(count)]).valued(value)]);
    }
    let float = |index| match call.value(index).and_then(Value::as_f64s).as_deref() {
        Some([value]) => Some(*value),
        _ => None,
    };
    if let (Some(start), Some(limit), Some(delta)) = (float(0), float(1), float(2)) {
        if delta == 0.0 || !delta.is_finite() {
            bail!(call, Value, "delta is {delta}");
        }
        let count = ((limit - start) / delta).ceil().max(0.0);
        if count.is_nan() || count > 9e15 {
            return Err(call.overflow());
        }
        return Ok(vec![Out::dims(vec![Dim::Known(count as usize)])]);
    }
    // A range from 0 in steps of 1 is as long as its limit, even if that is only a name.
    let count = match (call.scalar(0)?, call.scalar(2)?) {
        (Some(0), Some(1)) => match call.elements(1).as_deref() {
            Some([element @ Element::Symbol(_)]) => call.size(element, "the limit")?,
            _ => Dim::Unknown,
        },
        _ => Dim::Unknown,
    };
    Ok(vec![Out::dims(vec![count])])
}

fn mel(call: &Call<'_>) -> Result<Vec<Out>> {
    for index in 0..5 {
        call.check_scalar(index)?;
    }
    let bins = match size_of(call, 1, "dft_length")? {
        Dim::Known(length) => Dim::Known(length / 2 + 1),
        _ => Dim::Unknown,
    };
    let bands = size_of(call, 0, "num_mel_bins")?;
    Ok(vec![
        Out::dims(vec![bins, bands]).typed(call.dtype_attr(Attr::OutputDatatype)?),
    ])
}
