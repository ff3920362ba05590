//! Softmax and its logarithm over any axis, given as `[outer, axis, inner]`.
//!
//! The largest value is subtracted first, so no exponential overflows. A row of minus infinities gives NaN.
#![allow(unsafe_code)]

use crate::isa::{Kernel, Load, Simd};
use crate::math;
use crate::threads::{Address, Parts, share};
use crate::{Isa, Slice, SliceMut, ThreadPool};
use std::ops::Range;

/// Softmax over the middle dimension of `[outer, axis, inner]`.
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, softmax::softmax};
///
/// let mut y = [0.0f32; 2];
/// softmax(Isa::detect(), &ThreadPool::new(1), [1, 2, 1], &[3.0f32, 3.0], &mut y);
/// assert_eq!(y, [0.5, 0.5]);
/// ```
///
/// # Panics
/// If a length is not `outer * axis * inner`, or `bf16` is asked to become `f32`.
pub fn softmax<'a>(
    isa: Isa,
    pool: &ThreadPool,
    dims: [usize; 3],
    input: impl Into<Slice<'a>>,
    output: impl Into<SliceMut<'a>>,
) {
    slices(isa, pool, dims, false, input.into(), output.into());
}

/// [`softmax`] that overwrites its input.
///
/// # Panics
/// If the length is not `outer * axis * inner`.
pub fn softmax_in_place<'a>(isa: Isa, pool: &ThreadPool, dims: [usize; 3], data: impl Into<SliceMut<'a>>) {
    slice_in_place(isa, pool, dims, data.into());
}

fn slice_in_place(isa: Isa, pool: &ThreadPool, dims: [usize; 3], data: SliceMut<'_>) {
    match data {
        SliceMut::F32(data) => run(isa, pool, dims, false, data.as_ptr(), data),
        SliceMut::Bf16(data) => run(isa, pool, dims, false, data.as_ptr(), data),
    }
}

/// The logarithm of [`softmax`], without its underflow.
///
/// # Panics
/// As [`softmax`].
pub fn log_softmax<'a>(
    isa: Isa,
    pool: &ThreadPool,
    dims: [usize; 3],
    input: impl Into<Slice<'a>>,
    output: impl Into<SliceMut<'a>>,
) {
    slices(isa, pool, dims, true, input.into(), output.into());
}

fn slices(isa: Isa, pool: &ThreadPool, dims: [usize; 3], log: bool, input: Slice<'_>, output: SliceMut<'_>) {
    assert_eq!(input.len(), output.len(), "softmax: lengths differ");
    match (input, output) {
        (Slice::F32(x), SliceMut::F32(y)) => run(isa, pool, dims, log, x.as_ptr(), y),
        (Slice::F32(x), SliceMut::Bf16(y)) => run(isa, pool, dims, log, x.as_ptr(), y),
        (Slice::Bf16(x), SliceMut::Bf16(y)) => run(isa, pool, dims, log, x.as_ptr(), y),
        (Slice::Bf16(_), SliceMut::F32(_)) => panic!("softmax: bf16 does not become f32"),
    }
}

/// `input` is the start of `output.len()` readable values: another slice, or `output` itself.
fn run<A: Load, B: Load>(
    isa: Isa,
    pool: &ThreadPool,
    [outer, axis, inner]: [usize; 3],
    log: bool,
    input: *const A,
    output: &mut [B],
) {
    let len = outer.checked_mul(axis).and_then(|len| len.checked_mul(inner));
    assert_eq!(len, Some(output.len()), "softmax: length of the data");
    if output.is_empty() {
        return;
    }
    // one unit is a row, or as many neighbouring columns as two vectors hold
    let width = 32;
    let columns = if inner == 1 { 1 } else { inner.div_ceil(width) };
    let units = outer * columns;
    let chunks = if output.len() < 4096 {
        1
    } else {
        units.min(pool.threads() * 4)
    };
    let (input, output) = (Address(input), Parts::new(output));
    pool.run(chunks, &|chunk| {
        let mine = share(units, chunks, chunk, 1);
        if inner == 1 {
            let kernel = Rows {
                log,
                axis,
                rows: mine,
                input: input.at(0),
                output: output.as_ptr(),
            };
            A::enter_with::<B, _, _>(isa, &kernel);
            return;
        }
        for unit in mine {
            let first = unit % columns * width;
            let kernel = Columns {
                log,
                axis,
                inner,
                columns: first..(first + width).min(inner),
                input: input.at(unit / columns * axis * inner),
                output: output.as_ptr().wrapping_add(unit / columns * axis * inner),
            };
            A::enter_with::<B, _, _>(isa, &kernel);
        }
    });
}

/// What is scaled: the exponential of a value less the largest one, or that difference. Computed again where the
/// output would have rounded it.
#[inline(always)]
fn term<S: Simd>(s: S, x: S::F, max: S::F, log: bool) -> S::F {
    let x = s.sub(x, max);
    if log { x } else { math::exp_below_zero(s, x) }
}

/// Contiguous rows.
struct Rows<A, B> {
    log: bool,
    axis: usize,
    rows: Range<usize>,
    input: *const A,
    output: *mut B,
}

