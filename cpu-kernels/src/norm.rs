//! Normalisations over the last dimension, with the residual addition that usually precedes them.
//!
//! The variance is the sum of squared differences from the mean, not a difference of sums, so there
//! is no cancellation.
//!
//! Not here: normalisations over other dimensions (group), which reshape or transpose to these.
#![allow(unsafe_code)]

use crate::elementwise::unary;
use crate::elementwise::unary::apply_rows;
use crate::isa::{Kernel, Load, MOST_LANES, Simd};
use crate::threads::{Address, CHUNK, Parts, share};
use crate::{Isa, Slice, SliceMut, ThreadPool, Unary};
use half::bf16;
use std::ops::Range;

/// The kind of normalisation.
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
    /// The kind of normalisation.
    pub norm: Norm,
    /// Added to the variance.
    pub epsilon: f32,
    /// Factor per column, `[columns]`.
    pub scale: Option<&'a [f32]>,
    /// Summand per column, `[columns]`.
    pub bias: Option<&'a [f32]>,
    /// Added to the input first, `[rows, columns]`.
    pub residual: Option<&'a [f32]>,
}

/// Optional further results of [`norm`].
#[derive(Debug, Default)]
pub struct NormExtras<'a> {
    /// `input + residual`.
    pub sum: Option<&'a mut [f32]>,
    /// The output rounded to `bf16`, for a product that reads it while a residual reads the
    /// unrounded output.
    pub rounded: Option<&'a mut [bf16]>,
}

/// Normalises each row of `[rows, columns]`, in one pass over memory.
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, norm::{Norm, NormExtras, NormParams, norm}};
///
/// let params = NormParams { norm: Norm::Layer, epsilon: 0.0, scale: None, bias: None, residual: None };
/// let mut y = [0.0f32; 2];
/// norm(Isa::detect(), &ThreadPool::new(1), 1, 2, params, &[3.0, 7.0], &mut y, NormExtras::default());
/// assert_eq!(y, [-1.0, 1.0]);
/// ```
///
/// # Panics
/// If the length of `input`, `output`, the residual or an extra is not `rows * columns`, or that of scale or bias is
/// not `columns`.
pub fn norm<'b>(
    isa: Isa,
    pool: &ThreadPool,
    rows: usize,
    columns: usize,
    params: NormParams<'_>,
    input: &[f32],
    output: impl Into<SliceMut<'b>>,
    extras: NormExtras<'_>,
) {
    match output.into() {
        SliceMut::F32(y) => typed(isa, pool, [rows, columns], params, input, y, extras),
        SliceMut::Bf16(y) => typed(isa, pool, [rows, columns], params, input, y, extras),
    }
}

fn typed<E: Load>(
    isa: Isa,
    pool: &ThreadPool,
    [rows, columns]: [usize; 2],
    params: NormParams<'_>,
    input: &[f32],
    output: &mut [E],
    extras: NormExtras<'_>,
) {
    let len = rows.checked_mul(columns);
    assert_eq!(len, Some(input.len()), "norm: length of the input");
    assert_eq!(len, Some(output.len()), "norm: length of the output");
    let whole = |slice: Option<usize>| slice.is_none_or(|slice| slice == output.len());
    assert!(
        whole(params.residual.map(<[f32]>::len)),
        "norm: length of the residual"
    );
    assert!(
        whole(extras.sum.as_ref().map(|sum| sum.len())),
        "norm: length of the sum"
    );
    assert!(
        whole(extras.rounded.as_ref().map(|rounded| rounded.len())),
        "norm: length of the rounded output"
    );
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
    let (scale, bias, residual) = (start(params.scale), start(params.bias), start(params.residual));
    let input = Address(input.as_ptr());
    let (sum, rounded) = (extras.sum.map(Parts::new), extras.rounded.map(Parts::new));
    let output = Parts::new(output);
    pool.run(chunks, &|chunk| {
        let kernel = Rows {
            norm: params.norm,
            epsilon: params.epsilon,
            rows: share(rows, chunks, chunk, 1),
            columns,
            scale: scale.at(0),
            bias: bias.at(0),
            residual: residual.at(0),
            input: input.at(0),
            sum: sum.as_ref().map_or(std::ptr::null_mut(), Parts::as_ptr),
            rounded: rounded.as_ref().map_or(std::ptr::null_mut(), Parts::as_ptr),
            output: output.as_ptr(),
            planes: None,
        };
        if rounded.is_some() {
            bf16::enter(isa, &kernel);
        } else {
            E::enter(isa, &kernel);
        }
    });
}

