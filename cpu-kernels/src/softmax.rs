//! Softmax and its logarithm over any axis, given as `[outer, axis, inner]`.
//!
//! The largest value is subtracted first, so no exponential overflows. A row of minus infinities gives NaN.
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
use crate::math;
use crate::threads::{Address, Parts, share};
use crate::{Isa, ThreadPool};
use std::ops::Range;

/// Softmax over the middle dimension of `[outer, axis, inner]`.
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, softmax::softmax};
///
/// let mut y = [0.0; 2];
/// softmax(Isa::detect(), &ThreadPool::new(1), [1, 2, 1], &[3.0, 3.0], &mut y);
/// assert_eq!(y, [0.5, 0.5]);
/// ```
///
/// # Panics
/// If a length is not `outer * axis * inner`.
pub fn softmax(isa: Isa, pool: &ThreadPool, dims: [usize; 3], input: &[f32], output: &mut [f32]) {
    assert_eq!(input.len(), output.len(), "softmax: lengths differ");
    run(isa, pool, dims, false, input.as_ptr(), output);
}

/// [`softmax`] that overwrites its input.
///
/// # Panics
/// If the length is not `outer * axis * inner`.
pub fn softmax_in_place(isa: Isa, pool: &ThreadPool, dims: [usize; 3], data: &mut [f32]) {
    run(isa, pool, dims, false, data.as_ptr(), data);
}

/// The logarithm of [`softmax`], without its underflow.
///
/// # Panics
/// If a length is not `outer * axis * inner`.
pub fn log_softmax(isa: Isa, pool: &ThreadPool, dims: [usize; 3], input: &[f32], output: &mut [f32]) {
    assert_eq!(input.len(), output.len(), "softmax: lengths differ");
    run(isa, pool, dims, true, input.as_ptr(), output);
}

/// `input` is the start of `output.len()` readable values: another slice, or `output` itself.
fn run(
    isa: Isa,
    pool: &ThreadPool,
    [outer, axis, inner]: [usize; 3],
    log: bool,
    input: *const f32,
    output: &mut [f32],
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
            isa.run(&Rows {
                log,
                axis,
                rows: mine,
                input: input.at(0),
                output: output.as_ptr(),
            });
            return;
        }
        for unit in mine {
            let first = unit % columns * width;
            isa.run(&Columns {
                log,
                axis,
                inner,
                columns: first..(first + width).min(inner),
                input: input.at(unit / columns * axis * inner),
                output: output.as_ptr().wrapping_add(unit / columns * axis * inner),
            });
        }
    });
}

/// Contiguous rows.
struct Rows {
    log: bool,
    axis: usize,
    rows: Range<usize>,
    input: *const f32,
    output: *mut f32,
}

impl Kernel for &Rows {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.axis;
        let whole = n / S::LANES * S::LANES;
        let rest = n - whole;
        for row in self.rows.clone() {
            let from = self.input.wrapping_add(row * n);
            let to = self.output.wrapping_add(row * n);
            let mut largest = s.splat(f32::NEG_INFINITY);
            for c in (0..whole).step_by(S::LANES) {
                // SAFETY: the row has n values.
                largest = s.max(unsafe { s.load(from.add(c)) }, largest);
            }
            let mut max = s.max_lane(largest);
            for c in whole..n {
                // SAFETY: as above.
                let x = unsafe { *from.add(c) };
                max = if x > max { x } else { max };
            }
            let shift = s.splat(max);
            let mut sums = s.splat(0.0);
            for c in (0..whole).step_by(S::LANES) {
                // SAFETY: as above.
                let x = s.sub(unsafe { s.load(from.add(c)) }, shift);
                let e = math::exp(s, x);
                sums = s.add(sums, e);
                // SAFETY: as above.
                unsafe { s.store(to.add(c), if self.log { x } else { e }) };
            }
            if rest > 0 {
                // SAFETY: `rest` values remain.
                let x = s.sub(unsafe { s.load_first(from.add(whole), rest) }, shift);
                let e = math::exp(s, x);
                let mut lanes = [0.0f32; 64];
                // SAFETY: the array is wider than a vector.
                unsafe { s.store(lanes.as_mut_ptr(), e) };
                lanes[rest..].fill(0.0);
                // SAFETY: as above.
                sums = s.add(sums, unsafe { s.load(lanes.as_ptr()) });
                // SAFETY: `rest` values remain.
                unsafe { s.store_first(to.add(whole), if self.log { x } else { e }, rest) };
            }
            let sum = s.sum(sums);
            let (scale, shift) = if self.log {
                (1.0, -sum.ln())
            } else {
                (1.0 / sum, 0.0)
            };
            let (scale, shift) = (s.splat(scale), s.splat(shift));
            for c in (0..n).step_by(S::LANES) {
                // SAFETY: this function has just stored these values.
                unsafe {
                    let to = to.add(c);
                    let left = n - c;
                    s.write(to, s.mul_add(s.read(to, left), scale, shift), left);
                }
            }
        }
    }
}

