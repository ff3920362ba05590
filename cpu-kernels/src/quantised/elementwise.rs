//! Conversions between floats and codes, and functions of codes: tables, sums, products, maxima over windows.
#![allow(unsafe_code)]

use super::int8::CodeRange;
use crate::conv::Window;
use crate::isa::dot::{ByteKernel, Bytes};
use crate::isa::{Kernel, Simd};
use crate::threads::{Address, Parts, share};
use crate::{Isa, ThreadPool};
use std::ops::Range;

/// Elements below which a step is left to one thread: about 5 µs.
const ONE_THREAD: usize = 64 * 1024;

/// Runs `f(range)` over chunks of `len` elements.
fn chunks(pool: &ThreadPool, len: usize, f: &(impl Fn(Range<usize>) + Sync)) {
    if len < ONE_THREAD || pool.threads() == 1 {
        return f(0..len);
    }
    let count = (pool.threads() * 4).min(len.div_ceil(ONE_THREAD / 4));
    pool.run(count, &|chunk| f(share(len, count, chunk, 64)));
}

/// `y = round(x / scale) + zero`, to the nearest even code, clamped; a NaN gives the least code.
///
/// # Panics
/// If the lengths differ.
pub fn quantise(isa: Isa, pool: &ThreadPool, x: &[f32], scale: f32, codes: CodeRange, y: &mut [u8]) {
    struct Quantise<'a>(&'a [f32], f32, CodeRange, &'a mut [u8]);
    impl ByteKernel for Quantise<'_> {
        type Output = ();
        #[inline(always)]
        fn run<B: Bytes>(self, b: B) {
            let Quantise(x, scale, codes, y) = self;
            let (s, lanes) = (b.simd(), B::S::LANES);
            let (low, high) = codes.limits();
            let (scale, low, high) = (s.splat(scale), s.splat(low), s.splat(high));
            let zero = s.splat_i(i32::from(codes.zero));
            let mut i = 0;
            while i < x.len() {
                let left = x.len() - i;
                // SAFETY: `left` values remain.
                let value = s.div(unsafe { s.read(x.as_ptr().add(i), left) }, scale);
                let value = s.min(s.max(value, low), high);
                // SAFETY: y is as long as x.
                unsafe { b.narrow(y.as_mut_ptr().add(i), s.add_i(s.to_int(value), zero), left) };
                i += lanes;
            }
        }
    }
    assert_eq!(x.len(), y.len(), "quantise: lengths differ");
    let parts = Parts::new(y);
    chunks(pool, x.len(), &|range| {
        // SAFETY: chunks are disjoint.
        let y = unsafe { parts.part(range.start, range.len()) };
        isa.run_bytes(Quantise(&x[range], scale, codes, y));
    });
}

/// The most pieces in which a range is looked for.
const PIECES: usize = 64;

/// Quantises over the range of `x` and 0 like DynamicQuantizeLinear, and returns scale and zero
/// point. NaNs do not count in the range.
///
/// # Panics
/// If the lengths differ.
pub fn dynamic(isa: Isa, pool: &ThreadPool, x: &[f32], y: &mut [u8]) -> (f32, u8) {
    struct Extremes<'a>(&'a [f32]);
    impl Kernel for Extremes<'_> {
        type Output = [f32; 2];
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> [f32; 2] {
            let (mut low, mut high) = (s.splat(0.0), s.splat(0.0));
            let mut i = 0;
            while i < self.0.len() {
                // SAFETY: as many values remain; the zeros behind the last are in the range anyway.
                let x = unsafe { s.read(self.0.as_ptr().add(i), self.0.len() - i) };
                // operand order: a NaN in x is passed over
                (low, high) = (s.min(x, low), s.max(x, high));
                i += S::LANES;
            }
            [-s.max_lane(s.neg(low)), s.max_lane(high)]
        }
    }
    assert_eq!(x.len(), y.len(), "dynamic: lengths differ");
    let mut extremes = [[0.0f32; 2]; PIECES];
    let count = (pool.threads() * 4)
        .min(x.len().div_ceil(ONE_THREAD / 4))
        .clamp(1, PIECES);
    let parts = Parts::new(&mut extremes);
    pool.run(count, &|chunk| {
        let found = isa.run(Extremes(&x[share(x.len(), count, chunk, 64)]));
        // SAFETY: every chunk has a place of its own.
        let own = unsafe { parts.part(chunk, 1) };
        own[0] = found;
    });
    let low = extremes.iter().fold(0.0, |low: f32, own| low.min(own[0]));
    let high = extremes.iter().fold(0.0, |high: f32, own| high.max(own[1]));
    let scale = (high - low) / 255.0;
    let zero = if scale == 0.0 {
        0
    } else {
        (-low / scale).clamp(0.0, 255.0).round_ties_even() as u8
    };
    if scale == 0.0 {
        y.fill(0);
    } else {
        quantise(isa, pool, x, scale, CodeRange::all(zero), y);
    }
    (scale, zero)
}

