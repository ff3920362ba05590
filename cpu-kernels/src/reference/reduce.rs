//! Reductions, the place of an extreme, and running sums and products.
//!
//! Invariant: one group of elements is folded in row-major order, in `f64` or exactly.

use super::error::{Result, refuse, require};
use super::{Element, Tensor, Wide, index};

/// The kind of reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Reduction {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
}

/// Reduces `x` along `axes` (counted from the front); reduced dims become 1 or, without `keep`, vanish.
///
/// An empty group gives the neutral element: 0, 1, the lowest or highest value, or -inf for logarithms.
///
/// # Errors
/// If the reduction is not defined for the element type.
pub fn reduce(x: &Tensor, f: Reduction, axes: &[usize], keep: bool) -> Result<Tensor> {
    let mut shape = Vec::new();
    for (i, &d) in x.shape().iter().enumerate() {
        match (axes.contains(&i), keep) {
            (true, true) => shape.push(1),
            (true, false) => {}
            (false, _) => shape.push(d),
        }
    }
    let (bases, offsets) = index::groups(x.shape(), axes);
    let wide = match x.wide() {
        Wide::Float(v) => Wide::Float(
            bases
                .iter()
                .map(|&b| float_group(f, offsets.iter().map(move |o| b + o), &v))
                .collect(),
        ),
        Wide::Int(v) => Wide::Int(
            bases
                .iter()
                .map(|&b| int_group(f, x.element(), offsets.iter().map(move |o| b + o), &v))
                .collect(),
        ),
        Wide::Bool(v) => {
            let fold = |b: usize| -> Result<bool> {
                Ok(match f {
                    Reduction::Max => offsets.iter().any(|o| v[b + o]),
                    Reduction::Min => offsets.iter().all(|o| v[b + o]),
                    _ => refuse!("{f:?} is not defined for bools"),
                })
            };
            Wide::Bool(bases.iter().map(|&b| fold(b)).collect::<Result<_>>()?)
        }
        _ => refuse!("{f:?} is not defined for {:?}", x.element()),
    };
    Tensor::from_wide(x.element(), shape, wide)
}

fn float_group(f: Reduction, at: impl Iterator<Item = usize> + Clone, v: &[f64]) -> f64 {
    let values = at.map(|i| v[i]);
    match f {
        Reduction::Sum => values.sum(),
        Reduction::Mean => {
            let n = values.clone().count() as f64;
            values.sum::<f64>() / n
        }
        Reduction::Prod => values.product(),
        Reduction::Max => values.fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || a > b { a } else { b }),
        Reduction::Min => values.fold(f64::INFINITY, |a, b| if a.is_nan() || a < b { a } else { b }),
        Reduction::L1 => values.map(f64::abs).sum(),
        Reduction::L2 => values.map(|a| a * a).sum::<f64>().sqrt(),
        Reduction::SumSquare => values.map(|a| a * a).sum(),
        // the sum of an empty iterator is -0, whose logarithm is the same
        Reduction::LogSum => values.sum::<f64>().ln(),
        Reduction::LogSumExp => {
            let max = values
                .clone()
                .fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || a > b { a } else { b });
            if !max.is_finite() {
                return max;
            }
            max + values.map(|a| (a - max).exp()).sum::<f64>().ln()
        }
    }
}

fn int_group(f: Reduction, element: Element, at: impl Iterator<Item = usize> + Clone, v: &[i128]) -> i128 {
    let values = at.clone().map(|i| v[i]);
    let (low, high) = element.int_range().unwrap_or((0, 0));
    match f {
        Reduction::Sum => values.fold(0, i128::wrapping_add),
        Reduction::Mean => {
            // as NumPy's: the mean is a float that becomes an integer
            let n = values.clone().count() as f64;
            if n == 0.0 {
                0
            } else {
                cut(values.map(|a| a as f64).sum::<f64>() / n, low, high)
            }
        }
        Reduction::Prod => values.fold(1, i128::wrapping_mul),
        Reduction::Max => values.fold(low, i128::max),
        Reduction::Min => values.fold(high, i128::min),
        Reduction::L1 => values.map(i128::abs).sum(),
        Reduction::SumSquare => values.fold(0, |s, a| s.wrapping_add(a.wrapping_mul(a))),
        Reduction::L2 | Reduction::LogSum | Reduction::LogSumExp => {
            let floats: Vec<f64> = values.map(|a| a as f64).collect();
            cut(float_group(f, 0..floats.len(), &floats), low, high)
        }
    }
}