/// Neighbouring columns of one `[axis, inner]` matrix.
struct Columns {
    log: bool,
    axis: usize,
    inner: usize,
    columns: Range<usize>,
    input: *const f32,
    output: *mut f32,
}

impl Kernel for &Columns {
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
                let e = math::exp(s, x);
                sum = s.add(sum, e);
                // SAFETY: as above.
                unsafe { s.write(to.add(i * self.inner), if self.log { x } else { e }, left) };
            }
            let (scale, shift) = if self.log {
                (s.splat(1.0), s.neg(math::log(s, sum)))
            } else {
                (s.div(s.splat(1.0), sum), s.splat(0.0))
            };
            for i in 0..self.axis {
                // SAFETY: this function has just stored these values.
                unsafe {
                    let to = to.add(i * self.inner);
                    s.write(to, s.mul_add(s.read(to, left), scale, shift), left);
                }
            }
            c += S::LANES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_f64() {
        for threads in [1, 2] {
            let pool = ThreadPool::new(threads);
            for isa in Isa::available() {
                for dims in [
                    [1, 1, 1],
                    [3, 5, 1],
                    [7, 1000, 1],
                    [2, 16, 33],
                    [4, 3, 100],
                    [5, 64, 1],
                    [0, 3, 2],
                ] {
                    let [outer, axis, inner] = dims;
                    let input: Vec<f32> = (0..outer * axis * inner)
                        .map(|i| ((i * 7919) % 201) as f32 * 0.3 - 30.0)
                        .collect();
                    let (mut soft, mut log) = (vec![0.0; input.len()], vec![0.0; input.len()]);
                    softmax(isa, &pool, dims, &input, &mut soft);
                    log_softmax(isa, &pool, dims, &input, &mut log);
                    let mut in_place = input.clone();
                    softmax_in_place(isa, &pool, dims, &mut in_place);
                    assert_eq!(soft, in_place);
                    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                        let at = |a: usize| (o * axis + a) * inner + i;
                        let max = (0..axis).map(|a| input[at(a)]).fold(f32::NEG_INFINITY, f32::max);
                        let e = |a: usize| f64::from(input[at(a)] - max).exp();
                        let sum: f64 = (0..axis).map(e).sum();
                        for a in 0..axis {
                            let want = e(a) / sum;
                            assert!(
                                (f64::from(soft[at(a)]) - want).abs() <= 1e-6 * want.max(1e-6),
                                "{isa:?} {dims:?}"
                            );
                            assert!(
                                (f64::from(log[at(a)]) - want.ln()).abs() <= 1e-5,
                                "{isa:?} {dims:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_nan_spoils_its_row_only() {
        for isa in Isa::available() {
            let mut data = vec![1.0; 60];
            data[7] = f32::NAN;
            softmax_in_place(isa, &ThreadPool::new(1), [3, 20, 1], &mut data);
            assert!(
                data[..20].iter().all(|x| x.is_nan()) && data[20..].iter().all(|x| *x == 0.05),
                "{isa:?}"
            );
        }
    }
}
