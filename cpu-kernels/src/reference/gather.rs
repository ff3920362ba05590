//! Reading and writing by index.
//!
//! Invariants: a negative index counts from the end; an index outside is an error; several writes
//! to one element happen in row-major order of the indices.

use super::elementwise::{Binary, binary};
use super::error::{Result, refuse, require};
use super::{Tensor, index};

fn wrap(i: i64, d: usize) -> Result<usize> {
    let at = if i < 0 { i + d as i64 } else { i };
    match usize::try_from(at).ok().filter(|&at| at < d) {
        Some(at) => Ok(at),
        None => refuse!("index {i} is outside a dim of {d}"),
    }
}

/// The slices of `x` along `axis` named by `indices`, whose shape replaces the axis.
///
/// # Errors
/// If an index is out of range.
pub fn gather(x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
    require!(axis < x.rank(), "axis {axis} is outside shape {:?}", x.shape());
    let (outer, n, inner) = index::around(x.shape(), axis);
    let at: Vec<usize> = indices
        .to_i64s()?
        .into_iter()
        .map(|i| wrap(i, n))
        .collect::<Result<_>>()?;
    let mut from = Vec::with_capacity(outer * at.len() * inner);
    for o in 0..outer {
        for &i in &at {
            from.extend((0..inner).map(|k| (o * n + i) * inner + k));
        }
    }
    let mut shape = x.shape()[..axis].to_vec();
    shape.extend(indices.shape());
    shape.extend(&x.shape()[axis + 1..]);
    x.select(shape, &from)
}

/// For each index element, the element of `x` in shape `shape`-like position with `axis` replaced.
fn along(x: &[usize], indices: &Tensor, axis: usize) -> Result<Vec<usize>> {
    require!(
        indices.rank() == x.len() && (0..x.len()).all(|d| d == axis || indices.shape()[d] <= x[d]),
        "indices {:?} into shape {x:?} along axis {axis}",
        indices.shape()
    );
    let v = indices.to_i64s()?;
    let mut at = Vec::with_capacity(v.len());
    let mut failed = Ok(());
    index::each(indices.shape(), |c| {
        let mut c = c.to_vec();
        match wrap(v[at.len()], x[axis]) {
            Ok(i) => c[axis] = i,
            Err(e) => failed = Err(e),
        }
        at.push(index::ravel(&c, x));
    });
    failed.map(|()| at)
}

/// For each index, the element of `x` at its place with the coordinate along `axis` replaced by the index.
///
/// # Errors
/// If an index is out of range.
pub fn gather_elements(x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
    let at = along(x.shape(), indices, axis)?;
    x.select(indices.shape().to_vec(), &at)
}

/// The first element of each slice of `shape` that an index tuple (the last dim of `indices`) names, and
/// the slices' length.
fn tuples(shape: &[usize], indices: &Tensor, batch_dims: usize) -> Result<(Vec<usize>, usize)> {
    let Some((&depth, lead)) = indices.shape().split_last() else {
        refuse!("index tuples need a dim");
    };
    require!(
        batch_dims <= lead.len()
            && batch_dims + depth <= shape.len()
            && shape[..batch_dims] == lead[..batch_dims],
        "index tuples {:?} into shape {shape:?} with {batch_dims} batch dims",
        indices.shape()
    );
    let inner = index::product(&shape[batch_dims + depth..]);
    let per_batch = index::product(&lead[batch_dims..]);
    let v = indices.to_i64s()?;
    let mut starts = Vec::new();
    for t in 0..index::product(lead) {
        let mut at = t / per_batch.max(1);
        for (k, &d) in shape[batch_dims..batch_dims + depth].iter().enumerate() {
            at = at * d + wrap(v[t * depth + k], d)?;
        }
        starts.push(at * inner);
    }
    Ok((starts, inner))
}

/// The slices of `x` named by the index tuples in the last dim of `indices`.
///
/// # Errors
/// If an index is out of range or the shapes do not fit.
pub fn gather_nd(x: &Tensor, indices: &Tensor, batch_dims: usize) -> Result<Tensor> {
    let (starts, inner) = tuples(x.shape(), indices, batch_dims)?;
    let from: Vec<usize> = starts
        .into_iter()
        .flat_map(|s| (0..inner).map(move |i| s + i))
        .collect();
    let depth = indices.shape()[indices.rank() - 1];
    let mut shape = indices.shape()[..indices.rank() - 1].to_vec();
    shape.extend(&x.shape()[batch_dims + depth..]);
    x.select(shape, &from)
}

/// How a written value is combined with the existing one.
pub type Meeting = Option<Binary>;