/// Subtracts the effect of the rows' zero point from a product's sums: `zero` times the column sums
/// of the right operand.
///
/// # Panics
/// If the sums are not whole rows of as many values as there are columns.
pub fn subtract_zero(pool: &ThreadPool, sums: &mut [i32], columns: &[i32], zero: u8) {
    if sums.is_empty() || zero == 0 {
        return;
    }
    assert!(
        sums.len().is_multiple_of(columns.len()),
        "subtract zero: rows are not whole"
    );
    let rows = sums.len() / columns.len();
    let count = if sums.len() < ONE_THREAD {
        1
    } else {
        rows.min(pool.threads() * 4)
    };
    let parts = Parts::new(sums);
    pool.run(count, &|chunk| {
        let rows = share(rows, count, chunk, 1);
        // SAFETY: chunks are disjoint.
        let sums = unsafe { parts.part(rows.start * columns.len(), rows.len() * columns.len()) };
        for row in sums.chunks_exact_mut(columns.len()) {
            for (sum, &column) in row.iter_mut().zip(columns) {
                *sum = sum.wrapping_sub(i32::from(zero).wrapping_mul(column));
            }
        }
    });
}

/// Zero points still to subtract from the sums of a product whose weights have nonzero zero points.
/// Each row of sums holds one sum per output and then the sum of the row's values.
#[derive(Debug, Clone, Copy)]
pub struct Zeros<'a> {
    /// The zero of each output's weights.
    pub weights: &'a [i32],
    /// The zero point of the rows, if it was unknown when weights were packed, with the sum of each
    /// output's weights and finally the depth.
    pub rows: Option<(u8, &'a [i32])>,
}

