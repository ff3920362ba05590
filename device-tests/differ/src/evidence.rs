//! Evidence that excuses a difference: computed for the case (`evidence.py`), never derived from an op's name.
//!
//! Invariants:
//! 1. Each differing element needs its own evidence; one without evidence leaves the whole unexcused.
//! 2. No evidence excuses nothing.

use std::collections::BTreeMap;

use anyhow::Result;
use polychip_ops::{DType, Literal};
use serde::Deserialize;

use crate::peer::{Judged, Tensors, read};
use crate::verdict::{difference, relative};

/// What a class may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Evidence {
    /// Nodes each of which agrees with ONNX Runtime on our own values, and a result no further from ONNX Runtime's than rounding
    /// between its own nodes carries it ([`within_rounding`]).
    Rounding,
    /// Nodes each of which agrees with ONNX Runtime on our own values, and which one by one give what the whole gives.
    NodeByNode,
    /// Averages in the middle between two integers ([`in_the_middle`]).
    Middle,
    /// Windows that see nothing but padding ([`sees_nothing`]).
    EmptyWindow,
    /// A pool whose `auto_pad` is another with dilations left out, or negative ([`pads_otherwise`]).
    Padding,
    /// Partial products that leave the range of their type, and values that some order of the factors gives
    /// ([`some_order`]).
    PartialProducts,
    /// Codes of 8 bits of which none is further than its neighbour ([`one_step`]).
    OneStep,
}

/// Whether our outputs lie where ONNX Runtime's go when what passes between its nodes is moved by rounding: per element,
/// within the samples' range, widened by its own width to either side (24 samples do not reach its ends) and by what a
/// single node may differ by. A NaN or an infinity must be in a sample; integers must lie between samples.
fn within_rounding(ours: &Tensors, theirs: &Tensors, samples: &[Tensors]) -> bool {
    if samples.is_empty() || !ours.keys().eq(theirs.keys()) {
        return false;
    }
    ours.iter().all(|(name, ours)| {
        let drawn = samples.iter().filter_map(|sample| sample.get(name));
        let alike: Vec<&Literal> = drawn
            .chain(theirs.get(name))
            .filter(|one| one.dtype == ours.dtype && one.shape == ours.shape)
            .collect();
        reached(ours, &alike)
    })
}

/// Whether a tensor lies where others of its type and shape are.
fn reached(ours: &Literal, others: &[&Literal]) -> bool {
    if others.iter().any(|one| one.bytes == ours.bytes) {
        return true;
    }
    if !ours.dtype.is_float() {
        let read: Option<Vec<_>> = others.iter().map(|one| one.as_i64s()).collect();
        let (Some(ours), Some(read)) = (ours.as_i64s(), read) else {
            return false;
        };
        return !read.is_empty()
            && ours.iter().enumerate().all(|(at, value)| {
                let at = read.iter().map(|one| one[at]);
                at.clone().min() <= Some(*value) && Some(*value) <= at.max()
            });
    }
    let read: Option<Vec<_>> = others.iter().map(|one| one.as_f64s()).collect();
    let (Some(values), Some(read)) = (ours.as_f64s(), read) else {
        return false;
    };
    let largest = read
        .last()
        .into_iter()
        .flatten()
        .filter(|value| value.is_finite())
        .fold(0.0f64, |most, value| most.max(value.abs()));
    let noise = relative(ours.dtype) * largest;
    values.iter().enumerate().all(|(at, &value)| {
        let at = read.iter().map(|one| one[at]);
        if value.is_nan() {
            return at.clone().any(f64::is_nan);
        }
        if value.is_infinite() {
            return at.clone().any(|one| one == value);
        }
        let finite = at.filter(|one| one.is_finite());
        let low = finite.clone().fold(f64::INFINITY, f64::min);
        let high = finite.fold(f64::NEG_INFINITY, f64::max);
        let room = high - low + noise;
        low - room <= value && value <= high + room
    })
}

/// Powers of two within which a type's numbers lie: below the first nothing is left but zero, from the second on infinity;
/// none for what is no float.
fn range(dtype: DType) -> Option<(f64, f64)> {
    match dtype {
        DType::F16 => Some((-25.0, 16.0)),
        DType::F32 => Some((-150.0, 128.0)),
        DType::F64 => Some((-1075.0, 1024.0)),
        _ => None,
    }
}

/// Rounding of as many factors as a partial product has, in powers of two.
const SLACK: f64 = 1e-2;

