//! Sample shapes of kernels that move elements.
//!
//! Invariant: sizes that decide the width of a move keep their remainder by 16.

use super::{ELEMENTS, elements, fewer, halved};
use crate::{
    Concat, Copy, CumSum, Gather, GatherElements, GatherNd, OneHot, Pad, ScatterElements, ScatterNd, Slice,
    Tile, Transpose, Trilu,
};

fn capped(shape: &[u64], cap: u64) -> Vec<u64> {
    shape.iter().map(|&dim| dim.min(cap)).collect()
}

/// The longest cap on axes with which `reach` stays within [`ELEMENTS`].
fn cap(reach: impl Fn(u64) -> u64) -> u64 {
    let caps = [64, 16, 8, 4, 2];
    caps.into_iter().find(|&cap| reach(cap) <= ELEMENTS).unwrap_or(1)
}

/// Axes that move as one, in as few elements as keep their remainder.
fn run(shape: &[u64]) -> u64 {
    fewer(elements(shape), 64)
}

impl Transpose {
    pub(crate) fn smaller(&self) -> Transpose {
        Transpose {
            shape: halved(&self.shape, &[], elements),
            ..self.clone()
        }
    }
}

impl Copy {
    pub(crate) fn smaller(&self) -> Copy {
        Copy {
            bytes: self.bytes.min(ELEMENTS),
        }
    }
}

impl Concat {
    pub(crate) fn smaller(&self) -> Concat {
        let axis = self.axis;
        let fits = self.shapes.iter().all(|shape| axis < shape.len());
        let of = |shape: &Vec<u64>| vec![elements(&shape[..axis]).min(2), run(&shape[axis..])];
        if !fits {
            return self.clone();
        }
        Concat {
            shapes: self.shapes.iter().map(of).collect(),
            axis: 1,
            ..*self
        }
    }
}

impl Pad {
    pub(crate) fn smaller(&self) -> Pad {
        let rank = self.shape.len().min(self.before.len()).min(self.after.len());
        let padded = |&axis: &usize| self.before[axis] != 0 || self.after[axis] != 0;
        let axes = (0..rank).rev().find(padded).map_or(0, |axis| axis + 1);
        let mut shape = self.shape.clone();
        for (axis, dim) in shape.iter_mut().enumerate().take(axes) {
            let pads = self.before[axis].unsigned_abs() + self.after[axis].unsigned_abs();
            *dim = (*dim).min(pads.saturating_add(4));
        }
        if axes < shape.len() {
            shape[axes] = run(&self.shape[axes..]);
            shape[axes + 1..].fill(1);
        }
        Pad {
            shape,
            ..self.clone()
        }
    }
}

/// An axis of a slice with few elements: its size, first index and number of elements, each with its remainder.
fn sliced(dim: u64, start: u64, step: i64, count: u64, remainder: u64) -> [u64; 3] {
    let few = if count < 2 * remainder {
        count
    } else {
        remainder + count % remainder
    };
    let reach = |count: u64| step.unsigned_abs().saturating_mul(count.saturating_sub(1));
    let lowest = if step < 0 {
        start.saturating_sub(reach(count))
    } else {
        start
    };
    let low = lowest % remainder;
    let high = low.saturating_add(reach(few));
    let size = high.saturating_add(1);
    let rest = (dim % remainder + remainder - size % remainder) % remainder;
    [size.saturating_add(rest), if step < 0 { high } else { low }, few]
}

/// By what the sizes of an axis keep their remainder: inner axes decide how many bytes move at once.
fn remainder(axis: usize, rank: usize) -> u64 {
    if axis + 2 >= rank { 16 } else { 2 }
}

impl Slice {
    pub(crate) fn smaller(&self) -> Slice {
        let rank = self.shape.len();
        if [self.starts.len(), self.steps.len(), self.counts.len()] != [rank; 3]
            || elements(&self.shape) <= ELEMENTS
        {
            return self.clone();
        }
        let mut small = self.clone();
        for axis in 0..rank {
            let (dim, start) = (self.shape[axis], self.starts[axis]);
            let by = remainder(axis, rank);
            let few = sliced(dim, start, self.steps[axis], self.counts[axis], by);
            [small.shape[axis], small.starts[axis], small.counts[axis]] = few;
        }
        small
    }
}

