//! Convolutions, pools and matrix products.
//!
//! Invariant: images are `[n, h, w, c]`, filters `[kh, kw, in, out]`, weights of a full connection `[units, in]`.

use polychip_emulator_qnn_format::{Dtype, Encoding, Linear, Tensor};
use polychip_ops::{Attr, AttrValue, Attributes, Op};

use crate::real;
use crate::recipe::{Recipe, Value, with};
use crate::view::{Refusal, View};

const X: Value = Value::Input(0);
const W: Value = Value::Input(1);
const BIAS: Value = Value::Input(2);

pub(super) fn lower(view: &View<'_>) -> Option<Result<Recipe, Refusal>> {
    Some(match view.op {
        "Conv2d" => conv(view, false),
        "DepthWiseConv2d" => conv(view, true),
        "TransposeConv2d" => transposed(view),
        "PoolMax2d" => pool(view, Op::MaxPool),
        "PoolAvg2d" => pool(view, Op::AveragePool),
        "FullyConnected" => full(view),
        "MatMul" => matmul(view),
        _ => return None,
    })
}

/// Window sizes of a convolution: `[h, w]` each, pads `[top, left, bottom, right]`.
pub(crate) struct Geometry {
    pub(crate) strides: [i64; 2],
    pub(crate) dilations: [i64; 2],
    pub(crate) pads: [i64; 4],
    pub(crate) group: i64,
}

/// The window of a convolution.
pub(crate) fn geometry(view: &View<'_>, depthwise: bool) -> Result<Geometry, Refusal> {
    let x = view.ranked(0, 4)?;
    view.ranked(1, 4)?;
    let pair = |name: &str, default: Option<i64>| -> Result<[i64; 2], Refusal> {
        match (view.ints(name)?, default) {
            (None, Some(value)) => Ok([value; 2]),
            _ => view.list(name, 2).map(|v| [v[0], v[1]]),
        }
    };
    let pads = match view.ints("pad_amount")? {
        None => [0; 4],
        Some(_) => {
            let p = view.list("pad_amount", 4)?;
            [p[0], p[2], p[1], p[3]]
        }
    };
    Ok(Geometry {
        strides: pair("stride", None)?,
        dilations: pair("dilation", Some(1))?,
        pads,
        group: if depthwise {
            x[3] as i64
        } else {
            view.int("group", 1)?
        },
    })
}

/// A bias of whole numbers whose scale is 0 or left out counts in units of the product of both other scales: so LiteRT's
/// client of the vendor's library has it beside weights with a scale per channel. Given with those scales.
pub(crate) fn scaled_bias(view: &View<'_>) -> Option<Tensor> {
    if !matches!(
        view.op,
        "Conv2d" | "DepthWiseConv2d" | "TransposeConv2d" | "FullyConnected"
    ) {
        return None;
    }
    let (x, w, bias) = (view.input(0).ok()?, view.input(1).ok()?, view.input(2).ok()?);
    let whole = matches!(bias.known_dtype()?, Dtype::Sfixed32 | Dtype::Int32);
    let scaled = bias
        .encoding
        .steps()
        .is_some_and(|(_, steps)| steps.iter().any(|step| step.scale != 0.0));
    if !whole || scaled || !x.known_dtype()?.is_fixed() {
        return None;
    }
    let scale = real::one_step(x)?.scale;
    let (axis, steps) = w.encoding.steps()?;
    let steps: Vec<Linear> = steps
        .iter()
        .map(|step| Linear {
            scale: scale * step.scale,
            offset: 0,
        })
        .collect();
    Some(Tensor {
        dtype: Dtype::Sfixed32.code(),
        encoding: match axis {
            Some(_) => Encoding::PerAxis { axis: 0, steps },
            None => Encoding::PerTensor(*steps.first()?),
        },
        ..bias.clone()
    })
}

fn window(g: &Geometry) -> Attributes {
    Attributes::new()
        .with_ints(Attr::Strides, &g.strides)
        .with_ints(Attr::Pads, &g.pads)
        .with_int(Attr::Group, g.group)
}