/// How far the partial products of each element can go (`evidence.py`, `products`).
struct Products {
    /// Of the largest, in powers of two: at least 0.
    over: Vec<f64>,
    /// Of the smallest, in powers of two: at most 0.
    under: Vec<f64>,
    /// Whether a factor is zero.
    zero: Vec<bool>,
    /// Whether a factor is NaN or infinite, so that the product is.
    special: Vec<bool>,
    /// Whether the exact product is negative.
    negative: Vec<bool>,
}

impl Products {
    /// Reads what the peer has computed; none where a figure is missing.
    fn read(tensors: &Tensors) -> Option<Products> {
        let reals = |name| tensors.get(name)?.as_f64s();
        let flags = |name: &str| {
            let flags: &Literal = tensors.get(name)?;
            Some(flags.bytes.iter().map(|&byte| byte != 0).collect::<Vec<bool>>())
        };
        Some(Products {
            over: reals("over")?,
            under: reals("under")?,
            zero: flags("zero")?,
            special: flags("special")?,
            negative: flags("negative")?,
        })
    }
}

/// Whether every element of our product that is not ONNX Runtime's is the exact one, or one that some order of its factors
/// gives because a partial product leaves the range of the type on the way.
fn some_order(ours: &Tensors, theirs: &Tensors, products: &Products) -> bool {
    let (Some(mine), Some(wanted)) = (ours.values().next(), theirs.values().next()) else {
        return false;
    };
    let (Some((least, most)), Some(values), Some(others)) =
        (range(mine.dtype), mine.as_f64s(), wanted.as_f64s())
    else {
        return false;
    };
    if mine.dtype != wanted.dtype || mine.shape != wanted.shape || values.len() != products.over.len() {
        return false;
    }
    values
        .iter()
        .zip(others)
        .enumerate()
        .all(|(at, (&value, other))| {
            if value == other || value.is_nan() && other.is_nan() {
                return true;
            }
            let overflows = products.over[at] >= most - SLACK;
            let vanishes = products.under[at] <= least + SLACK;
            let (zero, special) = (products.zero[at], products.special[at]);
            if special {
                // what no order changes is no matter of range
                return false;
            }
            if value.is_nan() {
                return overflows && (zero || vanishes);
            }
            if value.is_infinite() {
                return overflows && !zero;
            }
            if value == 0.0 {
                return zero || vanishes;
            }
            let exact = products.over[at] + products.under[at];
            let near = (value.abs().log2() - exact).abs() <= SLACK * 0.1
                || (value.abs() - exact.exp2()).abs() <= (least + 1.0).exp2();
            !zero && near && (value < 0.0) == products.negative[at]
        })
}

/// Which evidence there is for a case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    rounding: bool,
    node_by_node: bool,
    middle: bool,
    empty_window: bool,
    padding: bool,
    partial_products: bool,
    one_step: bool,
}

impl Found {
    /// What there is of it for a part, of which the peer has computed the figures. `made` is what our nodes made one by one,
    /// where each of them agreed with ONNX Runtime.
    ///
    /// # Errors
    /// A file of the peer cannot be read.
    pub(crate) fn of(
        ours: &Tensors,
        theirs: &Tensors,
        made: Option<&Tensors>,
        judged: &Judged,
    ) -> Result<Found> {
        let samples: Vec<Tensors> = judged
            .rounded
            .iter()
            .map(|one| read(one))
            .collect::<Result<_>>()?;
        let products = judged.products.as_deref().map(read).transpose()?;
        let products = products.as_ref().and_then(Products::read);
        let averages = judged.averages.as_deref().map(read).transpose()?;
        Ok(Found {
            rounding: made.is_some() && within_rounding(ours, theirs, &samples),
            node_by_node: made.is_some_and(|made| is_made(ours, made)),
            middle: averages.is_some_and(|averages| in_the_middle(ours, theirs, &averages)),
            empty_window: sees_nothing(ours, theirs),
            padding: pads_otherwise(&judged.attributes),
            partial_products: products.is_some_and(|products| some_order(ours, theirs, &products)),
            one_step: one_step(ours, theirs),
        })
    }

    pub(crate) fn holds(self, evidence: Evidence) -> bool {
        match evidence {
            Evidence::Rounding => self.rounding,
            Evidence::NodeByNode => self.node_by_node,
            Evidence::Middle => self.middle,
            Evidence::EmptyWindow => self.empty_window,
            Evidence::Padding => self.padding,
            Evidence::PartialProducts => self.partial_products,
            Evidence::OneStep => self.one_step,
        }
    }
}

