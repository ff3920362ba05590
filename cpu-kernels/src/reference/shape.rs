//! Ops that only move elements: each names, for each destination, the source.
//!
//! Invariant: every element type is treated alike; no value is looked at.

use super::error::{Result, refuse, require};
use super::{Element, Tensor, index};

/// The dims permuted: dim `i` of the result is dim `perm[i]` of `x`.
///
/// # Errors
/// If `perm` is no permutation.
pub fn transpose(x: &Tensor, perm: &[usize]) -> Result<Tensor> {
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    require!(
        sorted.iter().copied().eq(0..x.rank()),
        "{perm:?} is no permutation of {} dims",
        x.rank()
    );
    let strides = index::strides(x.shape());
    let shape: Vec<usize> = perm.iter().map(|&p| x.shape()[p]).collect();
    let steps: Vec<usize> = perm.iter().map(|&p| strides[p]).collect();
    let from = index::strided(&shape, &steps, 0);
    x.select(shape, &from)
}

/// The tensors one after the other along `axis`.
///
/// # Errors
/// If the list is empty, or the tensors differ in another dim or in type.
pub fn concat(list: &[&Tensor], axis: usize) -> Result<Tensor> {
    let Some(first) = list.first() else {
        refuse!("nothing to concatenate");
    };
    require!(
        axis < first.rank(),
        "axis {axis} is outside shape {:?}",
        first.shape()
    );
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for t in list {
        require!(
            t.rank() == first.rank() && (0..t.rank()).all(|d| d == axis || t.shape()[d] == first.shape()[d]),
            "shapes {:?} and {:?} differ off axis {axis}",
            first.shape(),
            t.shape()
        );
        shape[axis] += t.shape()[axis];
    }
    let (outer, total, inner) = index::around(&shape, axis);
    let mut out = Tensor::zeros(first.element(), shape)?;
    for o in 0..outer {
        let mut at = o * total * inner;
        for t in list {
            let run = t.shape()[axis] * inner;
            out.copy_run(at, t, o * run, run)?;
            at += run;
        }
    }
    Ok(out)
}

/// Elements `start`, `start + step`, … along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first index.
    pub start: i64,
    /// From one index to the next; may be negative.
    pub step: i64,
    /// Number of elements.
    pub len: usize,
}

/// The runs of each axis, one per dim.
///
/// # Errors
/// If a run leaves the tensor.
pub fn slice(x: &Tensor, runs: &[Run]) -> Result<Tensor> {
    require!(
        runs.len() == x.rank(),
        "{} runs for shape {:?}",
        runs.len(),
        x.shape()
    );
    let shape: Vec<usize> = runs.iter().map(|r| r.len).collect();
    for (r, &d) in runs.iter().zip(x.shape()) {
        let last = r.start + r.step * (r.len as i64 - 1);
        require!(
            r.len == 0 || ((0..d as i64).contains(&r.start) && (0..d as i64).contains(&last)),
            "run {r:?} leaves a dim of {d}"
        );
    }
    if runs.iter().all(|r| r.step == 1) && !shape.is_empty() {
        return block(x, runs, shape);
    }
    let mut from = Vec::with_capacity(super::tensor::elements(&shape)?);
    index::each(&shape, |c| {
        let at = c.iter().zip(runs).zip(x.shape()).fold(0, |at, ((&c, r), &d)| {
            at * d + (r.start + r.step * c as i64) as usize
        });
        from.push(at);
    });
    x.select(shape, &from)
}

/// A slice without steps: neighbours stay neighbours.
fn block(x: &Tensor, runs: &[Run], shape: Vec<usize>) -> Result<Tensor> {
    // the axes behind the last one that is cut are copied at once
    let cut = (0..shape.len())
        .rev()
        .find(|&d| shape[d] != x.shape()[d])
        .unwrap_or(0);
    let (outer, len) = (&shape[..cut], index::product(&shape[cut..]));
    let mut out = Tensor::zeros(x.element(), shape.clone())?;
    if len == 0 {
        return Ok(out);
    }
    let (mut at, mut done) = (0, Ok(()));
    index::each(outer, |c| {
        let place = c.iter().chain(&[0]).zip(runs).zip(x.shape());
        let row = place.fold(0, |at, ((&c, r), &d)| at * d + r.start as usize + c);
        let from = row * index::product(&x.shape()[cut + 1..]);
        if done.is_ok() {
            done = out.copy_run(at, x, from, len);
        }
        at += len;
    });
    done.map(|()| out)
}