fn conv(view: &View<'_>, depthwise: bool) -> Result<Recipe, Refusal> {
    let g = geometry(view, depthwise)?;
    let mut r = Recipe::default();
    let x = r.channels_first(X, 4);
    let w = r.transpose(W, &[3, 2, 0, 1]);
    let bias = view.has(2).then_some(BIAS);
    let attributes = window(&g).with_ints(Attr::Dilations, &g.dilations);
    let y = r.many(Op::Conv, attributes, &[Some(x), Some(w), bias], 1)[0];
    let y = r.channels_last(y, 4);
    Ok(r.gives(&[y]))
}

fn transposed(view: &View<'_>) -> Result<Recipe, Refusal> {
    let g = geometry(view, false)?;
    let extra = match view.ints("output_padding")? {
        None => vec![0, 0],
        Some(_) => view.list("output_padding", 2)?,
    };
    let mut r = Recipe::default();
    let x = r.channels_first(X, 4);
    let w = r.transpose(W, &[2, 3, 0, 1]);
    let bias = view.has(2).then_some(BIAS);
    let attributes = window(&g).with_ints(Attr::OutputPadding, &extra);
    let y = r.many(Op::ConvTranspose, attributes, &[Some(x), Some(w), bias], 1)[0];
    let y = r.channels_last(y, 4);
    Ok(r.gives(&[y]))
}

fn pool(view: &View<'_>, op: Op) -> Result<Recipe, Refusal> {
    view.ranked(0, 4)?;
    let pads = match view.ints("pad_amount")? {
        None => vec![0; 4],
        Some(_) => view.list("pad_amount", 4)?,
    };
    let stride = match view.ints("stride")? {
        None => vec![1; 2],
        Some(_) => view.list("stride", 2)?,
    };
    let mut attributes = Attributes::new()
        .with_ints(Attr::KernelShape, &view.list("filter_size", 2)?)
        .with_ints(Attr::Strides, &stride)
        .with_ints(Attr::Pads, &[pads[0], pads[2], pads[1], pads[3]])
        .with_int(Attr::CeilMode, view.int("rounding_mode", 0)?);
    if op == Op::AveragePool {
        let counted = i64::from(view.flag("count_pad_for_edges", false)?);
        attributes = attributes.with_int(Attr::CountIncludePad, counted);
    }
    let mut r = Recipe::default();
    let x = r.channels_first(X, 4);
    let y = r.step(op, attributes, &[x]);
    let y = r.channels_last(y, 4);
    Ok(r.gives(&[y]))
}

fn full(view: &View<'_>) -> Result<Recipe, Refusal> {
    let (x, w) = (view.shape(0)?, view.ranked(1, 2)?);
    let (units, inputs) = (w[0], w[1]);
    let count: usize = x.iter().product();
    if inputs == 0 || !count.is_multiple_of(inputs) {
        return Refusal::rule(format!("FullyConnected: {x:?} is not rows of {inputs}"));
    }
    let mut r = Recipe::default();
    let rows = r.reshape(X, &[-1, inputs as i64]);
    let mut args = vec![rows, W];
    if view.has(2) {
        args.push(BIAS);
    }
    let mut y = r.step(Op::Gemm, with([(Attr::TransB, AttrValue::Int(1))]), &args);
    if view.flag("keep_dims", false)? {
        let mut shape: Vec<i64> = x[..x.len() - 1].iter().map(|&d| d as i64).collect();
        shape.push(units as i64);
        y = r.reshape(y, &shape);
    }
    Ok(r.gives(&[y]))
}

fn matmul(view: &View<'_>) -> Result<Recipe, Refusal> {
    let mut r = Recipe::default();
    let mut side = |i: usize, name: &str| -> Result<Value, Refusal> {
        let rank = view.shape(i)?.len();
        if !view.flag(name, false)? {
            return Ok(Value::Input(i));
        }
        if rank < 2 {
            return Refusal::rule(format!("MatMul: input {i} of rank {rank} is not transposed"));
        }
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(rank - 1, rank - 2);
        Ok(r.transpose(Value::Input(i), &perm))
    };
    let (a, b) = (side(0, "transpose_in0")?, side(1, "transpose_in1")?);
    let mut y = r.plain(Op::MatMul, &[a, b]);
    if view.has(2) {
        y = r.plain(Op::Add, &[y, BIAS]);
    }
    Ok(r.gives(&[y]))
}
