//! Normalisations over the last dimension, with the residual addition that usually precedes them.
//!
//! The variance is summed over differences from the mean, not as a difference of sums, so that it never cancels.
//!
//! Not here: normalisations over other dimensions (instance, group), which reshape or transpose to these.
#![allow(unsafe_code)]

use crate::elementwise::unary::apply_rows;
use crate::isa::{Kernel, Simd};
use crate::stored::Load;
use crate::threads::{Address, Parts, share};
use crate::{Isa, Slice, SliceMut, ThreadPool, Unary};
use std::ops::Range;

/// Which normalisation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
    Layer,
    /// `x / sqrt(mean(x^2) + epsilon) * scale + bias`.
    Rms,
}

/// The operands of [`norm`] beside its input.
#[derive(Debug, Clone, Copy)]
pub struct NormParams<'a> {
    /// Which normalisation.
    pub norm: Norm,
    /// Added to the variance.
    pub epsilon: f32,
    /// Factor per column, `[columns]`.
    pub scale: Option<&'a [f32]>,
    /// Summand per column, `[columns]`.
    pub bias: Option<&'a [f32]>,
    /// Added to the input first, `[rows, columns]`; of the input's element type.
    pub residual: Option<Slice<'a>>,
}

/// Normalises each row of `[rows, columns]`; `sum` receives `input + residual` where the caller wants it.
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, norm::{Norm, NormParams, norm}};
///
/// let params = NormParams { norm: Norm::Layer, epsilon: 0.0, scale: None, bias: None, residual: None };
/// let mut y = [0.0f32; 2];
/// norm(Isa::detect(), &ThreadPool::new(1), 1, 2, params, &[3.0f32, 7.0], None, &mut y);
/// assert_eq!(y, [-1.0, 1.0]);
/// ```
///
/// # Panics
/// If the length of `input`, `output`, `sum` or the residual is not `rows * columns`, or that of scale or bias is
/// not `columns`; if the element types are not those of one input, or a `bf16` input becomes `f32`.
pub fn norm<'a, 'b>(
    isa: Isa,
    pool: &ThreadPool,
    rows: usize,
    columns: usize,
    params: NormParams<'a>,
    input: impl Into<Slice<'a>>,
    sum: Option<SliceMut<'b>>,
    output: impl Into<SliceMut<'b>>,
) {
    slices(
        isa,
        pool,
        [rows, columns],
        params,
        input.into(),
        sum,
        output.into(),
    );
}

fn slices<'a>(
    isa: Isa,
    pool: &ThreadPool,
    size: [usize; 2],
    params: NormParams<'a>,
    input: Slice<'a>,
    sum: Option<SliceMut<'_>>,
    output: SliceMut<'_>,
) {
    const TYPES: &str = "norm: element types differ";
    match (input, output) {
        (Slice::F32(x), SliceMut::F32(y)) => {
            let residual = params.residual.map(|r| match r {
                Slice::F32(r) => r,
                Slice::Bf16(_) => panic!("{TYPES}"),
            });
            let sum = sum.map(|sum| match sum {
                SliceMut::F32(sum) => sum,
                SliceMut::Bf16(_) => panic!("{TYPES}"),
            });
            typed(isa, pool, size, params, residual, x, sum, y);
        }
        (Slice::Bf16(x), SliceMut::Bf16(y)) => {
            let residual = params.residual.map(|r| match r {
                Slice::Bf16(r) => r,
                Slice::F32(_) => panic!("{TYPES}"),
            });
            let sum = sum.map(|sum| match sum {
                SliceMut::Bf16(sum) => sum,
                SliceMut::F32(_) => panic!("{TYPES}"),
            });
            typed(isa, pool, size, params, residual, x, sum, y);
        }
        (Slice::F32(x), SliceMut::Bf16(y)) => {
            assert!(
                params.residual.is_none() && sum.is_none(),
                "norm: a sum of f32 has no place in a bf16 output"
            );
            typed(isa, pool, size, params, None, x, None, y);
        }
        (Slice::Bf16(_), SliceMut::F32(_)) => panic!("{TYPES}"),
    }
}