impl Zeros<'_> {
    /// Finishes each row of sums to as many results, given with the place of their output.
    fn each<Y: Copy + Send>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        sums: &[i32],
        y: &mut [Y],
        finish: impl Fn(usize, i32) -> Y + Copy + Sync,
    ) {
        let outputs = self.weights.len();
        if y.is_empty() {
            return;
        }
        let rows = y.len() / outputs;
        assert!(
            y.len() == rows * outputs && sums.len() == rows * (outputs + 1),
            "zeros: rows are not whole"
        );
        let count = if y.len() < ONE_THREAD {
            1
        } else {
            rows.min(pool.threads() * 4)
        };
        let parts = Parts::new(y);
        pool.run(count, &|chunk| {
            let rows = share(rows, count, chunk, 1);
            isa.run(ZeroRows {
                zeros: *self,
                sums: &sums[rows.start * (outputs + 1)..rows.end * (outputs + 1)],
                // SAFETY: chunks are disjoint.
                y: unsafe { parts.part(rows.start * outputs, rows.len() * outputs) },
                finish,
            });
        });
    }

    /// Computes the sums with zero points subtracted.
    ///
    /// # Panics
    /// If rows are not whole.
    pub fn sums(&self, isa: Isa, pool: &ThreadPool, sums: &[i32], y: &mut [i32]) {
        self.each(isa, pool, sums, y, |_, sum| sum);
    }

    /// Computes codes from the sums with zero points subtracted: multiplies by a factor per output,
    /// rounds, and adds the zero point of the result.
    ///
    /// # Panics
    /// If rows are not whole.
    pub fn codes(&self, isa: Isa, pool: &ThreadPool, sums: &[i32], factor: &[f32], zero: u8, y: &mut [u8]) {
        let factor = &factor[..self.weights.len()];
        // 3 · 2^22: a float that it is added to has no bits below the units left, and is rounded to nearest even so
        const UNITS: f32 = 12_582_912.0;
        let (low, high) = (-f32::from(zero), 255.0 - f32::from(zero));
        self.each(isa, pool, sums, y, move |output, sum| {
            debug_assert!(output < factor.len(), "invariant: one factor per output");
            // SAFETY: `each` gives the place of one of as many outputs as there are factors.
            let real = sum as f32 * unsafe { *factor.get_unchecked(output) };
            let real = if real > low { real } else { low };
            let real = if real < high { real } else { high };
            let code = (real + UNITS).to_bits().wrapping_sub(UNITS.to_bits());
            (code as u8).wrapping_add(zero)
        });
    }
}

/// Rows of sums whose zeros are taken off.
struct ZeroRows<'a, Y, F> {
    zeros: Zeros<'a>,
    sums: &'a [i32],
    y: &'a mut [Y],
    finish: F,
}

impl<Y: Copy, F: Fn(usize, i32) -> Y> Kernel for ZeroRows<'_, Y, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ZeroRows {
            zeros: Zeros { weights, rows },
            sums,
            y,
            finish,
        } = self;
        let outputs = weights.len();
        for (y, sums) in y.chunks_exact_mut(outputs).zip(sums.chunks_exact(outputs + 1)) {
            let (own, row) = (&sums[..outputs], sums[outputs]);
            match rows {
                None => {
                    for (output, ((y, &sum), &weight)) in y.iter_mut().zip(own).zip(weights).enumerate() {
                        *y = finish(output, sum.wrapping_sub(weight.wrapping_mul(row)));
                    }
                }
                Some((zero, columns)) => {
                    let zero = i32::from(zero);
                    let row = row.wrapping_sub(zero.wrapping_mul(columns[outputs]));
                    let each = y.iter_mut().zip(own).zip(weights).zip(&columns[..outputs]);
                    for (output, (((y, &sum), &weight), &column)) in each.enumerate() {
                        let sum = sum.wrapping_sub(weight.wrapping_mul(row));
                        *y = finish(output, sum.wrapping_sub(zero.wrapping_mul(column)));
                    }
                }
            }
        }
    }
}

/// `y = (x - zero) * scale`.
///
/// # Panics
/// If the lengths differ.
pub fn dequantise(isa: Isa, pool: &ThreadPool, x: &[u8], scale: f32, zero: u8, y: &mut [f32]) {
    struct Dequantise<'a>(&'a [u8], f32, u8, &'a mut [f32]);
    impl ByteKernel for Dequantise<'_> {
        type Output = ();
        #[inline(always)]
        fn run<B: Bytes>(self, b: B) {
            let Dequantise(x, scale, zero, y) = self;
            let s = b.simd();
            let (scale, zero) = (s.splat(scale), s.splat_i(i32::from(zero)));
            let mut i = 0;
            while i < x.len() {
                let left = x.len() - i;
                // SAFETY: `left` codes remain.
                let code = unsafe { b.widen(x.as_ptr().add(i), left) };
                let value = s.mul(s.to_float(s.sub_i(code, zero)), scale);
                // SAFETY: y is as long as x.
                unsafe { s.write(y.as_mut_ptr().add(i), value, left) };
                i += B::S::LANES;
            }
        }
    }
    assert_eq!(x.len(), y.len(), "dequantise: lengths differ");
    let parts = Parts::new(y);
    chunks(pool, x.len(), &|range| {
        // SAFETY: chunks are disjoint.
        let y = unsafe { parts.part(range.start, range.len()) };
        isa.run_bytes(Dequantise(&x[range], scale, zero, y));
    });
}