impl<A: Load, B: Load> Kernel for &Rows<A, B> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.axis;
        let whole = n / S::LANES * S::LANES;
        let rest = n - whole;
        for row in self.rows.clone() {
            let from = self.input.wrapping_add(row * n);
            let to = self.output.wrapping_add(row * n);
            // four maxima, so that none waits for the one before
            let mut largest = [s.splat(f32::NEG_INFINITY); 4];
            let four = 4 * S::LANES;
            let fours = whole / four * four;
            for c in (0..fours).step_by(four) {
                for (i, own) in largest.iter_mut().enumerate() {
                    // SAFETY: the row has n values.
                    *own = s.max(unsafe { s.read(from.add(c + i * S::LANES), S::LANES) }, *own);
                }
            }
            let [a, b, c, d] = largest;
            let mut largest = s.max(s.max(a, b), s.max(c, d));
            for c in (fours..whole).step_by(S::LANES) {
                // SAFETY: as above.
                largest = s.max(unsafe { s.read(from.add(c), S::LANES) }, largest);
            }
            let mut max = s.max_lane(largest);
            for c in whole..n {
                // SAFETY: as above.
                let x = unsafe { *from.add(c) }.value();
                max = if x > max { x } else { max };
            }
            let shift = s.splat(max);
            let mut sums = s.splat(0.0);
            for c in (0..whole).step_by(S::LANES) {
                // SAFETY: as above.
                let x = s.sub(unsafe { s.read(from.add(c), S::LANES) }, shift);
                let e = math::exp_below_zero(s, x);
                sums = s.add(sums, e);
                if B::EXACT {
                    // SAFETY: as above.
                    unsafe { s.write(to.add(c), if self.log { x } else { e }, S::LANES) };
                }
            }
            if rest > 0 {
                // SAFETY: `rest` values remain.
                let x = s.sub(unsafe { s.read(from.add(whole), rest) }, shift);
                let e = math::exp_below_zero(s, x);
                let mut lanes = [0.0f32; 64];
                // SAFETY: the array is wider than a vector.
                unsafe { s.store(lanes.as_mut_ptr(), e) };
                lanes[rest..].fill(0.0);
                // SAFETY: as above.
                sums = s.add(sums, unsafe { s.load(lanes.as_ptr()) });
                if B::EXACT {
                    // SAFETY: `rest` values remain.
                    unsafe { s.write(to.add(whole), if self.log { x } else { e }, rest) };
                }
            }
            let sum = s.sum(sums);
            let (scale, shift) = if self.log {
                (1.0, -sum.ln())
            } else {
                (1.0 / sum, 0.0)
            };
            let (scale, shift) = (s.splat(scale), s.splat(shift));
            let max = s.splat(max);
            for c in (0..n).step_by(S::LANES) {
                // SAFETY: `left` values of the row remain; what is read of the output was stored above.
                unsafe {
                    let (to, left) = (to.add(c), n - c);
                    let x = if B::EXACT {
                        s.read(to, left)
                    } else {
                        term(s, s.read(from.add(c), left), max, self.log)
                    };
                    s.write(to, s.mul_add(x, scale, shift), left);
                }
            }
        }
    }
}

/// Neighbouring columns of one `[axis, inner]` matrix.
struct Columns<A, B> {
    log: bool,
    axis: usize,
    inner: usize,
    columns: Range<usize>,
    input: *const A,
    output: *mut B,
}

impl<A: Load, B: Load> Kernel for &Columns<A, B> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut c = self.columns.start;
        while c < self.columns.end {
            let left = self.columns.end - c;
            let from = self.input.wrapping_add(c);
            let to = self.output.wrapping_add(c);
            let mut max = s.splat(f32::NEG_INFINITY);
            for i in 0..self.axis {
                // SAFETY: `left` columns of row i remain.
                max = s.max(unsafe { s.read(from.add(i * self.inner), left) }, max);
            }
            let mut sum = s.splat(0.0);
            for i in 0..self.axis {
                // SAFETY: as above.
                let x = s.sub(unsafe { s.read(from.add(i * self.inner), left) }, max);
                let e = math::exp_below_zero(s, x);
                sum = s.add(sum, e);
                if B::EXACT {
                    // SAFETY: as above.
                    unsafe { s.write(to.add(i * self.inner), if self.log { x } else { e }, left) };
                }
            }
            let (scale, shift) = if self.log {
                (s.splat(1.0), s.neg(math::log(s, sum)))
            } else {
                (s.div(s.splat(1.0), sum), s.splat(0.0))
            };
            for i in 0..self.axis {
                // SAFETY: `left` columns of row i remain; what is read of the output was stored above.
                unsafe {
                    let to = to.add(i * self.inner);
                    let x = if B::EXACT {
                        s.read(to, left)
                    } else {
                        term(s, s.read(from.add(i * self.inner), left), max, self.log)
                    };
                    s.write(to, s.mul_add(x, scale, shift), left);
                }
            }
            c += S::LANES;
        }
    }
}
