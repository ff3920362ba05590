//! Index arithmetic that the reference kernels share: strides, broadcasting, axes.
//!
//! Invariant: all results are row-major and name elements that exist in the given shape.

use super::error::{Result, refuse, require};

/// Row-major strides of `shape`, in elements.
#[must_use]
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i].max(1));
    }
    strides
}

/// The coordinates of element `flat` of `shape`.
#[must_use]
pub fn unravel(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut coords = vec![0; shape.len()];
    for (c, &d) in coords.iter_mut().zip(shape).rev() {
        *c = flat % d.max(1);
        flat /= d.max(1);
    }
    coords
}

/// The element of `shape` at `coords`.
#[must_use]
pub fn ravel(coords: &[usize], shape: &[usize]) -> usize {
    coords.iter().zip(shape).fold(0, |flat, (&c, &d)| flat * d + c)
}

/// The product of dims that belong to a tensor that exists.
#[must_use]
pub fn product(dims: &[usize]) -> usize {
    super::tensor::count(dims).unwrap_or(usize::MAX)
}

/// `axis` counted from the front, for a tensor of `rank` dimensions.
///
/// # Errors
/// If it is outside `-rank..rank`.
pub fn axis(axis: i64, rank: usize) -> Result<usize> {
    let r = rank as i64;
    require!(
        (-r..r).contains(&axis),
        "axis {axis} is outside a tensor of rank {rank}"
    );
    Ok(if axis < 0 { axis + r } else { axis } as usize)
}

/// `axes` counted from the front, in the given order, each at most once.
///
/// # Errors
/// If one is out of range or named twice.
pub fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; rank];
    list.iter()
        .map(|&a| {
            let a = axis(a, rank)?;
            require!(!seen[a], "axis {a} is named twice");
            seen[a] = true;
            Ok(a)
        })
        .collect()
}

/// The dims before `axis` multiplied, the dim at `axis`, the dims after it multiplied.
#[must_use]
pub fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (product(&shape[..axis]), shape[axis], product(&shape[axis + 1..]))
}

/// The shape to which all `shapes` broadcast (numpy's rule).
///
/// # Errors
/// If two dims differ and neither is 1, or the result is too large.
pub fn broadcast(shapes: &[&[usize]]) -> Result<Vec<usize>> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for shape in shapes {
        for (o, &d) in out[rank - shape.len()..].iter_mut().zip(shape.iter()) {
            if *o == 1 {
                *o = d;
            } else if d != 1 && d != *o {
                refuse!("shapes {shapes:?} do not broadcast: {d} meets {o}");
            }
        }
    }
    super::tensor::elements(&out)?;
    Ok(out)
}

/// For each element of `to`, the element of `from` that broadcasting puts there.
///
/// # Errors
/// If `from` does not broadcast to `to`.
pub fn broadcast_index(from: &[usize], to: &[usize]) -> Result<Vec<usize>> {
    require!(
        from.len() <= to.len(),
        "shape {from:?} does not broadcast to {to:?}"
    );
    let lead = to.len() - from.len();
    let from_strides = strides(from);
    let mut step = vec![0; to.len()];
    for (i, &d) in from.iter().enumerate() {
        require!(
            d == to[lead + i] || d == 1,
            "shape {from:?} does not broadcast to {to:?}"
        );
        step[lead + i] = if d == 1 { 0 } else { from_strides[i] };
    }
    Ok(strided(to, &step, 0))
}

/// For each element of `shape`, `start` plus the dot product of its coordinates with `steps`.
#[must_use]
pub fn strided(shape: &[usize], steps: &[usize], start: usize) -> Vec<usize> {
    let n = product(shape);
    let mut out = Vec::with_capacity(n);
    let mut coords = vec![0; shape.len()];
    let mut at = start;
    for _ in 0..n {
        out.push(at);
        for i in (0..shape.len()).rev() {
            coords[i] += 1;
            at += steps[i];
            if coords[i] < shape[i] {
                break;
            }
            at -= steps[i] * shape[i];
            coords[i] = 0;
        }
    }
    out
}

/// Calls `f` with the coordinates of each element of `shape`, in order.
pub fn each(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let mut coords = vec![0; shape.len()];
    for _ in 0..product(shape) {
        f(&coords);
        for i in (0..shape.len()).rev() {
            coords[i] += 1;
            if coords[i] < shape[i] {
                break;
            }
            coords[i] = 0;
        }
    }
}

/// The elements of `shape` in groups along `axes`: group `g` holds elements `bases[g] + offsets[i]`,
/// groups in the order of the remaining dims, members in the order of the reduced dims.
#[must_use]
pub fn groups(shape: &[usize], axes: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let all = strides(shape);
    let split = |inside: bool| -> (Vec<usize>, Vec<usize>) {
        (0..shape.len())
            .filter(|i| axes.contains(i) == inside)
            .map(|i| (shape[i], all[i]))
            .unzip()
    };
    let (kept, kept_steps) = split(false);
    let (inner, inner_steps) = split(true);
    (strided(&kept, &kept_steps, 0), strided(&inner, &inner_steps, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast(&[&[3, 1], &[2]]).unwrap(), [3, 2]);
        assert!(broadcast(&[&[3], &[2]]).is_err());
        assert_eq!(broadcast_index(&[3, 1], &[3, 2]).unwrap(), [0, 0, 1, 1, 2, 2]);
        assert_eq!(broadcast_index(&[0], &[0]).unwrap(), [0usize; 0]);
        assert_eq!(broadcast(&[&[0], &[1]]).unwrap(), [0]);
    }

    #[test]
    fn axes_are_checked() {
        assert_eq!(axes(&[-1, 0], 3).unwrap(), [2, 0]);
        assert!(axes(&[0, -3], 3).is_err());
        assert!(axis(3, 3).is_err());
    }
}