/// The positions of rows of codes in the output.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// Codes of a row.
    pub len: usize,
    /// Index of the first row.
    pub offset: usize,
    /// Distance between the starts of two rows.
    pub stride: usize,
}

/// Converts codes to another scale and zero point:
/// `round((x - zero) * scale / other) + other zero`, clamped.
///
/// # Panics
/// If `x` is not whole rows, or a row's place is not in `y`.
pub fn requantise(
    isa: Isa,
    pool: &ThreadPool,
    x: &[u8],
    (scale, zero): (f32, u8),
    other: f32,
    codes: CodeRange,
    rows: Rows,
    y: &mut [u8],
) {
    struct Requantise<'a> {
        x: &'a [u8],
        scale: f32,
        zero: u8,
        other: f32,
        codes: CodeRange,
        len: usize,
        y: *mut u8,
        stride: usize,
    }
    impl ByteKernel for Requantise<'_> {
        type Output = ();
        #[inline(always)]
        fn run<B: Bytes>(self, b: B) {
            let s = b.simd();
            let (low, high) = self.codes.limits();
            let (low, high) = (s.splat(low), s.splat(high));
            let (scale, other) = (s.splat(self.scale), s.splat(self.other));
            let (from, to) = (
                s.splat_i(i32::from(self.zero)),
                s.splat_i(i32::from(self.codes.zero)),
            );
            for (index, row) in self.x.chunks_exact(self.len).enumerate() {
                let y = self.y.wrapping_add(index * self.stride);
                let mut i = 0;
                while i < row.len() {
                    let left = row.len() - i;
                    // SAFETY: `left` codes of the row remain.
                    let code = unsafe { b.widen(row.as_ptr().add(i), left) };
                    // two roundings, as where the values are dequantised and quantised
                    let value = s.div(s.mul(s.to_float(s.sub_i(code, from)), scale), other);
                    let value = s.min(s.max(value, low), high);
                    // SAFETY: the caller checked the places of rows.
                    unsafe { b.narrow(y.add(i), s.add_i(s.to_int(value), to), left) };
                    i += B::S::LANES;
                }
            }
        }
    }
    let Rows { len, offset, stride } = rows;
    if x.is_empty() {
        return;
    }
    let count = x.len() / len;
    assert_eq!(x.len(), count * len, "requantise: rows are not whole");
    assert!(
        offset + (count - 1) * stride + len <= y.len() && (count == 1 || stride >= len),
        "requantise: places of rows"
    );
    let chunks = if x.len() < ONE_THREAD {
        1
    } else {
        count.min(pool.threads() * 4)
    };
    let y = Parts::new(y);
    pool.run(chunks, &|chunk| {
        let rows = share(count, chunks, chunk, 1);
        isa.run_bytes(Requantise {
            x: &x[rows.start * len..rows.end * len],
            scale,
            zero,
            other,
            codes,
            len,
            y: y.as_ptr().wrapping_add(offset + rows.start * stride),
            stride,
        });
    });
}

/// Converts signed bytes to codes and back, by flipping the top bit.
///
/// # Panics
/// If the lengths differ.
pub fn flip(pool: &ThreadPool, x: &[u8], y: &mut [u8]) {
    assert_eq!(x.len(), y.len(), "flip: lengths differ");
    let parts = Parts::new(y);
    chunks(pool, x.len(), &|range| {
        // SAFETY: chunks are disjoint.
        let y = unsafe { parts.part(range.start, range.len()) };
        for (y, &x) in y.iter_mut().zip(&x[range]) {
            *y = x ^ 0x80;
        }
    });
}

