//! Comparisons, tests of one number, and the choice between two tensors.
//!
//! Invariant: a comparison with NaN is false.

use super::error::{Result, refuse, require};
use super::{Tensor, Wide, index};

/// A comparison of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
        }
    }
}

/// `f` of each pair of elements, broadcasting.
///
/// # Errors
/// If the shapes do not broadcast or the element types differ.
pub fn compare(f: Comparison, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    fn zip<T: PartialOrd>(f: Comparison, a: &[T], ia: &[usize], b: &[T], ib: &[usize]) -> Vec<bool> {
        ia.iter().zip(ib).map(|(&i, &j)| f.holds(&a[i], &b[j])).collect()
    }
    require!(
        a.element() == b.element(),
        "both operands need one element type: {:?} meets {:?}",
        a.element(),
        b.element()
    );
    let shape = index::broadcast(&[a.shape(), b.shape()])?;
    let ia = index::broadcast_index(a.shape(), &shape)?;
    let ib = index::broadcast_index(b.shape(), &shape)?;
    let v = match (a.wide(), b.wide()) {
        (Wide::Float(x), Wide::Float(y)) => zip(f, &x, &ia, &y, &ib),
        (Wide::Int(x), Wide::Int(y)) => zip(f, &x, &ia, &y, &ib),
        (Wide::Bool(x), Wide::Bool(y)) => zip(f, &x, &ia, &y, &ib),
        (Wide::Text(x), Wide::Text(y)) => zip(f, &x, &ia, &y, &ib),
        (Wide::Complex(x), Wide::Complex(y)) if f == Comparison::Equal => zip(f, &x, &ia, &y, &ib),
        _ => refuse!("{f:?} is not defined for {:?}", a.element()),
    };
    Tensor::from_bools(shape, v)
}

/// Whether each element is NaN.
///
/// # Errors
/// If the elements are not real numbers.
pub fn is_nan(x: &Tensor) -> Result<Tensor> {
    Tensor::from_bools(
        x.shape().to_vec(),
        x.to_f64s()?.iter().map(|v| v.is_nan()).collect(),
    )
}

/// Whether each element is an infinity of a sign that is looked for.
///
/// # Errors
/// If the elements are not real numbers.
pub fn is_inf(x: &Tensor, positive: bool, negative: bool) -> Result<Tensor> {
    let test = |v: &f64| v.is_infinite() && if *v > 0.0 { positive } else { negative };
    Tensor::from_bools(x.shape().to_vec(), x.to_f64s()?.iter().map(test).collect())
}

/// `a` where `condition` holds, else `b`, all three broadcasting.
///
/// # Errors
/// If the shapes do not broadcast, the element types differ, or the condition is no bool.
pub fn choose(condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let shape = index::broadcast(&[condition.shape(), a.shape(), b.shape()])?;
    let c = condition.to_bools()?;
    let ic = index::broadcast_index(condition.shape(), &shape)?;
    let ia = index::broadcast_index(a.shape(), &shape)?;
    let ib = index::broadcast_index(b.shape(), &shape)?;
    // both sources one after the other, so that one selection does for every element type
    let mut both = Tensor::zeros(a.element(), vec![a.len() + b.len()])?;
    both.copy_run(0, a, 0, a.len())?;
    both.copy_run(a.len(), b, 0, b.len())?;
    let from: Vec<usize> = (0..ic.len())
        .map(|i| if c[ic[i]] { ia[i] } else { a.len() + ib[i] })
        .collect();
    both.select(shape, &from)
}