/// The elements that the slice `start:end:step` takes from a dimension of size `dim`. Follows
/// NumPy, except that with a negative step, a start before the first element is clamped to it, as
/// in ONNX.
///
/// # Errors
/// If the step is zero.
pub fn run(start: i64, end: i64, step: i64, dim: usize) -> Result<Run> {
    require!(step != 0, "a slice of step 0");
    let d = dim as i64;
    let wrap = |v: i64| if v < 0 { v.saturating_add(d) } else { v };
    let (low, high) = if step > 0 { (0, d) } else { (-1, d - 1) };
    let start = wrap(start).clamp(low.max(0), high.max(0));
    let end = wrap(end).clamp(low, high.max(low));
    // in i128: the step may be any integer
    let distance = i128::from(if step > 0 { end - start } else { start - end });
    let stride = i128::from(step).abs();
    let len = if dim == 0 || distance <= 0 {
        0
    } else {
        ((distance + stride - 1) / stride) as usize
    };
    Ok(Run {
        start,
        step: if len <= 1 { 1 } else { step },
        len,
    })
}

/// The part of `x` from `start` of `len` along `axis`.
///
/// # Errors
/// If it leaves the tensor.
pub fn part(x: &Tensor, axis: usize, start: usize, len: usize) -> Result<Tensor> {
    let runs: Vec<Run> = x
        .shape()
        .iter()
        .enumerate()
        .map(|(d, &n)| {
            let (start, len) = if d == axis { (start, len) } else { (0, n) };
            Run {
                start: start as i64,
                step: 1,
                len,
            }
        })
        .collect();
    slice(x, &runs)
}

/// `x` broadcast to `shape`.
///
/// # Errors
/// If it does not broadcast.
pub fn expand(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    super::tensor::elements(shape)?;
    x.select(shape.to_vec(), &index::broadcast_index(x.shape(), shape)?)
}

/// `x` repeated along each dim.
///
/// # Errors
/// If there is not one count per dim, or the result is too large.
pub fn tile(x: &Tensor, repeats: &[usize]) -> Result<Tensor> {
    require!(
        repeats.len() == x.rank(),
        "{} repeats for shape {:?}",
        repeats.len(),
        x.shape()
    );
    let shape: Vec<usize> = x
        .shape()
        .iter()
        .zip(repeats)
        .map(|(&d, &r)| d.saturating_mul(r))
        .collect();
    super::tensor::elements(&shape)?;
    let mut from = Vec::with_capacity(index::product(&shape));
    index::each(&shape, |c| {
        from.push(c.iter().zip(x.shape()).fold(0, |at, (&c, &d)| at * d + c % d));
    });
    x.select(shape, &from)
}

/// The upper (or lower) triangle of each matrix, `k` diagonals off the main one; zero elsewhere.
///
/// # Errors
/// If `x` has fewer than two dims.
pub fn triangle(x: &Tensor, k: i64, upper: bool) -> Result<Tensor> {
    require!(x.rank() >= 2, "matrices wanted, shape {:?} seen", x.shape());
    let (rows, cols) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
    let mut out = Tensor::zeros(x.element(), x.shape().to_vec())?;
    for i in 0..x.len() {
        let (r, c) = ((i / cols % rows) as i64, (i % cols) as i64);
        let distance = i128::from(c - r);
        let k = i128::from(k);
        if if upper { distance >= k } else { distance <= k } {
            out.copy_run(i, x, i, 1)?;
        }
    }
    Ok(out)
}