/// `y = table[x]`: any function of one code.
///
/// # Panics
/// If the lengths differ.
pub fn map(pool: &ThreadPool, table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    assert_eq!(x.len(), y.len(), "map: lengths differ");
    let parts = Parts::new(y);
    chunks(pool, x.len(), &|range| {
        // SAFETY: chunks are disjoint.
        let y = unsafe { parts.part(range.start, range.len()) };
        for (y, &x) in y.iter_mut().zip(&x[range]) {
            *y = table[usize::from(x)];
        }
    });
}

/// The scales of two addends relative to the scale of their sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sum {
    /// Relative scale of the first addend.
    pub a: f32,
    /// Relative scale of the second addend.
    pub b: f32,
    /// Minus both zero points, each times its relative scale.
    pub shift: f32,
}

/// `y = round(a * sum.a + b * sum.b + sum.shift) + zero`.
///
/// # Panics
/// If the lengths differ.
pub fn add(isa: Isa, pool: &ThreadPool, a: &[u8], b: &[u8], sum: Sum, codes: CodeRange, y: &mut [u8]) {
    struct Add<'a>(&'a [u8], &'a [u8], Sum, CodeRange, &'a mut [u8]);
    impl ByteKernel for Add<'_> {
        type Output = ();
        #[inline(always)]
        fn run<B: Bytes>(self, t: B) {
            let Add(a, b, sum, codes, y) = self;
            let s = t.simd();
            let (by_a, by_b, shift) = (s.splat(sum.a), s.splat(sum.b), s.splat(sum.shift));
            let (low, high) = codes.limits();
            let (low, high) = (s.splat(low), s.splat(high));
            let zero = s.splat_i(i32::from(codes.zero));
            let mut i = 0;
            while i < y.len() {
                let left = y.len() - i;
                // SAFETY: `left` codes remain in all three.
                let (x, z) = unsafe { (t.widen(a.as_ptr().add(i), left), t.widen(b.as_ptr().add(i), left)) };
                let value = s.mul_add(s.to_float(x), by_a, s.mul_add(s.to_float(z), by_b, shift));
                let value = s.min(s.max(value, low), high);
                // SAFETY: as above.
                unsafe { t.narrow(y.as_mut_ptr().add(i), s.add_i(s.to_int(value), zero), left) };
                i += B::S::LANES;
            }
        }
    }
    assert!(a.len() == y.len() && b.len() == y.len(), "add: lengths differ");
    let parts = Parts::new(y);
    chunks(pool, a.len(), &|range| {
        // SAFETY: chunks are disjoint.
        let y = unsafe { parts.part(range.start, range.len()) };
        isa.run_bytes(Add(&a[range.clone()], &b[range], sum, codes, y));
    });
}