fn typed<A: Load, B: Load>(
    isa: Isa,
    pool: &ThreadPool,
    [rows, columns]: [usize; 2],
    params: NormParams<'_>,
    residual: Option<&[A]>,
    input: &[A],
    sum: Option<&mut [A]>,
    output: &mut [B],
) {
    let len = rows.checked_mul(columns);
    assert_eq!(len, Some(input.len()), "norm: length of the input");
    assert_eq!(len, Some(output.len()), "norm: length of the output");
    let whole = |slice: Option<&[A]>| slice.is_none_or(|slice| slice.len() == output.len());
    assert!(whole(residual), "norm: length of the residual");
    assert!(whole(sum.as_deref()), "norm: length of the sum");
    let per_column = |slice: Option<&[f32]>| slice.is_none_or(|slice| slice.len() == columns);
    assert!(per_column(params.scale), "norm: length of the scale");
    assert!(per_column(params.bias), "norm: length of the bias");
    if output.is_empty() {
        return;
    }
    let chunks = if output.len() < 8192 {
        1
    } else {
        rows.min(pool.threads() * 4)
    };
    let start = |slice: Option<&[f32]>| Address(slice.map_or(std::ptr::null(), <[f32]>::as_ptr));
    let (scale, bias) = (start(params.scale), start(params.bias));
    let residual = Address(residual.map_or(std::ptr::null(), <[A]>::as_ptr));
    let input = Address(input.as_ptr());
    let sum = sum.map(Parts::new);
    let output = Parts::new(output);
    pool.run(chunks, &|chunk| {
        isa.run(&Rows {
            norm: params.norm,
            epsilon: params.epsilon,
            rows: share(rows, chunks, chunk, 1),
            columns,
            scale: scale.at(0),
            bias: bias.at(0),
            residual: residual.at(0),
            input: input.at(0),
            sum: sum.as_ref().map_or(std::ptr::null_mut(), Parts::as_ptr),
            output: output.as_ptr(),
        });
    });
}

/// A range of rows; pointers to missing operands are null.
struct Rows<A, B> {
    norm: Norm,
    epsilon: f32,
    rows: Range<usize>,
    columns: usize,
    scale: *const f32,
    bias: *const f32,
    residual: *const A,
    input: *const A,
    sum: *mut A,
    output: *mut B,
}

impl<A: Load, B: Load> Kernel for &Rows<A, B> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.columns;
        let count = n as f32;
        let layer = self.norm == Norm::Layer;
        for row in self.rows.clone() {
            let offset = row * n;
            let to = self.output.wrapping_add(offset);
            // The sums that are normalised: the input itself, or what is stored where the output will be.
            let mut from = self.input.wrapping_add(offset);
            let mut total = s.splat(0.0);
            if self.residual.is_null() {
                for c in (0..n).step_by(S::LANES) {
                    // SAFETY: n - c values remain in the row.
                    let x = unsafe { s.read(from.wrapping_add(c), n - c) };
                    total = s.add(total, x);
                    if !self.sum.is_null() {
                        // SAFETY: as above.
                        unsafe { s.write(self.sum.wrapping_add(offset + c), x, n - c) };
                    }
                }
            } else {
                let keep = if self.sum.is_null() {
                    // a residual comes with elements of one type, so the output can hold the sums meanwhile
                    to.cast::<A>()
                } else {
                    self.sum.wrapping_add(offset)
                };
                for c in (0..n).step_by(S::LANES) {
                    // SAFETY: n - c values remain in each row.
                    unsafe {
                        let residual = s.read(self.residual.wrapping_add(offset + c), n - c);
                        let x = s.add(s.read(from.wrapping_add(c), n - c), residual);
                        total = s.add(total, x);
                        s.write(keep.wrapping_add(c), x, n - c);
                    }
                }
                from = keep;
            }
            let mean = if layer { s.sum(total) / count } else { 0.0 };
            let mean_v = s.splat(mean);
            let mut squares = s.splat(0.0);
            let whole = n / S::LANES * S::LANES;
            for c in (0..whole).step_by(S::LANES) {
                // SAFETY: LANES values remain.
                let d = s.sub(unsafe { s.read(from.wrapping_add(c), S::LANES) }, mean_v);
                squares = s.mul_add(d, d, squares);
            }
            let mut square = s.sum(squares);
            for c in whole..n {
                // SAFETY: c < n.
                let d = unsafe { *from.wrapping_add(c) }.value() - mean;
                square += d * d;
            }
            let factor = s.splat(1.0 / (square / count + self.epsilon).sqrt());
            for c in (0..n).step_by(S::LANES) {
                let left = n - c;
                // SAFETY: `left` values remain in each row and in scale and bias.
                unsafe {
                    let mut y = s.mul(s.sub(s.read(from.wrapping_add(c), left), mean_v), factor);
                    if !self.scale.is_null() {
                        y = s.mul(y, s.read(self.scale.wrapping_add(c), left));
                    }
                    if !self.bias.is_null() {
                        y = s.add(y, s.read(self.bias.wrapping_add(c), left));
                    }
                    s.write(to.wrapping_add(c), y, left);
                }
            }
        }
    }
}

/// `output[r, c] = f(input[r, c] * scale[c] + shift[c])`: batch normalisation of a channels-last image.
///
/// # Panics
/// If the length of `input` or `output` is not a multiple of that of `scale`, `shift` differs from it, or element
/// types differ.
pub fn scale_shift(
    isa: Isa,
    pool: &ThreadPool,
    scale: &[f32],
    shift: &[f32],
    activation: Unary,
    input: Slice<'_>,
    output: SliceMut<'_>,
) {
    match (input, output) {
        (Slice::F32(x), SliceMut::F32(y)) => affine(isa, pool, scale, shift, activation, x, y),
        (Slice::Bf16(x), SliceMut::Bf16(y)) => affine(isa, pool, scale, shift, activation, x, y),
        _ => panic!("scale_shift: element types differ"),
    }
}

