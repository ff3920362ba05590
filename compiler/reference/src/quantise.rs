//! Quantisation ops and the integer products between them.
//!
//! Invariant: products are sums of exact integers; scales enter once, at the end.

use polychip_cpu_kernels::reference::quantise::{self as kernel, Quantisation};
use polychip_cpu_kernels::reference::{Element, Result, Tensor, conv, index, matmul};
use polychip_ops::operator::{Conv, Dequantize, Quantize};
use polychip_ops::{DType, DTypes, Op};

use crate::call::{Call, Outputs, bad, one};
use crate::literal::element;
use crate::row::{ANY, FLOATS, Row};
use crate::window;

const BYTES: DTypes = DTypes::of(&[DType::I8, DType::U8]);
const I32: DTypes = DTypes::of(&[DType::I32]);
const F32: DTypes = DTypes::of(&[DType::F32]);
const SOURCE: DTypes = FLOATS.with(I32);
const SCALE: DTypes = SOURCE.with(DTypes::of(&[DType::F8E8M0]));
const CODES: DTypes = ANY.without(DTypes::of(&[
    DType::String,
    DType::Bool,
    DType::C64,
    DType::C128,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
]));

pub(crate) fn row(op: Op) -> Option<Row> {
    Some(match op {
        Op::QuantizeLinear => Row {
            takes: &[SOURCE, SCALE, CODES],
            run: quantise,
        },
        Op::DequantizeLinear => Row {
            takes: &[CODES, SCALE, CODES],
            run: dequantise,
        },
        Op::DynamicQuantizeLinear => Row {
            takes: &[F32],
            run: |c| {
                let (y, scale, zero) = kernel::dynamic(c.input(0)?)?;
                Ok(vec![y, scale, zero])
            },
        },
        Op::MatMulInteger => Row {
            takes: &[BYTES],
            run: matmul_integer,
        },
        Op::ConvInteger => Row {
            takes: &[BYTES],
            run: conv_integer,
        },
        Op::QLinearMatMul => Row {
            takes: &[BYTES, FLOATS, BYTES, BYTES, FLOATS, BYTES, FLOATS, BYTES],
            run: qlinear_matmul,
        },
        Op::QLinearConv => Row {
            takes: &[BYTES, F32, BYTES, BYTES, F32, BYTES, F32, BYTES, I32],
            run: qlinear_conv,
        },
        _ => return None,
    })
}

fn quantise(c: &Call<'_>) -> Outputs {
    let (x, scale, zero) = (c.input(0)?, c.input(1)?, c.optional(2));
    let node: Quantize = c.typed()?;
    let to = match (zero, node.output.map(element)) {
        (Some(z), Some(named)) if z.element() != named => {
            return bad(format!(
                "output_dtype {named:?} with zero points of {:?}",
                z.element()
            ));
        }
        (Some(z), _) => z.element(),
        (None, named) => named.unwrap_or(Element::U8),
    };
    let q = Quantisation {
        axis: node.axis,
        block: node.block,
        saturate: node.saturate,
        precision: node.precision.map_or(scale.element(), element),
    };
    one(kernel::quantise(x, scale, zero, to, q))
}

fn dequantise(c: &Call<'_>) -> Outputs {
    let (x, scale) = (c.input(0)?, c.input(1)?);
    let node: Dequantize = c.typed()?;
    let to = node.output.map_or(scale.element(), element);
    one(kernel::dequantise(
        x,
        scale,
        c.optional(2),
        to,
        node.axis,
        node.block,
    ))
}

/// For element `i` of a matrix stack, the index of its row's (or column's) zero point or scale. A vector
/// holds one per row (column) of each matrix; a stack `[…, m, 1]` (`[…, 1, n]`) one per row of the stack.
fn per_line(shape: &[usize], len: usize, columns: bool) -> impl Fn(usize) -> usize + use<> {
    let n = shape.last().copied().unwrap_or(1).max(1);
    let m = if shape.len() > 1 {
        shape[shape.len() - 2]
    } else {
        1
    }
    .max(1);
    move |i| {
        let at = if columns { i / (m * n) * n + i % n } else { i / n };
        at % len.max(1)
    }
}

fn integer_product(
    (a, a_zero): (&Tensor, Option<&Tensor>),
    (b, b_zero): (&Tensor, Option<&Tensor>),
) -> Result<(Vec<usize>, Vec<i64>)> {
    let lines = |x: &Tensor, zero: Option<&Tensor>, columns| {
        per_line(x.shape(), zero.map_or(1, Tensor::len), columns)
    };
    let left = kernel::centred(a, a_zero, lines(a, a_zero, false))?;
    let right = kernel::centred(b, b_zero, lines(b, b_zero, true))?;
    matmul::product(&left, a.shape(), &right, b.shape())
}