impl Tile {
    pub(crate) fn smaller(&self) -> Tile {
        let rank = self.shape.len();
        if self.to.len() != rank || self.shape.contains(&0) {
            return self.clone();
        }
        let mut small = self.clone();
        for axis in 0..rank {
            let by = remainder(axis, rank);
            let few = |size: u64| if size < 2 * by { size } else { by + size % by };
            let (dim, times) = (self.shape[axis], self.to[axis] / self.shape[axis]);
            small.shape[axis] = few(dim);
            small.to[axis] = few(dim) * if dim == 1 { few(times) } else { times.min(3) };
        }
        small
    }
}

impl Gather {
    pub(crate) fn smaller(&self) -> Gather {
        if self.axis >= self.shape.len() {
            return self.clone();
        }
        let (outer, inner) = (&self.shape[..self.axis], &self.shape[self.axis + 1..]);
        Gather {
            shape: vec![elements(outer).min(2), self.shape[self.axis].min(64), run(inner)],
            axis: 1,
            indices: self.indices.min(64),
            ..*self
        }
    }
}

impl GatherElements {
    pub(crate) fn smaller(&self) -> GatherElements {
        let cap = cap(|cap| elements(&capped(&self.shape, cap)).max(elements(&capped(&self.indices, cap))));
        GatherElements {
            shape: capped(&self.shape, cap),
            indices: capped(&self.indices, cap),
            ..*self
        }
    }
}

impl ScatterElements {
    pub(crate) fn smaller(&self) -> ScatterElements {
        let cap = cap(|cap| elements(&capped(&self.shape, cap)).max(elements(&capped(&self.indices, cap))));
        ScatterElements {
            shape: capped(&self.shape, cap),
            indices: capped(&self.indices, cap),
            ..*self
        }
    }
}

/// Axes that a tuple of this size, behind some of a batch, picks from, each at most this long, and what lies behind.
fn picked(
    shape: &[u64],
    indices: &[u64],
    batch: usize,
    longest: impl Fn(u64) -> u64,
) -> Option<(Vec<u64>, u64)> {
    let tuple = usize::try_from(*indices.last()?).ok()?;
    let end = batch.checked_add(tuple).filter(|&end| end <= shape.len())?;
    let behind = run(&shape[end..]);
    let cap = cap(|cap| {
        elements(&capped(&shape[..end], cap))
            .max(longest(cap))
            .saturating_mul(behind)
    });
    let mut small = capped(&shape[..end], cap);
    if end < shape.len() {
        small.push(behind);
    }
    Some((small, cap))
}

impl GatherNd {
    pub(crate) fn smaller(&self) -> GatherNd {
        let rows = |cap| {
            self.indices
                .split_last()
                .map_or(0, |(_, rows)| elements(&capped(rows, cap)))
        };
        let Some((shape, cap)) = picked(&self.shape, &self.indices, self.batch, rows) else {
            return self.clone();
        };
        let mut indices = capped(&self.indices, cap);
        if let (Some(small), Some(&tuple)) = (indices.last_mut(), self.indices.last()) {
            *small = tuple;
        }
        GatherNd {
            shape,
            indices,
            ..*self
        }
    }
}

impl ScatterNd {
    pub(crate) fn smaller(&self) -> ScatterNd {
        let Some((&tuple, rows)) = self.indices.split_last() else {
            return self.clone();
        };
        let Some((shape, _)) = picked(&self.shape, &self.indices, 0, |_| 1) else {
            return self.clone();
        };
        // no more rows than there are places: two in one place would not be told apart
        let places = elements(&shape[..shape.len().min(tuple as usize)]);
        ScatterNd {
            indices: vec![elements(rows).min(places).min(64), tuple],
            shape,
            ..*self
        }
    }
}

impl CumSum {
    pub(crate) fn smaller(&self) -> CumSum {
        CumSum {
            outer: fewer(self.outer, 2),
            count: self.count.min(512),
            inner: if self.inner > 1 { fewer(self.inner, 32) } else { 1 },
            ..*self
        }
    }
}

impl Trilu {
    pub(crate) fn smaller(&self) -> Trilu {
        let rank = self.shape.len();
        let of = |(axis, &dim): (usize, &u64)| {
            if axis + 2 < rank {
                dim.min(1)
            } else {
                fewer(dim, 64)
            }
        };
        Trilu {
            shape: self.shape.iter().enumerate().map(of).collect(),
            ..self.clone()
        }
    }
}

impl OneHot {
    pub(crate) fn smaller(&self) -> OneHot {
        OneHot {
            outer: self.outer.min(16),
            depth: self.depth.min(64),
            inner: self.inner.min(16),
            ..*self
        }
    }
}