/// Blocks of depth moved into space: `[n, c, h, w]` to `[n, c/b², h·b, w·b]`; with `column_first` (CRD) the
/// depth is ordered channel, row, column; else (DCR) row, column, channel.
///
/// # Errors
/// If the shape does not divide.
pub fn depth_to_space(x: &Tensor, b: usize, column_first: bool) -> Result<Tensor> {
    let &[n, c, h, w] = x.shape() else {
        refuse!("[n, c, h, w] wanted, shape {:?} seen", x.shape());
    };
    require!(b > 0 && c % (b * b) == 0, "{c} channels in blocks of {b}");
    let d = c / (b * b);
    let (split, perm) = if column_first {
        ([n, d, b, b, h, w], [0, 1, 4, 2, 5, 3])
    } else {
        ([n, b, b, d, h, w], [0, 3, 4, 1, 5, 2])
    };
    transpose(&x.reshaped(split.to_vec())?, &perm)?.reshaped(vec![n, d, h * b, w * b])
}

/// Blocks of space moved into depth: `[n, c, h, w]` to `[n, c·b², h/b, w/b]`; the depth is ordered channel,
/// row, column with `column_first` (CRD), else row, column, channel.
///
/// # Errors
/// If the shape does not divide.
pub fn space_to_depth(x: &Tensor, b: usize, column_first: bool) -> Result<Tensor> {
    let &[n, c, h, w] = x.shape() else {
        refuse!("[n, c, h, w] wanted, shape {:?} seen", x.shape());
    };
    require!(b > 0 && h % b == 0 && w % b == 0, "{h}×{w} in blocks of {b}");
    let split = vec![n, c, h / b, b, w / b, b];
    let perm = if column_first {
        [0, 1, 3, 5, 2, 4]
    } else {
        [0, 3, 5, 1, 2, 4]
    };
    transpose(&x.reshaped(split)?, &perm)?.reshaped(vec![n, c * b * b, h / b, w / b])
}

/// A matrix of `element` with ones on diagonal `k`.
///
/// # Errors
/// If the element type has no one.
pub fn eye(element: Element, rows: usize, cols: usize, k: i64) -> Result<Tensor> {
    let mut v = vec![0i128; super::tensor::elements(&[rows, cols])?];
    for r in 0..rows {
        if let Some(c) = (r as i64).checked_add(k).and_then(|c| usize::try_from(c).ok())
            && c < cols
        {
            v[r * cols + c] = 1;
        }
    }
    Tensor::from_i128s(element, vec![rows, cols], &v)
}

/// The first `lens[b]` steps of each sequence reversed.
///
/// # Errors
/// If the axes are not the first two or a length is out of range.
pub fn reverse_sequence(x: &Tensor, lens: &[i64], batch: usize, time: usize) -> Result<Tensor> {
    require!(
        x.rank() >= 2 && batch < 2 && time < 2 && batch != time,
        "batch axis {batch} and time axis {time} of shape {:?}",
        x.shape()
    );
    require!(
        lens.len() == x.shape()[batch],
        "{} lengths for shape {:?}",
        lens.len(),
        x.shape()
    );
    let steps = x.shape()[time];
    require!(
        lens.iter().all(|&l| (0..=steps as i64).contains(&l)),
        "lengths {lens:?} of {steps} steps"
    );
    let mut from = Vec::with_capacity(x.len());
    index::each(x.shape(), |c| {
        let mut c = c.to_vec();
        let len = lens[c[batch]] as usize;
        if c[time] < len {
            c[time] = len - 1 - c[time];
        }
        from.push(index::ravel(&c, x.shape()));
    });
    x.select(x.shape().to_vec(), &from)
}

/// How [`pad`] fills the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PadMode {
    Constant,
    Edge,
    Reflect,
    Wrap,
}