/// Whether all outputs are codes of 8 bits, and none is more than one from ONNX Runtime's.
fn one_step(ours: &Tensors, theirs: &Tensors) -> bool {
    let near = |(a, b): (&Literal, &Literal)| {
        let codes = matches!(a.dtype, DType::I8 | DType::U8);
        let (Some(x), Some(y)) = (a.as_i64s(), b.as_i64s()) else {
            return false;
        };
        codes
            && a.dtype == b.dtype
            && a.shape == b.shape
            && x.iter().zip(&y).all(|(x, y)| x.abs_diff(*y) <= 1)
    };
    !ours.is_empty() && ours.keys().eq(theirs.keys()) && ours.values().zip(theirs.values()).all(near)
}

/// Whether all elements that differ are the two integers around an average that lies in the middle of them, but for rounding.
fn in_the_middle(ours: &Tensors, theirs: &Tensors, averages: &Tensors) -> bool {
    let (Some(a), Some(b), Some(averages)) = (
        ours.values().next(),
        theirs.values().next(),
        averages.values().next(),
    ) else {
        return false;
    };
    let (Some(x), Some(y), Some(between)) = (a.as_i64s(), b.as_i64s(), averages.as_f64s()) else {
        return false;
    };
    a.dtype == b.dtype
        && a.shape == b.shape
        && a.shape == averages.shape
        && x.iter().zip(&y).zip(between).all(|((&x, &y), between)| {
            let middle = (x as f64 + y as f64) / 2.0;
            // the evaluator's weights are in f32 on the way
            let rounding = 32.0 * f64::from(f32::EPSILON) * between.abs().max(1.0);
            x == y || x.abs_diff(y) == 1 && (between - middle).abs() <= rounding
        })
}

/// Whether all that differs are maxima of nothing, minus infinity here and that or the least finite number in ONNX Runtime, and
/// what other outputs say of the same windows.
fn sees_nothing(ours: &Tensors, theirs: &Tensors) -> bool {
    let (Some(maxima), Some(others)) = (ours.values().next(), theirs.values().next()) else {
        return false;
    };
    let (Some(a), Some(b), Some(least)) = (maxima.as_f64s(), others.as_f64s(), least(maxima.dtype)) else {
        return false;
    };
    let nothing: Vec<bool> = a
        .iter()
        .zip(&b)
        .map(|(&a, &b)| a == f64::NEG_INFINITY && (b == least || b == a))
        .collect();
    let alike = |(ours, theirs): (&Literal, &Literal)| {
        let width = ours.dtype.byte_width().unwrap_or(1);
        let elements = ours
            .bytes
            .chunks_exact(width)
            .zip(theirs.bytes.chunks_exact(width));
        ours.dtype == theirs.dtype
            && ours.shape == theirs.shape
            && ours.shape == maxima.shape
            && elements.zip(&nothing).all(|((a, b), nothing)| a == b || *nothing)
    };
    nothing.contains(&true) && ours.keys().eq(theirs.keys()) && ours.values().zip(theirs.values()).all(alike)
}

/// The least finite number of a type of floats.
fn least(dtype: DType) -> Option<f64> {
    match dtype {
        DType::F16 => Some(-65504.0),
        DType::F32 => Some(f32::MIN.into()),
        DType::F64 => Some(f64::MIN),
        _ => None,
    }
}

/// Whether a window with `auto_pad` SAME has a dilation, or a stride that is longer than it is.
fn pads_otherwise(attributes: &BTreeMap<String, String>) -> bool {
    let numbers = |name: &str| -> Vec<usize> {
        let words = attributes.get(name).map_or("", String::as_str);
        let numbers = words.trim_matches(['[', ']']).split(',');
        numbers.filter_map(|one| one.trim().parse().ok()).collect()
    };
    let same = attributes
        .get("auto_pad")
        .is_some_and(|pad| pad.starts_with("SAME"));
    let mut longer = numbers("strides").into_iter().zip(numbers("kernel_shape"));
    same && (numbers("dilations").iter().any(|&one| one > 1)
        || longer.any(|(stride, kernel)| stride > kernel))
}

/// Whether the outputs of the whole are those that its nodes made one by one.
fn is_made(whole: &Tensors, made: &Tensors) -> bool {
    let of_whole = made.iter().filter(|(name, _)| whole.contains_key(*name));
    let of_whole = of_whole
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    difference(whole, &of_whole).is_none()
}

#[cfg(test)]
mod tests;