fn matmul_integer(c: &Call<'_>) -> Outputs {
    let (shape, v) = integer_product((c.input(0)?, c.optional(2)), (c.input(1)?, c.optional(3)))?;
    let v: Vec<i128> = v.into_iter().map(i128::from).collect();
    one(Tensor::from_i128s(Element::I32, shape, &v))
}

fn qlinear_matmul(c: &Call<'_>) -> Outputs {
    let (a, b) = (c.input(0)?, c.input(3)?);
    let (a_scale, b_scale, y_scale) = (
        c.input(1)?.to_f64s()?,
        c.input(4)?.to_f64s()?,
        c.input(6)?.to_f64s()?,
    );
    let y_zero = c.input(7)?;
    let zeros = y_zero.to_i64s()?;
    let (shape, sums) = integer_product((a, Some(c.input(2)?)), (b, Some(c.input(5)?)))?;
    if a_scale.is_empty() || b_scale.is_empty() || y_scale.len() != 1 || zeros.len() != 1 {
        return bad("an output scale and zero point are scalars here");
    }
    let rows = per_line(&shape, a_scale.len(), false);
    let columns = per_line(&shape, b_scale.len(), true);
    let factor = |i: usize| a_scale[rows(i)] * b_scale[columns(i)] / y_scale[0];
    one(kernel::requantise(
        &sums,
        factor,
        zeros[0],
        y_zero.element(),
        shape.clone(),
    ))
}

fn integer_conv(
    c: &Call<'_>,
    (x, x_zero): (&Tensor, Option<&Tensor>),
    (w, w_zero): (&Tensor, Option<&Tensor>),
) -> Result<(Vec<usize>, Vec<i64>)> {
    let node: Conv = c.typed()?;
    let window = window::sliding(&node.window, x.shape(), Some(w.shape()))?;
    if x_zero.is_some_and(|z| z.len() != 1) {
        return bad("the input has one zero point");
    }
    let filter = index::product(&w.shape()[1..]).max(1);
    let left = kernel::centred(x, x_zero, |_| 0)?;
    let right = kernel::centred(w, w_zero, |i| i / filter)?;
    let groups = node.groups.get();
    let sums = conv::convolve(&left, x.shape(), &right, w.shape(), &window, groups)?;
    let mut shape = vec![x.shape()[0], w.shape()[0]];
    shape.extend(&window.output);
    Ok((shape, sums))
}

fn conv_integer(c: &Call<'_>) -> Outputs {
    let (shape, v) = integer_conv(c, (c.input(0)?, c.optional(2)), (c.input(1)?, c.optional(3)))?;
    let v: Vec<i128> = v.into_iter().map(i128::from).collect();
    one(Tensor::from_i128s(Element::I32, shape, &v))
}

fn qlinear_conv(c: &Call<'_>) -> Outputs {
    let (x, w) = (c.input(0)?, c.input(3)?);
    let (x_scale, w_scale, y_scale) = (
        c.input(1)?.to_f64s()?,
        c.input(4)?.to_f64s()?,
        c.input(6)?.to_f64s()?,
    );
    let y_zero = c.input(7)?;
    let zeros = y_zero.to_i64s()?;
    let (shape, mut sums) = integer_conv(c, (x, Some(c.input(2)?)), (w, Some(c.input(5)?)))?;
    let (m, places) = (shape[1], index::product(&shape[2..]));
    if x_scale.len() != 1
        || y_scale.len() != 1
        || zeros.len() != 1
        || (w_scale.len() != 1 && w_scale.len() != m)
    {
        return bad(format!("scales of {} filters", w_scale.len()));
    }
    if let Some(bias) = c.optional_ints(8)? {
        if bias.len() != m {
            return bad(format!("a bias of {} for {m} filters", bias.len()));
        }
        sums.iter_mut()
            .enumerate()
            .for_each(|(i, v)| *v += bias[i / places % m]);
    }
    let factor = |i: usize| {
        let filter = if w_scale.len() == 1 { 0 } else { i / places % m };
        x_scale[0] * w_scale[filter] / y_scale[0]
    };
    one(kernel::requantise(
        &sums,
        factor,
        zeros[0],
        y_zero.element(),
        shape.clone(),
    ))
}
