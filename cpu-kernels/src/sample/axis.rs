//! Images of other sizes, one axis after the other: weighted sums along an axis, and pixels that are repeated.
//!
//! Not here: which taps a new element has.

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// The resampling of an axis of an image: each new element is a weighted sum of the same number of
/// old ones.
#[derive(Debug, Clone)]
pub struct AxisPlan {
    /// Elements of the axis.
    from: usize,
    each: usize,
    /// `[output, tap]`
    offsets: Vec<usize>,
    weights: Vec<f32>,
}

impl AxisPlan {
    /// Plans the resampling of an axis of `from` elements, given the position and weight of each
    /// tap of each new element.
    ///
    /// # Panics
    /// If a position is outside the axis.
    #[must_use]
    pub fn new(from: usize, lines: &[Vec<(usize, f64)>]) -> Self {
        let each = lines.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let (mut offsets, mut weights) = (Vec::new(), Vec::new());
        for line in lines {
            for tap in 0..each {
                let (offset, weight) = line
                    .get(tap)
                    .copied()
                    .unwrap_or((line.first().map_or(0, |tap| tap.0), 0.0));
                assert!(offset < from, "axis: place {offset} of {from}");
                offsets.push(offset);
                weights.push(weight as f32);
            }
        }
        Self {
            from,
            each,
            offsets,
            weights,
        }
    }

    /// New elements.
    #[must_use]
    pub fn output(&self) -> usize {
        self.offsets.len() / self.each
    }

    /// Multiply-adds of `[outer, axis, inner]` elements.
    #[must_use]
    pub fn multiply_adds(&self, outer: usize, inner: usize) -> usize {
        outer * inner * self.offsets.len()
    }

    /// Computes `y` `[outer, output, inner]` from `x` `[outer, axis, inner]`.
    ///
    /// # Panics
    /// If a length is not that of its shape.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, inner: usize, x: &[f32], y: &mut [f32]) {
        let output = self.output();
        if y.is_empty() {
            return;
        }
        let outer = y.len() / (output * inner);
        assert_eq!(x.len(), outer * self.from * inner, "axis: length of the input");
        let out = Parts::new(y);
        let chunks = (outer * inner * self.offsets.len())
            .div_ceil(CHUNK)
            .min(pool.threads() * 4);
        pool.run(chunks, &|chunk| {
            for o in share(outer, chunks, chunk, 1) {
                isa.run(AxisLines {
                    plan: self,
                    inner,
                    x: &x[o * self.from * inner..][..self.from * inner],
                    // SAFETY: chunks share the lines out.
                    y: unsafe { out.part(o * output * inner, output * inner) },
                });
            }
        });
    }
}

struct AxisLines<'a> {
    plan: &'a AxisPlan,
    inner: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for AxisLines<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AxisLines { plan, inner, x, y } = self;
        let lines = plan
            .offsets
            .chunks_exact(plan.each)
            .zip(plan.weights.chunks_exact(plan.each));
        if inner == 1 {
            for (y, (offsets, weights)) in y.iter_mut().zip(lines) {
                let taps = offsets.iter().zip(weights);
                *y = taps.fold(0.0, |sum, (&offset, &weight)| sum + weight * x[offset]);
            }
            return;
        }
        for (y, (offsets, weights)) in y.chunks_exact_mut(inner).zip(lines) {
            for (tap, (&offset, &weight)) in offsets.iter().zip(weights).enumerate() {
                let x = &x[offset * inner..][..inner];
                if tap == 0 {
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y = weight * x;
                    }
                } else {
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y += weight * x;
                    }
                }
            }
        }
    }
}

/// Each pixel of images of these lines and width, repeated down and across.
///
/// # Panics
/// If a length is not that of its shape.
pub fn repeat<T: Copy + Send + Sync>(
    isa: Isa,
    pool: &ThreadPool,
    [lines, width]: [usize; 2],
    [down, across]: [usize; 2],
    x: &[T],
    y: &mut [T],
) {
    let long = width * across;
    assert_eq!(
        (x.len(), y.len()),
        (lines * width, lines * down * long),
        "repeat: lengths"
    );
    let out = Parts::new(y);
    let chunks = (lines * down * long).div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        let own = share(lines, chunks, chunk, 1);
        isa.run(Repeat {
            x: &x[own.start * width..own.end * width],
            width,
            down,
            across,
            // SAFETY: chunks share the lines out.
            y: unsafe { out.part(own.start * down * long, own.len() * down * long) },
        });
    });
}

struct Repeat<'a, T> {
    x: &'a [T],
    width: usize,
    down: usize,
    across: usize,
    y: &'a mut [T],
}

impl<T: Copy> Kernel for Repeat<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Repeat {
            x,
            width,
            down,
            across,
            y,
        } = self;
        let long = width * across;
        if long == 0 || down == 0 {
            return;
        }
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(down * long)) {
            let (first, rest) = y.split_at_mut(long);
            if across == 2 {
                for (y, &x) in first.as_chunks_mut::<2>().0.iter_mut().zip(x) {
                    *y = [x; 2];
                }
            } else {
                for (y, &x) in first.chunks_exact_mut(across).zip(x) {
                    y.fill(x);
                }
            }
            for y in rest.chunks_exact_mut(long) {
                y.copy_from_slice(first);
            }
        }
    }
}
