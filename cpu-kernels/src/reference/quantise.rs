//! Quantisation: scales and zero points per tensor, per axis or per block.
//!
//! Invariant: the quotient is rounded to its own type before it is rounded to an integer, as ONNX says.

use super::error::{Result, refuse, require};
use super::{Element, Storage, Tensor, index, minifloat};

/// For each element of a tensor of `shape`, its scale's index.
///
/// # Errors
/// If the scale's shape matches no granularity: tensor, axis or block.
pub fn scale_index(shape: &[usize], scale: &[usize], axis: i64, block: usize) -> Result<Vec<usize>> {
    let n = index::product(shape);
    if index::product(scale) == 1 && block == 0 {
        return Ok(vec![0; n]);
    }
    let axis = index::axis(axis, shape.len())?;
    if scale.len() == 1 && block == 0 {
        require!(
            scale[0] == shape[axis],
            "{} scales for an axis of {}",
            scale[0],
            shape[axis]
        );
        let (_, d, inner) = index::around(shape, axis);
        return Ok((0..n).map(|i| i / inner % d).collect());
    }
    require!(
        block > 0
            && scale.len() == shape.len()
            && (0..shape.len()).all(|d| {
                if d == axis {
                    scale[d] == shape[d].div_ceil(block)
                } else {
                    scale[d] == shape[d]
                }
            }),
        "scales {scale:?} for shape {shape:?} in blocks of {block} along axis {axis}"
    );
    let mut at = Vec::with_capacity(n);
    index::each(shape, |c| {
        let mut c = c.to_vec();
        c[axis] /= block;
        at.push(index::ravel(&c, scale));
    });
    Ok(at)
}

/// `v` rounded to what an element of the type can hold.
fn rounded(element: Element, v: f64) -> f64 {
    match element {
        Element::F32 => f64::from(v as f32),
        Element::F16 | Element::BF16 => minifloat::decode(element, minifloat::encode(element, v, false)),
        _ => v,
    }
}

/// How a tensor is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantisation {
    /// The axis of scales that are per axis or per block.
    pub axis: i64,
    /// Elements per block, or 0.
    pub block: usize,
    /// Whether 8-bit floats saturate.
    pub saturate: bool,
    /// The type in which the quotient is rounded.
    pub precision: Element,
}

/// `saturate(round(x / scale) + zero)` as `to`; of NaN the least code, as the kernels and ONNX's own evaluator have it.
///
/// # Errors
/// If the shapes do not fit or `to` is no quantised type.
pub fn quantise(
    x: &Tensor,
    scale: &Tensor,
    zero: Option<&Tensor>,
    to: Element,
    q: Quantisation,
) -> Result<Tensor> {
    require!(
        zero.is_none_or(|z| z.shape() == scale.shape() || z.len() == 1 && scale.len() == 1),
        "zero points {:?} for scales {:?}",
        zero.map(Tensor::shape),
        scale.shape()
    );
    let at = scale_index(x.shape(), scale.shape(), q.axis, q.block)?;
    let s = scale.to_f64s()?;
    let z = match zero {
        Some(z) => z.to_f64s()?,
        None => vec![0.0; s.len()],
    };
    let v = x.to_f64s()?;
    let quotients = v
        .iter()
        .zip(&at)
        .map(|(v, &i)| (rounded(q.precision, v / s[i]), z[i]));
    let shape = x.shape().to_vec();
    if let Some((low, high)) = to.int_range() {
        let ints: Vec<i128> = quotients
            .map(|(v, z)| match v.round_ties_even() + z {
                code if code.is_nan() => low,
                code => (code as i128).clamp(low, high),
            })
            .collect();
        return Tensor::from_i128s(to, shape, &ints);
    }
    require!(
        to.is_float() && to.bits().is_some_and(|b| b <= 8),
        "{to:?} is no quantised type"
    );
    let codes = quotients
        .map(|(v, z)| minifloat::encode(to, v + z, q.saturate) as u8)
        .collect();
    Tensor::new(shape, Storage::Code(to, codes))
}

/// `(x - zero) * scale` as `to`.
///
/// # Errors
/// If the shapes do not fit.
pub fn dequantise(
    x: &Tensor,
    scale: &Tensor,
    zero: Option<&Tensor>,
    to: Element,
    axis: i64,
    block: usize,
) -> Result<Tensor> {
    require!(
        zero.is_none_or(|z| z.shape() == scale.shape() || z.len() == 1 && scale.len() == 1),
        "zero points {:?} for scales {:?}",
        zero.map(Tensor::shape),
        scale.shape()
    );
    let at = scale_index(x.shape(), scale.shape(), axis, block)?;
    let s = scale.to_f64s()?;
    let z = match zero {
        Some(z) => z.to_f64s()?,
        None => vec![0.0; s.len()],
    };
    let v: Vec<f64> = x
        .to_f64s()?
        .iter()
        .zip(&at)
        .map(|(v, &i)| (v - z[i]) * s[i])
        .collect();
    Tensor::from_f64s(to, x.shape().to_vec(), &v)
}

/// `x` as `uint8` with a scale and zero point that cover its range and 0: tensor, scale, zero point.
///
/// # Errors
/// If the elements are no numbers.
pub fn dynamic(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let v = x.to_f64s()?;
    let low = v.iter().copied().fold(0.0, f64::min);
    let high = v.iter().copied().fold(0.0, f64::max);
    let scale = rounded(Element::F32, (rounded(Element::F32, high - low)) / 255.0);
    let zero = if scale == 0.0 {
        0.0
    } else {
        rounded(Element::F32, -low / scale)
            .clamp(0.0, 255.0)
            .round_ties_even()
    };
    let codes: Vec<f64> = v
        .iter()
        .map(|&v| {
            let q = if scale == 0.0 {
                0.0
            } else {
                rounded(Element::F32, v / scale)
            };
            (q.round_ties_even() + zero).clamp(0.0, 255.0)
        })
        .collect();
    Ok((
        Tensor::from_f64s(Element::U8, x.shape().to_vec(), &codes)?,
        Tensor::from_f64s(Element::F32, vec![], &[scale])?,
        Tensor::from_f64s(Element::U8, vec![], &[zero])?,
    ))
}

/// The integers of `x` minus zero points, one per index in `at`.
///
/// # Errors
/// If the elements are no integers.
pub fn centred(x: &Tensor, zero: Option<&Tensor>, at: impl Fn(usize) -> usize) -> Result<Vec<i64>> {
    let z = match zero {
        Some(z) => z.to_i64s()?,
        None => vec![0],
    };
    let v = x.to_i64s()?;
    v.iter()
        .enumerate()
        .map(|(i, &v)| match z.get(if z.len() == 1 { 0 } else { at(i) }) {
            Some(z) => Ok(v - z),
            None => refuse!("{} zero points are too few", z.len()),
        })
        .collect()
}

/// Sums times `factor(i)`, rounded, plus the zero point, saturated to `to`.
///
/// # Errors
/// If `to` is no integer type.
pub fn requantise(
    sums: &[i64],
    factor: impl Fn(usize) -> f64,
    zero: i64,
    to: Element,
    shape: Vec<usize>,
) -> Result<Tensor> {
    let Some((low, high)) = to.int_range() else {
        refuse!("{to:?} is no integer type");
    };
    let ints: Vec<i128> = sums
        .iter()
        .enumerate()
        .map(|(i, &v)| {
            let v = (v as f64 * factor(i)).round_ties_even() as i128 + i128::from(zero);
            v.clamp(low, high)
        })
        .collect();
    Tensor::from_i128s(to, shape, &ints)
}