/// `y = round((a - zeros[0]) * (b - zeros[1]) * factor) + zero`; `b` is repeated where it is shorter.
///
/// # Panics
/// If the length of `y` is not that of `a`, or not a multiple of that of `b`.
pub fn multiply(
    isa: Isa,
    pool: &ThreadPool,
    (a, b): (&[u8], &[u8]),
    zeros: [u8; 2],
    factor: f32,
    codes: CodeRange,
    y: &mut [u8],
) {
    struct Multiply<'a>(&'a [u8], &'a [u8], [u8; 2], f32, CodeRange, &'a mut [u8]);
    impl ByteKernel for Multiply<'_> {
        type Output = ();
        #[inline(always)]
        fn run<B: Bytes>(self, t: B) {
            let Multiply(a, b, zeros, factor, codes, y) = self;
            let s = t.simd();
            let [zero_a, zero_b] = zeros.map(|zero| s.splat_i(i32::from(zero)));
            let (low, high) = codes.limits();
            let (low, high, factor) = (s.splat(low), s.splat(high), s.splat(factor));
            let zero = s.splat_i(i32::from(codes.zero));
            let mut i = 0;
            while i < y.len() {
                let left = y.len() - i;
                // SAFETY: `left` codes remain in all three.
                let (x, z) = unsafe { (t.widen(a.as_ptr().add(i), left), t.widen(b.as_ptr().add(i), left)) };
                // both differences and their product are exact floats
                let value = s.mul(s.to_float(s.sub_i(x, zero_a)), s.to_float(s.sub_i(z, zero_b)));
                let value = s.min(s.max(s.mul(value, factor), low), high);
                // SAFETY: as above.
                unsafe { t.narrow(y.as_mut_ptr().add(i), s.add_i(s.to_int(value), zero), left) };
                i += B::S::LANES;
            }
        }
    }
    assert_eq!(a.len(), y.len(), "multiply: lengths differ");
    if y.is_empty() {
        return;
    }
    let period = b.len();
    assert!(
        y.len().is_multiple_of(period),
        "multiply: b does not repeat evenly"
    );
    let parts = Parts::new(y);
    let one = |range: Range<usize>, at: usize| {
        // SAFETY: chunks are disjoint.
        let y = unsafe { parts.part(range.start, range.len()) };
        isa.run_bytes(Multiply(
            &a[range.clone()],
            &b[at..][..range.len()],
            zeros,
            factor,
            codes,
            y,
        ));
    };
    if period == a.len() {
        return chunks(pool, a.len(), &|range| one(range.clone(), range.start));
    }
    for start in (0..a.len()).step_by(period) {
        one(start..start + period, 0);
    }
}

/// Maximum pooling of codes: `[batch, in spatial, channels]` to `[batch, out spatial, channels]`.
///
/// A window outside the image gives code 0.
///
/// # Panics
/// If a slice's length is not that of its shape.
pub fn max_pool(
    isa: Isa,
    pool: &ThreadPool,
    (batch, channels): (usize, usize),
    window: &Window,
    x: &[u8],
    y: &mut [u8],
) {
    assert_eq!(
        x.len(),
        batch * window.in_pixels() * channels,
        "max pool: length of the input"
    );
    let lines = batch * window.output[0] * window.output[1];
    assert_eq!(
        y.len(),
        lines * window.output[2] * channels,
        "max pool: length of the output"
    );
    if y.is_empty() {
        return;
    }
    let work = y.len().saturating_mul(window.taps());
    let count = if work < 4 * ONE_THREAD {
        1
    } else {
        lines.min(pool.threads() * 4)
    };
    let (x, y) = (Address(x.as_ptr()), Parts::new(y));
    pool.run(count, &|chunk| {
        isa.run_bytes(&MaxLines {
            window,
            channels,
            lines: share(lines, count, chunk, 1),
            x: x.at(0),
            y: y.as_ptr(),
        });
    });
}

struct MaxLines<'a> {
    window: &'a Window,
    channels: usize,
    lines: Range<usize>,
    x: *const u8,
    y: *mut u8,
}

impl ByteKernel for &MaxLines<'_> {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let (window, channels, s) = (self.window, self.channels, b.simd());
        let (per_image, width) = (window.output[0] * window.output[1], window.output[2]);
        for pixel in self.lines.start * width..self.lines.end * width {
            let first = window.first_tap(pixel % (per_image * width));
            let image = self
                .x
                .wrapping_add(pixel / (per_image * width) * window.in_pixels() * channels);
            let mut c = 0;
            while c < channels {
                let left = channels - c;
                let mut most = s.splat_i(0);
                for kd in 0..window.kernel[0] {
                    for kh in 0..window.kernel[1] {
                        for kw in 0..window.kernel[2] {
                            let tap = window.tap(first, [kd, kh, kw], image, std::ptr::null(), channels);
                            if !tap.is_null() {
                                // SAFETY: the tap lies in the image, and `left` channels remain.
                                most = b.max_bytes(most, unsafe { b.read(tap.add(c), left) });
                            }
                        }
                    }
                }
                // SAFETY: `left` channels of this pixel remain.
                unsafe { b.write(self.y.add(pixel * channels + c), most, left) };
                c += 4 * B::S::LANES;
            }
        }
    }
}