/// A range of rows; pointers to missing operands are null.
struct Rows<E> {
    norm: Norm,
    epsilon: f32,
    rows: Range<usize>,
    columns: usize,
    scale: *const f32,
    bias: *const f32,
    residual: *const f32,
    input: *const f32,
    sum: *mut f32,
    rounded: *mut bf16,
    output: *mut E,
    /// Factor and summand of a whole row, each row's after the one before, from the first again after so many.
    planes: Option<([*const f32; 2], usize)>,
}

/// Instance normalisation of an image in ONNX order, in one pass over memory: normalises each
/// plane, then applies the scale and shift of its channel.
///
/// # Panics
/// If a length does not fit the planes.
pub fn norm_planes(
    isa: Isa,
    pool: &ThreadPool,
    plane: usize,
    epsilon: f32,
    [scale, shift]: [&[f32]; 2],
    input: &[f32],
    output: &mut [f32],
) {
    let channels = scale.len();
    assert_eq!(shift.len(), channels, "norm_planes: length of the shift");
    assert_eq!(input.len(), output.len(), "norm_planes: lengths differ");
    if output.is_empty() {
        return;
    }
    assert!(
        output.len().is_multiple_of(plane * channels),
        "norm_planes: length of the data"
    );
    let planes = output.len() / plane;
    let chunks = if output.len() < 8192 {
        1
    } else {
        planes.min(pool.threads() * 4)
    };
    let numbers = [scale, shift].map(|numbers| Address(numbers.as_ptr()));
    let input = Address(input.as_ptr());
    let output = Parts::new(output);
    pool.run(chunks, &|chunk| {
        isa.run(&Rows::<f32> {
            norm: Norm::Layer,
            epsilon,
            rows: share(planes, chunks, chunk, 1),
            columns: plane,
            scale: std::ptr::null(),
            bias: std::ptr::null(),
            residual: std::ptr::null(),
            input: input.at(0),
            sum: std::ptr::null_mut(),
            rounded: std::ptr::null_mut(),
            output: output.as_ptr(),
            planes: Some(([numbers[0].at(0), numbers[1].at(0)], channels)),
        });
    });
}

/// Chains of additions side by side, which hide each other's latency.
const CHAINS: usize = 4;

impl<E: Load> Rows<E> {
    /// What is normalised, from column `c` of the row at `offset`; zero beyond its end. The residual is added again in
    /// each pass, out of L1, where that is less than storing the sums.
    #[inline(always)]
    fn value<S: Simd>(&self, s: S, offset: usize, c: usize) -> S::F {
        let left = self.columns - c;
        // SAFETY: `left` values remain in each row.
        unsafe {
            let x = s.read(self.input.wrapping_add(offset + c), left);
            if self.residual.is_null() {
                x
            } else {
                s.add(x, s.read(self.residual.wrapping_add(offset + c), left))
            }
        }
    }

    /// The value at `c`, or the square of its difference from the mean.
    #[inline(always)]
    fn summand<S: Simd, const SQUARE: bool>(
        &self,
        s: S,
        offset: usize,
        c: usize,
        mean: S::F,
        inside: S::M,
    ) -> S::F {
        let x = self.value(s, offset, c);
        if !SQUARE {
            return x;
        }
        let mut d = s.sub(x, mean);
        if self.columns - c < S::LANES {
            d = s.select(inside, d, s.splat(0.0));
        }
        s.mul(d, d)
    }

    /// The sum of a row's values, or of the squares of their differences from the mean.
    #[inline(always)]
    fn total<S: Simd, const SQUARE: bool>(&self, s: S, offset: usize, mean: S::F, inside: S::M) -> f32 {
        let n = self.columns;
        let mut sums = [s.splat(0.0); CHAINS];
        let mut c = 0;
        while c + CHAINS * S::LANES <= n {
            for (chain, sum) in sums.iter_mut().enumerate() {
                let at = c + chain * S::LANES;
                *sum = s.add(*sum, self.summand::<S, SQUARE>(s, offset, at, mean, inside));
            }
            c += CHAINS * S::LANES;
        }
        while c < n {
            sums[0] = s.add(sums[0], self.summand::<S, SQUARE>(s, offset, c, mean, inside));
            c += S::LANES;
        }
        s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
    }
}

