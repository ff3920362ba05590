//! Ops that order or look for elements: the k largest, unique values, places that are not zero.
//!
//! Invariant: equal elements keep the order of their indices; NaN counts as larger than any number.

use std::cmp::Ordering;

use super::error::{Result, refuse, require};
use super::{Tensor, Wide, index};

fn order(x: &Wide, i: usize, j: usize) -> Ordering {
    match x {
        Wide::Float(v) => v[i]
            .partial_cmp(&v[j])
            .unwrap_or_else(|| v[i].is_nan().cmp(&v[j].is_nan())),
        Wide::Int(v) => v[i].cmp(&v[j]),
        Wide::Bool(v) => v[i].cmp(&v[j]),
        Wide::Text(v) => v[i].cmp(&v[j]),
        Wide::Complex(v) => v[i].partial_cmp(&v[j]).unwrap_or(Ordering::Equal),
    }
}

/// Sorts indices; equals keep their order. One sort for all of these, which would else be compiled for each way to compare.
pub(super) fn by(indices: &mut [usize], compare: &dyn Fn(usize, usize) -> Ordering) {
    indices.sort_by(|&a, &b| compare(a, b));
}

/// The `k` largest (or smallest) elements along `axis`, in order, and their indices.
///
/// # Errors
/// If there are fewer than `k`.
pub fn top_k(x: &Tensor, k: usize, axis: usize, largest: bool) -> Result<(Tensor, Tensor)> {
    let (outer, n, inner) = index::around(x.shape(), axis);
    require!(k <= n, "k is {k}, but axis {axis} has {n} elements");
    let wide = x.wide();
    let mut from = vec![0; outer * k * inner];
    let mut places = vec![0i64; outer * k * inner];
    for o in 0..outer {
        for i in 0..inner {
            let at = |j: usize| (o * n + j) * inner + i;
            let mut order_of: Vec<usize> = (0..n).collect();
            by(&mut order_of, &|a, b| {
                let by_value = order(&wide, at(a), at(b));
                if largest { by_value.reverse() } else { by_value }
            });
            for (rank, &j) in order_of.iter().take(k).enumerate() {
                let to = (o * k + rank) * inner + i;
                from[to] = at(j);
                places[to] = j as i64;
            }
        }
    }
    let mut shape = x.shape().to_vec();
    shape[axis] = k;
    Ok((x.select(shape.clone(), &from)?, Tensor::from_i64s(shape, places)?))
}

/// The result of [`unique`].
#[derive(Clone, Debug, PartialEq)]
pub struct Unique {
    /// The different elements (or slices along the axis).
    pub values: Tensor,
    /// Index of the first occurrence of each.
    pub first: Tensor,
    /// For each element (or slice) of the input, its index in `values`.
    pub inverse: Tensor,
    /// Number of occurrences of each.
    pub counts: Tensor,
}

/// The different elements of `x`, or with an axis its different slices, sorted or in order of appearance.
///
/// # Errors
/// If the shape overflows, which it cannot.
pub fn unique(x: &Tensor, axis: Option<usize>, sorted: bool) -> Result<Unique> {
    let flat = x.reshaped(vec![x.len()])?;
    let (x, axis) = match axis {
        Some(axis) => (x, axis),
        None => (&flat, 0),
    };
    let (outer, n, inner) = index::around(x.shape(), axis);
    let wide = x.wide();
    let compare = |a: usize, b: usize| {
        for o in 0..outer {
            for i in 0..inner {
                let found = order(&wide, (o * n + a) * inner + i, (o * n + b) * inner + i);
                if found != Ordering::Equal {
                    return found;
                }
            }
        }
        Ordering::Equal
    };
    let mut by_value: Vec<usize> = (0..n).collect();
    by(&mut by_value, &compare);
    // one run of equals after the other; the sort is stable, so each starts with its first appearance
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for i in by_value {
        match runs.last_mut() {
            Some(run) if compare(run[0], i) == Ordering::Equal => run.push(i),
            _ => runs.push(vec![i]),
        }
    }
    if !sorted {
        let mut by_place: Vec<usize> = (0..runs.len()).collect();
        by(&mut by_place, &|a, b| runs[a][0].cmp(&runs[b][0]));
        runs = by_place
            .iter()
            .map(|&run| std::mem::take(&mut runs[run]))
            .collect();
    }
    let mut inverse = vec![0i64; n];
    for (u, run) in runs.iter().enumerate() {
        for &i in run {
            inverse[i] = u as i64;
        }
    }
    let mut shape = x.shape().to_vec();
    shape[axis] = runs.len();
    let mut from = Vec::with_capacity(outer * runs.len() * inner);
    for o in 0..outer {
        for run in &runs {
            from.extend((0..inner).map(|i| (o * n + run[0]) * inner + i));
        }
    }
    let list = |v: Vec<i64>| Tensor::from_i64s(vec![v.len()], v);
    Ok(Unique {
        values: x.select(shape, &from)?,
        first: list(runs.iter().map(|run| run[0] as i64).collect())?,
        inverse: list(inverse)?,
        counts: list(runs.iter().map(|run| run.len() as i64).collect())?,
    })
}

/// The coordinates of all elements that are not zero, `[rank, found]`.
///
/// # Errors
/// If the elements are neither numbers nor bools.
pub fn non_zero(x: &Tensor) -> Result<Tensor> {
    let hit: Vec<bool> = match x.wide() {
        Wide::Float(v) => v.iter().map(|&a| a != 0.0).collect(),
        Wide::Int(v) => v.iter().map(|&a| a != 0).collect(),
        Wide::Bool(v) => v,
        Wide::Text(v) => v.iter().map(|a| !a.is_empty()).collect(),
        Wide::Complex(_) => refuse!("non-zero is not defined for {:?}", x.element()),
    };
    let found: Vec<Vec<usize>> = (0..x.len())
        .filter(|&i| hit[i])
        .map(|i| index::unravel(i, x.shape()))
        .collect();
    let rank = x.rank();
    let values = (0..rank)
        .flat_map(|d| found.iter().map(move |c| c[d] as i64))
        .collect();
    Tensor::from_i64s(vec![rank, found.len()], values)
}