/// A float as an integer of this range. The specification leaves open what comes of one outside: here the low end of the
/// range, as of processors of the x86 family.
pub(super) fn cut(value: f64, low: i128, high: i128) -> i128 {
    let whole = value as i128;
    if value.is_nan() || !(low..=high).contains(&whole) {
        low
    } else {
        whole
    }
}

/// The index along `axis` of the largest (or smallest) element; of equals the first, or the last.
///
/// # Errors
/// If the axis is empty or the elements have no order.
pub fn arg_extreme(x: &Tensor, axis: usize, keep: bool, largest: bool, last: bool) -> Result<Tensor> {
    require!(
        x.shape()[axis] > 0,
        "axis {axis} of shape {:?} is empty",
        x.shape()
    );
    let (bases, offsets) = index::groups(x.shape(), &[axis]);
    fn find<T: PartialOrd + Copy>(v: &[T], b: usize, offsets: &[usize], largest: bool, last: bool) -> i64 {
        let mut best = 0;
        for i in 1..offsets.len() {
            let (new, old) = (v[b + offsets[i]], v[b + offsets[best]]);
            // the place of a NaN is taken for that of the extreme, as NumPy does
            let is_nan = |value: T| value.partial_cmp(&value).is_none();
            let better = match (is_nan(new), is_nan(old)) {
                (false, false) if largest => new > old,
                (false, false) => new < old,
                (new, old) => new && (last || !old),
            };
            if better || last && new == old {
                best = i;
            }
        }
        best as i64
    }
    let v: Vec<i64> = match x.wide() {
        Wide::Float(v) => bases
            .iter()
            .map(|&b| find(&v, b, &offsets, largest, last))
            .collect(),
        Wide::Int(v) => bases
            .iter()
            .map(|&b| find(&v, b, &offsets, largest, last))
            .collect(),
        _ => refuse!("{:?} elements have no order", x.element()),
    };
    let mut shape = x.shape().to_vec();
    if keep {
        shape[axis] = 1;
    } else {
        shape.remove(axis);
    }
    Tensor::from_i64s(shape, v)
}

/// Running sums (or products) along `axis`; `exclusive` leaves each element out of its own result.
///
/// # Errors
/// If the elements are no numbers.
pub fn cumulate(x: &Tensor, axis: usize, exclusive: bool, reverse: bool, product: bool) -> Result<Tensor> {
    fn run<T: Copy>(
        v: &mut [T],
        shape: &[usize],
        axis: usize,
        (exclusive, reverse): (bool, bool),
        start: T,
        f: impl Fn(T, T) -> T,
    ) {
        let (bases, offsets) = index::groups(shape, &[axis]);
        for b in bases {
            let mut total = start;
            for i in 0..offsets.len() {
                let i = if reverse { offsets.len() - 1 - i } else { i };
                let at = &mut v[b + offsets[i]];
                let next = f(total, *at);
                *at = if exclusive { total } else { next };
                total = next;
            }
        }
    }
    let how = (exclusive, reverse);
    let wide = match x.wide() {
        Wide::Float(mut v) => {
            if product {
                run(&mut v, x.shape(), axis, how, 1.0, |a, b| a * b);
            } else {
                run(&mut v, x.shape(), axis, how, 0.0, |a, b| a + b);
            }
            Wide::Float(v)
        }
        Wide::Int(mut v) => {
            if product {
                run(&mut v, x.shape(), axis, how, 1, i128::wrapping_mul);
            } else {
                run(&mut v, x.shape(), axis, how, 0, i128::wrapping_add);
            }
            Wide::Int(v)
        }
        _ => refuse!("running sums are not defined for {:?}", x.element()),
    };
    Tensor::from_wide(x.element(), x.shape().to_vec(), wide)
}