impl<E: Load> Kernel for &Rows<E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.columns;
        let count = n as f32;
        let mut lanes = [0.0f32; MOST_LANES];
        lanes[..(n - 1) % S::LANES + 1].fill(1.0);
        // SAFETY: the array is as wide as the widest vector.
        let inside = s.lt(s.splat(0.0), unsafe { s.load(lanes.as_ptr()) });
        for row in self.rows.clone() {
            let offset = row * n;
            let to = self.output.wrapping_add(offset);
            let zero = s.splat(0.0);
            let mean = if self.norm == Norm::Layer {
                s.splat(self.total::<S, false>(s, offset, zero, inside) / count)
            } else {
                zero
            };
            let square = self.total::<S, true>(s, offset, mean, inside);
            let factor = 1.0 / (square / count + self.epsilon).sqrt();
            if let Some(([scale, shift], channels)) = self.planes {
                // SAFETY: there are as many numbers as channels.
                let (scale, shift) = unsafe { (*scale.add(row % channels), *shift.add(row % channels)) };
                let (scale, shift) = (s.splat(factor * scale), s.splat(shift));
                for c in (0..n).step_by(S::LANES) {
                    let y = s.mul_add(s.sub(self.value(s, offset, c), mean), scale, shift);
                    // SAFETY: `n - c` values remain.
                    unsafe { s.write(to.wrapping_add(c), y, n - c) };
                }
                continue;
            }
            let factor = s.splat(factor);
            for c in (0..n).step_by(S::LANES) {
                let left = n - c;
                let x = self.value(s, offset, c);
                // SAFETY: `left` values remain in each row and in scale and bias.
                unsafe {
                    if !self.sum.is_null() {
                        s.write(self.sum.wrapping_add(offset + c), x, left);
                    }
                    let mut y = s.mul(s.sub(x, mean), factor);
                    if !self.scale.is_null() {
                        y = s.mul(y, s.read(self.scale.wrapping_add(c), left));
                    }
                    if !self.bias.is_null() {
                        y = s.add(y, s.read(self.bias.wrapping_add(c), left));
                    }
                    s.write(to.wrapping_add(c), y, left);
                    if S::BF16 && !self.rounded.is_null() {
                        s.write(self.rounded.wrapping_add(offset + c), y, left);
                    }
                }
            }
        }
    }
}

/// Batch normalisation of an image in ONNX order: `data[p] = input[p] * scale[c] + shift[c]` for
/// planes `p` of equal size, where `c` is `p` modulo the number of channels. Without an input,
/// `data` is scaled in place.
///
/// # Panics
/// If a length does not fit the planes.
pub fn scale_shift_planes(
    isa: Isa,
    pool: &ThreadPool,
    scale: &[f32],
    shift: &[f32],
    input: Option<&[f32]>,
    data: &mut [f32],
    plane: usize,
) {
    let channels = scale.len();
    assert_eq!(shift.len(), channels, "scale_shift_planes: length of the shift");
    assert!(
        input.is_none_or(|input| input.len() == data.len()),
        "scale_shift_planes: lengths differ"
    );
    if data.is_empty() {
        return;
    }
    assert!(
        data.len().is_multiple_of(plane * channels),
        "scale_shift_planes: length of the data"
    );
    let planes = data.len() / plane;
    let chunks = data
        .len()
        .div_ceil(CHUNK)
        .clamp(1, pool.threads() * 4)
        .min(planes);
    let out = Parts::new(data);
    pool.run(chunks, &|chunk| {
        for p in share(planes, chunks, chunk, 1) {
            // SAFETY: chunks share the planes out.
            let y = unsafe { out.part(p * plane, plane) };
            let x = input.map_or(y.as_ptr(), |input| input[p * plane..][..plane].as_ptr());
            isa.run(&unary::Rows {
                f: Unary::Affine {
                    scale: scale[p % channels],
                    shift: shift[p % channels],
                },
                rows: 1,
                columns: plane,
                input: x,
                input_stride: 0,
                out: y.as_mut_ptr(),
                out_stride: 0,
                added: std::ptr::null::<f32>(),
                added_stride: 0,
            });
        }
    });
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
        let kernel = Affine {
            rows: share(rows, chunks, chunk, 1),
            columns,
            scale: scale.at(0),
            shift: shift.at(0),
            activation,
            input: input.at(0),
            output: output.as_ptr(),
        };
        E::enter(isa, &kernel);
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