/// `x` with `pads[d]` elements added before and after each dim (taken away where negative).
///
/// # Errors
/// If a dim would be negative, or an empty dim is to be continued.
pub fn pad(x: &Tensor, pads: &[(i64, i64)], mode: PadMode, value: Option<&Tensor>) -> Result<Tensor> {
    require!(
        pads.len() == x.rank(),
        "{} pads for shape {:?}",
        pads.len(),
        x.shape()
    );
    let mut shape = Vec::new();
    for (&d, &(a, b)) in x.shape().iter().zip(pads) {
        let size = (d as i64).checked_add(a).and_then(|s| s.checked_add(b));
        let Some(size) = size.and_then(|s| usize::try_from(s).ok()) else {
            refuse!("a dim of {d} padded by {a} and {b}");
        };
        require!(
            mode == PadMode::Constant || d > 0 || size == 0,
            "an empty dim cannot be continued"
        );
        shape.push(size);
    }
    let mut out = match value {
        Some(v) => {
            require!(v.len() == 1, "the pad value is a scalar, {:?} seen", v.shape());
            v.filled(shape.clone())?
        }
        None => Tensor::zeros(x.element(), shape.clone())?,
    };
    // along each dim, the source of each destination
    let sources: Vec<Vec<Option<usize>>> = shape
        .iter()
        .zip(pads)
        .zip(x.shape())
        .map(|((&size, &(before, after)), &d)| {
            (0..size)
                .map(|i| pad_source(i as i64 - before, d as i64, mode, before, after))
                .collect()
        })
        .collect();
    let mut at = 0;
    let mut failed = Ok(());
    index::each(&shape, |c| {
        let from = c
            .iter()
            .zip(&sources)
            .zip(x.shape())
            .try_fold(0, |f, ((&c, s), &d)| s[c].map(|s| f * d + s));
        if let Some(from) = from
            && failed.is_ok()
        {
            failed = out.copy_run(at, x, from, 1);
        }
        at += 1;
    });
    failed?;
    Ok(out)
}

fn pad_source(i: i64, d: i64, mode: PadMode, before: i64, after: i64) -> Option<usize> {
    // negative pads cut first; what is left is continued
    let (low, high) = ((-before).max(0), d - (-after).max(0));
    let n = high - low;
    if (low..high).contains(&i) {
        return usize::try_from(i).ok();
    }
    if mode == PadMode::Constant || n <= 0 {
        return None;
    }
    let j = i - low;
    let j = match mode {
        PadMode::Edge => j.clamp(0, n - 1),
        PadMode::Wrap => j.rem_euclid(n),
        _ if n == 1 => 0,
        _ => {
            let period = 2 * (n - 1);
            let j = j.rem_euclid(period);
            if j < n { j } else { period - j }
        }
    };
    usize::try_from(low + j).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_numpy() {
        let take = |s, e, st| {
            let r = run(s, e, st, 5).unwrap();
            (0..r.len as i64)
                .map(|i| r.start + i * r.step)
                .collect::<Vec<_>>()
        };
        assert_eq!(take(0, i64::MAX, 2), [0, 2, 4]);
        assert_eq!(take(-1, i64::MIN, -2), [4, 2, 0]);
        assert_eq!(take(4, 1, 1), [0i64; 0]);
        assert_eq!(take(10, 0, -3), [4, 1]);
        // where ONNX clamps otherwise
        assert_eq!(take(-9, -9, -1), [0]);
        assert_eq!(run(-9, -9, -1, 0).unwrap().len, 0);
        assert_eq!(take(1, i64::MAX, i64::MAX), [1]);
        assert!(run(0, 1, 0, 5).is_err());
    }

    #[test]
    fn pads_continue() {
        let x = Tensor::from_i64s(vec![3], vec![1, 2, 3]).unwrap();
        let p = |mode| pad(&x, &[(2, 3)], mode, None).unwrap().to_i64s().unwrap();
        assert_eq!(p(PadMode::Reflect), [3, 2, 1, 2, 3, 2, 1, 2]);
        assert_eq!(p(PadMode::Wrap), [2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(p(PadMode::Edge), [1, 1, 1, 2, 3, 3, 3, 3]);
        assert_eq!(p(PadMode::Constant), [0, 0, 1, 2, 3, 0, 0, 0]);
    }
}