fn affine<E: Load>(
    isa: Isa,
    pool: &ThreadPool,
    scale: &[f32],
    shift: &[f32],
    activation: Unary,
    input: &[E],
    output: &mut [E],
) {
    let columns = scale.len();
    assert_eq!(shift.len(), columns, "scale_shift: length of the shift");
    assert_eq!(input.len(), output.len(), "scale_shift: lengths differ");
    if output.is_empty() {
        return;
    }
    assert!(
        columns > 0 && output.len().is_multiple_of(columns),
        "scale_shift: length of the data"
    );
    let rows = output.len() / columns;
    let chunks = if output.len() < 8192 {
        1
    } else {
        rows.min(pool.threads() * 4)
    };
    let (scale, shift) = (Address(scale.as_ptr()), Address(shift.as_ptr()));
    let (input, output) = (Address(input.as_ptr()), Parts::new(output));
    pool.run(chunks, &|chunk| {
        isa.run(&Affine {
            rows: share(rows, chunks, chunk, 1),
            columns,
            scale: scale.at(0),
            shift: shift.at(0),
            activation,
            input: input.at(0),
            output: output.as_ptr(),
        });
    });
}

/// A range of rows.
struct Affine<E> {
    rows: Range<usize>,
    columns: usize,
    scale: *const f32,
    shift: *const f32,
    activation: Unary,
    input: *const E,
    output: *mut E,
}

impl<E: Load> Kernel for &Affine<E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.columns;
        for row in self.rows.clone() {
            let (from, to) = (
                self.input.wrapping_add(row * n),
                self.output.wrapping_add(row * n),
            );
            for c in (0..n).step_by(S::LANES) {
                let left = n - c;
                // SAFETY: `left` values remain in each operand.
                unsafe {
                    let scale = s.read(self.scale.wrapping_add(c), left);
                    let shift = s.read(self.shift.wrapping_add(c), left);
                    let x = s.read(from.wrapping_add(c), left);
                    s.write(to.wrapping_add(c), s.mul_add(x, scale, shift), left);
                }
            }
            if self.activation != Unary::Identity {
                // SAFETY: this row was just stored.
                unsafe { apply_rows(s, self.activation, to, 1, n, 0, std::ptr::null(), 0) };
            }
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
                for (rows, n) in [(1, 1), (3, 7), (128, 384), (5, 33), (2, 64), (0, 4)] {
                    let value = |i: usize, p: usize| ((i * p) % 997) as f32 / 500.0 - 1.0;
                    let input: Vec<f32> = (0..rows * n).map(|i| value(i, 7919)).collect();
                    let residual: Vec<f32> = (0..rows * n).map(|i| value(i, 104_729)).collect();
                    let scale: Vec<f32> = (0..n).map(|i| value(i, 31)).collect();
                    let bias: Vec<f32> = (0..n).map(|i| value(i, 37)).collect();
                    for case in 0..16 {
                        let on = |bit: usize| case >> bit & 1 == 1;
                        let params = NormParams {
                            norm: if on(0) { Norm::Layer } else { Norm::Rms },
                            epsilon: 1e-5,
                            scale: on(1).then_some(&scale),
                            bias: on(1).then_some(&bias),
                            residual: on(2).then_some((&residual).into()),
                        };
                        let (mut sum, mut got) = (vec![f32::NAN; rows * n], vec![f32::NAN; rows * n]);
                        norm(
                            isa,
                            &pool,
                            rows,
                            n,
                            params,
                            &input,
                            on(3).then_some(SliceMut::F32(&mut sum)),
                            &mut got,
                        );
                        for row in 0..rows {
                            let x: Vec<f64> = (row * n..(row + 1) * n)
                                .map(|i| {
                                    f64::from(input[i]) + if on(2) { f64::from(residual[i]) } else { 0.0 }
                                })
                                .collect();
                            let mean = if on(0) {
                                x.iter().sum::<f64>() / n as f64
                            } else {
                                0.0
                            };
                            let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                            for (c, &x) in x.iter().enumerate() {
                                let mut want = (x - mean) / (var + f64::from(params.epsilon)).sqrt();
                                if on(1) {
                                    want = want * f64::from(scale[c]) + f64::from(bias[c]);
                                }
                                let got = f64::from(got[row * n + c]);
                                assert!(
                                    (got - want).abs() < 1e-5,
                                    "{isa:?} {rows}x{n} case {case}: {got} {want}"
                                );
                                if on(3) {
                                    assert!((f64::from(sum[row * n + c]) - x).abs() < 1e-6);
                                }
                            }
                        }
                    }
                    let mut got = vec![f32::NAN; rows * n];
                    scale_shift(
                        isa,
                        &pool,
                        &scale,
                        &bias,
                        Unary::Relu,
                        (&input).into(),
                        (&mut got).into(),
                    );
                    for (i, got) in got.iter().enumerate() {
                        let want = (input[i] * scale[i % n] + bias[i % n]).max(0.0);
                        assert!((got - want).abs() < 1e-6);
                    }
                }
            }
        }
    }
}