fn write(x: &Tensor, at: &[usize], updates: &Tensor, meeting: Meeting) -> Result<Tensor> {
    require!(
        updates.len() == at.len(),
        "{} updates for {} places",
        updates.len(),
        at.len()
    );
    let mut out = x.clone();
    for (i, &to) in at.iter().enumerate() {
        match meeting {
            None => out.copy_run(to, updates, i, 1)?,
            Some(f) => {
                let (old, new) = (out.select(vec![1], &[to])?, updates.select(vec![1], &[i])?);
                out.copy_run(to, &binary(f, &old, &new)?, 0, 1)?;
            }
        }
    }
    Ok(out)
}

/// `x` with each update written at its place, the coordinate along `axis` replaced by the index.
///
/// # Errors
/// If an index is out of range or the shapes do not fit.
pub fn scatter_elements(
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
    axis: usize,
    meeting: Meeting,
) -> Result<Tensor> {
    require!(
        indices.shape() == updates.shape(),
        "updates {:?} for indices {:?}",
        updates.shape(),
        indices.shape()
    );
    let at = along(x.shape(), indices, axis)?;
    write(x, &at, updates, meeting)
}

/// `x` with each slice named by an index tuple replaced by (or combined with) an update.
///
/// # Errors
/// If an index is out of range or the shapes do not fit.
pub fn scatter_nd(x: &Tensor, indices: &Tensor, updates: &Tensor, meeting: Meeting) -> Result<Tensor> {
    let (starts, inner) = tuples(x.shape(), indices, 0)?;
    let at: Vec<usize> = starts
        .into_iter()
        .flat_map(|s| (0..inner).map(move |i| s + i))
        .collect();
    write(x, &at, updates, meeting)
}

/// `cache` with `update` written along `axis` from `starts[b]` of each batch entry on; `circular` wraps.
///
/// # Errors
/// If the shapes do not fit or an update leaves the cache.
pub fn tensor_scatter(
    cache: &Tensor,
    update: &Tensor,
    starts: Option<&[i64]>,
    axis: usize,
    circular: bool,
) -> Result<Tensor> {
    let (cs, us) = (cache.shape(), update.shape());
    require!(
        axis > 0 && cs.len() == us.len() && (0..cs.len()).all(|d| d == axis || cs[d] == us[d]),
        "update {us:?} of cache {cs:?} along axis {axis}"
    );
    require!(
        starts.is_none_or(|s| s.len() == cs[0]),
        "not one write index for each of {} entries",
        cs[0]
    );
    let mut at = Vec::with_capacity(update.len());
    let mut failed = Ok(());
    index::each(us, |c| {
        let mut c = c.to_vec();
        let place = starts.map_or(0, |s| s[c[0]]) + c[axis] as i64;
        let place = if circular {
            place.rem_euclid((cs[axis] as i64).max(1))
        } else {
            place
        };
        match usize::try_from(place).ok().filter(|&p| p < cs[axis]) {
            Some(p) => c[axis] = p,
            None => failed = Err(super::Error::new(format!("write index {place} of {}", cs[axis]))),
        }
        at.push(index::ravel(&c, cs));
    });
    failed?;
    write(cache, &at, update, None)
}

/// One-hot lines of `depth` along a new dim at `axis`: `values` is `[off, on]`; an index outside is all off.
///
/// # Errors
/// If the values are not two.
pub fn one_hot(indices: &Tensor, depth: usize, values: &Tensor, axis: usize) -> Result<Tensor> {
    require!(
        values.len() == 2,
        "one-hot takes two values, {} seen",
        values.len()
    );
    require!(
        axis <= indices.rank(),
        "axis {axis} is outside rank {}",
        indices.rank()
    );
    let v = indices.to_i128s()?;
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, depth);
    let inner = index::product(&shape[axis + 1..]);
    let d = depth as i128;
    let n = super::tensor::elements(&shape)?;
    let from: Vec<usize> = (0..n)
        .map(|i| {
            let (outer, k, at) = (i / (depth * inner), i / inner % depth, i % inner);
            let hot = v[outer * inner + at];
            let hot = if hot < 0 { hot + d } else { hot };
            usize::from(hot == k as i128)
        })
        .collect();
    values.select(shape, &from)
}

/// The slices of `x` along `axis` (or with none, its elements) where `keep` holds.
///
/// # Errors
/// If there are more flags than slices.
pub fn compress(x: &Tensor, keep: &[bool], axis: Option<usize>) -> Result<Tensor> {
    let flat = x.reshaped(vec![x.len()])?;
    let (x, axis) = match axis {
        Some(axis) => (x, axis),
        None => (&flat, 0),
    };
    let n = x.shape()[axis];
    require!(keep.len() <= n, "{} flags for {n} slices", keep.len());
    let at: Vec<i64> = (0..keep.len()).filter(|&i| keep[i]).map(|i| i as i64).collect();
    gather(x, &Tensor::from_i64s(vec![at.len()], at)?, axis)
}
