//! Reductions of any set of axes of a dense array.
//!
//! Chunks are cut by outputs, so the result does not depend on the number of threads.
//!
//! Not here: reductions that return indices, and those of integers.
#![allow(unsafe_code)]

use crate::copy::{Loops, Nest};
use crate::isa::{Kernel, MOST_LANES, Simd};
use crate::threads::{Address, CHUNK, Parts};
use crate::{Error, Isa, ThreadPool};

/// Longest chains of additions per lane, along a row and across rows. Longer reductions are split into blocks of this length
/// (pairwise summation), so that rounding errors grow with the root of the count.
const LONGEST_ACROSS: usize = 1 << 13;
const LONGEST_DOWN: usize = 128;
/// Longest line that is reduced in a loop over lines: a kernel per line costs more to call, and to reduce its lanes.
const SHORT: usize = 32;
/// Partial sums of a block that are held at a time, and the fewest columns of a chunk if each thread gets so many: each row
/// then contributes a run of elements long enough to pay for reaching it.
const PARTS: usize = 512;
/// Rows that are joined to the sums at a time: these are read and written once for all of them.
const ROWS: usize = 8;

/// Which reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduce {
    /// `Σ x`; 0 over nothing.
    Sum,
    /// `Σ x / count`; NaN over nothing.
    Mean,
    /// The largest value, NaN if any is; minus infinity over nothing.
    Max,
    /// The least value, NaN if any is; infinity over nothing.
    Min,
    /// `Π x`; 1 over nothing.
    Prod,
    /// `Σ |x|`.
    L1,
    /// `sqrt(Σ x²)`.
    L2,
    /// `Σ x²`.
    SumSquare,
    /// `ln Σ x`.
    LogSum,
}

/// The loops of a reduction, worked out once.
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, reduce::{Reduce, ReducePlan}};
///
/// let plan = ReducePlan::new(&[2, 3], &[false, true])?;
/// let mut sums = [0.0; 2];
/// plan.run(Isa::detect(), &ThreadPool::new(1), Reduce::Sum, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut sums);
/// assert_eq!(sums, [6.0, 15.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReducePlan {
    /// Strides of the input and of the output.
    kept: Loops<2>,
    /// Strides of the input.
    reduced: Loops<1>,
    /// Whether the innermost dimension that is longer than 1 is reduced.
    inner_reduced: bool,
    in_len: usize,
}

impl ReducePlan {
    /// Plans a reduction of `shape` over the axes for which `reduced` is true; the output is dense without them.
    ///
    /// # Errors
    /// If the slices differ in length, or too many dimensions remain after merging.
    pub fn new(shape: &[usize], reduced: &[bool]) -> Result<Self, Error> {
        const NAME: &str = "reduce";
        if shape.len() != reduced.len() {
            let rule = "there must be one flag per dimension";
            return Err(Error::parameter(NAME, "axes", reduced.len(), rule));
        }
        let in_len = crate::error::product(NAME, "the input", shape)?;
        let (mut kept, mut gone) = (Nest::new(NAME), Nest::new(NAME));
        let (mut in_stride, mut out_stride) = (1usize, 1usize);
        let mut inner_reduced = None;
        for (&size, &reduced) in shape.iter().zip(reduced).rev() {
            if reduced {
                gone.outer(size, [in_stride as isize])?;
            } else {
                kept.outer(size, [in_stride as isize, out_stride as isize])?;
                out_stride = crate::error::product(NAME, "the output", &[out_stride, size])?;
            }
            if size != 1 {
                inner_reduced.get_or_insert(reduced);
            }
            in_stride = in_stride.saturating_mul(size);
        }
        let inner_reduced = inner_reduced.unwrap_or(false);
        Ok(Self {
            kept: kept.finish(),
            reduced: gone.finish(),
            inner_reduced,
            in_len,
        })
    }

    /// Elements of the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.kept.len()
    }

    /// `output = f(input)` over the planned axes.
    ///
    /// # Panics
    /// If a slice's length is not that of its planned shape.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, f: Reduce, input: &[f32], output: &mut [f32]) {
        assert_eq!(input.len(), self.in_len, "reduce: length of the input");
        assert_eq!(output.len(), self.output_len(), "reduce: length of the output");
        let count = self.reduced.len();
        let (input, output) = (Address(input.as_ptr()), Parts::new(output));
        // a chunk reads about as much whatever the ratio of input to output is, but columns side by side, of which each
        // thread gets some
        let least = if self.inner_reduced {
            1
        } else {
            let each = self.output_len().div_ceil(pool.threads());
            PARTS.min(each.next_multiple_of(MOST_LANES))
        };
        let chunk = (CHUNK / count.max(1)).max(least);
        self.kept
            .for_each_run(pool, chunk, &|[from, to], len, [from_step, to_step]| {
                if self.inner_reduced {
                    let (run, _) = self.reduced.dims().first().copied().unwrap_or((1, [0]));
                    if run == count && (from_step, to_step) == (run as isize, 1) {
                        // SAFETY: the plan's neighbours lie in the input, whose length was checked.
                        let x = unsafe { std::slice::from_raw_parts(input.at(from as usize), len * run) };
                        // SAFETY: one output per kept index, which no other chunk has.
                        let y = unsafe { output.part(to as usize, len) };
                        if run <= SHORT {
                            isa.run(ShortLines { f, x, y });
                        } else {
                            isa.run(LongLines { f, x, y });
                        }
                        return;
                    }
                    for i in 0..len as isize {
                        let mut total = f.start();
                        let mut at = 0;
                        while at < count {
                            // the first index of each run of the innermost reduced dimension
                            self.reduced.for_each(at..at + 1, &mut |[offset]| {
                                let start = from + i * from_step + offset;
                                if run <= SHORT {
                                    // SAFETY: the plan's neighbours lie in the input, whose length was checked.
                                    let x =
                                        unsafe { std::slice::from_raw_parts(input.at(start as usize), run) };
                                    total = f.combine(total, f.few(x));
                                    return;
                                }
                                let input = input.at(start as usize);
                                total = f.combine(total, isa.run(Across { f, len: run, input }));
                            });
                            at += run;
                        }
                        // SAFETY: one output per kept index, which no other chunk has.
                        let out = unsafe { output.part((to + i * to_step) as usize, 1) };
                        out[0] = f.finish(total, count);
                    }
                    return;
                }
                // SAFETY: the outputs of this run, which no other chunk has; the output is dense.
                let sums = unsafe { output.part(to as usize, len) };
                sums.fill(f.start());
                let join = |rows: std::ops::Range<usize>, shift: isize, sums: &mut [f32]| {
                    let mut waiting = [0; ROWS];
                    let mut count = 0;
                    let mut down = |offsets: &[isize]| {
                        if from_step == 1 {
                            let mut inputs = [std::ptr::null(); ROWS];
                            for (input_row, offset) in inputs.iter_mut().zip(offsets) {
                                *input_row = input.at((from + shift + offset) as usize);
                            }
                            let inputs = &inputs[..offsets.len()];
                            isa.run(Down { f, inputs, sums });
                            return;
                        }
                        for (i, sum) in sums.iter_mut().enumerate() {
                            for offset in offsets {
                                let at = from + shift + offset + i as isize * from_step;
                                let input = input.at(at as usize);
                                *sum = f.combine(*sum, isa.run(Across { f, len: 1, input }));
                            }
                        }
                    };
                    self.reduced.for_each(rows, &mut |[offset]| {
                        waiting[count] = offset;
                        count += 1;
                        if count == ROWS {
                            down(&waiting);
                            count = 0;
                        }
                    });
                    if count > 0 {
                        down(&waiting[..count]);
                    }
                };
                if count <= LONGEST_DOWN {
                    join(0..count, 0, sums);
                } else {
                    let mut parts = [0.0; PARTS];
                    for (piece, sums) in sums.chunks_mut(PARTS).enumerate() {
                        let parts = &mut parts[..sums.len()];
                        for first in (0..count).step_by(LONGEST_DOWN) {
                            parts.fill(f.start());
                            let rows = first..count.min(first + LONGEST_DOWN);
                            join(rows, (piece * PARTS) as isize * from_step, parts);
                            for (sum, &part) in sums.iter_mut().zip(&*parts) {
                                *sum = f.combine(*sum, part);
                            }
                        }
                    }
                }
                for sum in sums {
                    *sum = f.finish(*sum, count);
                }
            });
    }
}

impl Reduce {
    fn start(self) -> f32 {
        match self {
            Reduce::Max => f32::NEG_INFINITY,
            Reduce::Min => f32::INFINITY,
            Reduce::Prod => 1.0,
            _ => 0.0,
        }
    }

    fn combine(self, a: f32, b: f32) -> f32 {
        match self {
            Reduce::Max if a.is_nan() || b.is_nan() => f32::NAN,
            Reduce::Max => a.max(b),
            Reduce::Min if a.is_nan() || b.is_nan() => f32::NAN,
            Reduce::Min => a.min(b),
            Reduce::Prod => a * b,
            _ => a + b,
        }
    }

    /// The reduction of few neighbours, before it is finished.
    #[inline(always)]
    fn few(self, x: &[f32]) -> f32 {
        let (start, same) = (self.start(), |x: f32| x);
        match self {
            Reduce::Sum | Reduce::Mean | Reduce::LogSum => line(x, start, same, |a, b| a + b),
            Reduce::L1 => line(x, start, f32::abs, |a, b| a + b),
            Reduce::L2 | Reduce::SumSquare => line(x, start, |x| x * x, |a, b| a + b),
            Reduce::Prod => line(x, start, same, |a, b| a * b),
            Reduce::Max => with_nan(x, line(x, start, same, |a, b| if b > a { b } else { a })),
            Reduce::Min => with_nan(x, line(x, start, same, |a, b| if b < a { b } else { a })),
        }
    }

    fn finish(self, x: f32, count: usize) -> f32 {
        match self {
            Reduce::Mean => x / count as f32,
            Reduce::L2 => x.sqrt(),
            Reduce::LogSum => x.ln(),
            _ => x,
        }
    }
}

/// One vector of inputs joined to one of sums.
#[inline(always)]
fn join<S: Simd>(s: S, f: Reduce, sum: S::F, x: S::F) -> S::F {
    match f {
        Reduce::Sum | Reduce::Mean | Reduce::LogSum => s.add(sum, x),
        Reduce::L1 => s.add(sum, s.abs(x)),
        Reduce::L2 | Reduce::SumSquare => s.mul_add(x, x, sum),
        Reduce::Prod => s.mul(sum, x),
        // a NaN on either side stays
        Reduce::Max => s.select(s.eq(x, x), s.max(x, sum), x),
        Reduce::Min => s.select(s.eq(x, x), s.min(x, sum), x),
    }
}

/// The reduction of a short line: eight at a time, as far as there are so many.
#[inline(always)]
fn line(x: &[f32], start: f32, each: impl Fn(f32) -> f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<8>();
    let mut total = start;
    if let Some((first, chunks)) = chunks.split_first() {
        let mut lanes = first.map(&each);
        for chunk in chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = join(*lane, each(x));
            }
        }
        total = lanes.into_iter().fold(total, &join);
    }
    rest.iter().fold(total, |total, &x| join(total, each(x)))
}

/// NaN where one is in a line, else this.
#[inline(always)]
fn with_nan(x: &[f32], extreme: f32) -> f32 {
    if x.iter().fold(false, |any, x| any | x.is_nan()) {
        f32::NAN
    } else {
        extreme
    }
}

/// The reduction of short lines, one behind the other.
struct ShortLines<'a> {
    f: Reduce,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for ShortLines<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ShortLines { f, x, y } = self;
        let count = x.len() / y.len().max(1);
        if count == 0 {
            return y.fill(f.finish(f.start(), 0));
        }
        // the loop once for each, so that it knows what it does
        macro_rules! each {
            ($($f:ident)*) => {
                match f {
                    $(Reduce::$f => {
                        for (x, y) in x.chunks_exact(count).zip(y) {
                            *y = Reduce::$f.finish(Reduce::$f.few(x), count);
                        }
                    })*
                }
            };
        }
        each!(Sum Mean Max Min Prod L1 L2 SumSquare LogSum);
    }
}

/// `$body` with the constant `$known`, which combines values as `$f` does: loops then know what they do.
macro_rules! joining {
    ($f:expr, $known:ident => $body:expr) => {{
        macro_rules! with {
            ($one:ident) => {{
                const $known: Reduce = Reduce::$one;
                $body
            }};
        }
        match $f {
            Reduce::Sum | Reduce::Mean | Reduce::LogSum => with!(Sum),
            Reduce::L1 => with!(L1),
            Reduce::L2 | Reduce::SumSquare => with!(SumSquare),
            Reduce::Prod => with!(Prod),
            Reduce::Max => with!(Max),
            Reduce::Min => with!(Min),
        }
    }};
}

/// The reduction of lines that have more than [`SHORT`] values, one behind the other.
struct LongLines<'a> {
    f: Reduce,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for LongLines<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let LongLines { f, x, y } = self;
        let len = x.len() / y.len().max(1);
        joining!(f, F => for (x, y) in x.chunks_exact(len.max(1)).zip(y) {
            // SAFETY: the line has as many values.
            *y = f.finish(unsafe { across(s, F, len, x.as_ptr()) }, len);
        });
    }
}

/// The reduction of `len` neighbouring values, before it is finished.
struct Across {
    f: Reduce,
    len: usize,
    input: *const f32,
}

impl Kernel for Across {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let Across { f, len, input } = self;
        // SAFETY: the maker promised `len` values.
        joining!(f, F => unsafe { across(s, F, len, input) })
    }
}

/// The reduction of a line, before it is finished.
///
/// # Safety
/// `len` values are readable at `input`.
#[inline(always)]
unsafe fn across<S: Simd>(s: S, f: Reduce, len: usize, input: *const f32) -> f32 {
    let mut total = f.start();
    for first in (0..len).step_by(LONGEST_ACROSS) {
        let len = LONGEST_ACROSS.min(len - first);
        // SAFETY: the caller promises as many.
        total = f.combine(total, unsafe { reduce_block(s, f, len, input.add(first)) });
    }
    total
}

/// The reduction of a block of a line.
///
/// # Safety
/// `len` values are readable at `input`.
#[inline(always)]
unsafe fn reduce_block<S: Simd>(s: S, f: Reduce, len: usize, input: *const f32) -> f32 {
    let mut sums = [s.splat(f.start()); 4];
    let mut at = 0;
    while at + 4 * S::LANES <= len {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises `len` values.
            *sum = join(s, f, *sum, unsafe { s.load(input.add(at + i * S::LANES)) });
        }
        at += 4 * S::LANES;
    }
    for sum in &mut sums {
        if at + S::LANES <= len {
            // SAFETY: as above.
            *sum = join(s, f, *sum, unsafe { s.load(input.add(at)) });
            at += S::LANES;
        }
    }
    // zeros change no sum
    if at < len && !matches!(f, Reduce::Max | Reduce::Min | Reduce::Prod) {
        // SAFETY: as above.
        sums[3] = join(s, f, sums[3], unsafe { s.read(input.add(at), len - at) });
        at = len;
    }
    // nor does an extreme change where a value is met twice
    if at < len && len >= S::LANES && matches!(f, Reduce::Max | Reduce::Min) {
        // SAFETY: as above.
        sums[3] = join(s, f, sums[3], unsafe { s.load(input.add(len - S::LANES)) });
        at = len;
    }
    // pairwise, so that rounding does not depend on one long chain
    let [a, b, c, d] = sums;
    let all = merge(s, f, merge(s, f, a, c), merge(s, f, b, d));
    let mut lanes = [f.start(); MOST_LANES];
    // SAFETY: a vector fits the array.
    unsafe { s.store(lanes.as_mut_ptr(), all) };
    let mut half = S::LANES / 2;
    if matches!(f, Reduce::Max | Reduce::Min) {
        lanes[0] = f.few(&lanes[..S::LANES]);
        half = 0;
    }
    while half > 0 {
        for i in 0..half {
            lanes[i] = f.combine(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    let mut total = lanes[0];
    while at < len {
        // SAFETY: as above; of the kinds that are left none changes a value before it is joined.
        total = f.combine(total, unsafe { *input.add(at) });
        at += 1;
    }
    total
}

/// Two vectors of partial results.
#[inline(always)]
fn merge<S: Simd>(s: S, f: Reduce, a: S::F, b: S::F) -> S::F {
    match f {
        Reduce::Prod | Reduce::Max | Reduce::Min => join(s, f, a, b),
        _ => s.add(a, b),
    }
}

/// `sums[i] = join(… join(sums[i], inputs[0][i]) …, inputs[n - 1][i])`, of up to [`ROWS`] rows.
struct Down<'a> {
    f: Reduce,
    /// Each of as many values as there are sums.
    inputs: &'a [*const f32],
    sums: &'a mut [f32],
}

impl Kernel for Down<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Down { f, inputs, sums } = self;
        let len = sums.len();
        let sums = sums.as_mut_ptr();
        joining!(f, F => for c in (0..len).step_by(S::LANES) {
            let left = len - c;
            // SAFETY: the maker promised `len` values of each operand.
            unsafe {
                let mut sum = s.read(sums.add(c), left);
                for input in inputs {
                    sum = join(s, F, sum, s.read(input.add(c), left));
                }
                s.write(sums.add(c), sum, left);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_f64() {
        let all = [
            Reduce::Sum,
            Reduce::Mean,
            Reduce::Max,
            Reduce::Min,
            Reduce::Prod,
            Reduce::L1,
            Reduce::L2,
            Reduce::SumSquare,
            Reduce::LogSum,
        ];
        let cases: [(&[usize], &[bool]); 16] = [
            (&[], &[]),
            (&[1], &[true]),
            (&[1000], &[true]),
            (&[7, 33], &[false, true]),
            (&[7, 32], &[false, true]),
            (&[100, 3], &[false, true]),
            (&[3, 50, 1, 2], &[true, false, true, true]),
            (&[2, 2, 2, 2, 2, 2], &[true, false, true, false, true, true]),
            (&[33, 37], &[true, false]),
            (&[2, 3, 4, 5], &[false, true, false, true]),
            (&[2, 3, 4, 5], &[true, false, true, false]),
            (&[2, 49, 64], &[false, true, false]),
            (&[3, 1, 5], &[false, true, false]),
            (&[3, 0], &[false, true]),
            (&[0, 3], &[true, false]),
            (&[4, 5], &[false, false]),
        ];
        for threads in [1, 2] {
            let pool = ThreadPool::new(threads);
            for isa in Isa::available() {
                for (shape, reduced) in cases {
                    let plan = ReducePlan::new(shape, reduced).unwrap();
                    let input: Vec<f32> = (0..plan.in_len)
                        .map(|i| ((i * 7919) % 97) as f32 / 97.0 + 0.5)
                        .collect();
                    for f in all {
                        let mut want = vec![f64::from(f.start()); plan.output_len()];
                        for (flat, &x) in input.iter().enumerate() {
                            let (mut rest, mut at, mut stride) = (flat, 0, 1);
                            for (&size, &reduced) in shape.iter().zip(reduced).rev() {
                                if !reduced {
                                    at += rest % size * stride;
                                    stride *= size;
                                }
                                rest /= size;
                            }
                            let (x, want) = (f64::from(x), &mut want[at]);
                            *want = match f {
                                Reduce::Max => want.max(x),
                                Reduce::Min => want.min(x),
                                Reduce::Prod => *want * x,
                                Reduce::L2 | Reduce::SumSquare => *want + x * x,
                                _ => *want + x,
                            };
                        }
                        let count = plan.reduced.len() as f64;
                        let mut got = vec![f32::NAN; plan.output_len()];
                        plan.run(isa, &pool, f, &input, &mut got);
                        for (got, want) in got.iter().zip(&want) {
                            let want = match f {
                                Reduce::Mean => want / count,
                                Reduce::L2 => want.sqrt(),
                                Reduce::LogSum => want.ln(),
                                _ => *want,
                            };
                            let got = f64::from(*got);
                            let same = got == want || got.is_nan() && want.is_nan();
                            let error = (got - want).abs() / want.abs().max(1e-30);
                            assert!(
                                same || error < 1e-5,
                                "{isa:?} {f:?} {shape:?} {reduced:?}: {got} {want}"
                            );
                        }
                    }
                }
            }
        }
        assert!(ReducePlan::new(&[2], &[]).is_err());
    }

    #[test]
    fn long_sums_stay_exact() {
        for isa in Isa::available() {
            for (shape, reduced) in [([1 << 16, 3], [true, false]), ([3, 1 << 16], [false, true])] {
                let plan = ReducePlan::new(&shape, &reduced).unwrap();
                let input: Vec<f32> = (0..plan.in_len)
                    .map(|i| ((i * 7919) % 97) as f32 / 97.0 + 1.0)
                    .collect();
                let mut got = [0.0; 3];
                plan.run(isa, &ThreadPool::new(1), Reduce::Mean, &input, &mut got);
                for (at, &got) in got.iter().enumerate() {
                    let of = |i: &usize| if reduced[0] { i % 3 == at } else { i >> 16 == at };
                    let all = (0..plan.in_len).filter(of).map(|i| f64::from(input[i]));
                    let want = all.sum::<f64>() / f64::from(1 << 16);
                    // one chain of 65,536 is off by 1e-4 and more
                    assert!(
                        (f64::from(got) - want).abs() < 2e-6,
                        "{isa:?} {shape:?}: {got} {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn extremes_propagate_nan() {
        for isa in Isa::available() {
            for (reduced, n) in [([true, false], 3), ([false, true], 40)] {
                let plan = ReducePlan::new(&[40, 3], &reduced).unwrap();
                for at in [0, 1, 119] {
                    let mut input = [1.0; 120];
                    input[at] = f32::NAN;
                    let mut output = vec![0.0; n];
                    for f in [Reduce::Max, Reduce::Min] {
                        plan.run(isa, &ThreadPool::new(1), f, &input, &mut output);
                        assert_eq!(
                            output.iter().filter(|x| x.is_nan()).count(),
                            1,
                            "{isa:?} {f:?} {at}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn column_split_does_not_change_results() {
        // few columns, in one run and in several, and more than a chunk has at least
        let shapes: [(&[usize], &[bool]); 4] = [
            (&[1, 300, 100], &[false, true, false]),
            (&[8, 140, 37], &[false, true, false]),
            (&[300, 1237], &[true, false]),
            (&[3, 20, 2, 70], &[true, false, true, false]),
        ];
        for (shape, reduced) in shapes {
            let plan = ReducePlan::new(shape, reduced).unwrap();
            let len: usize = shape.iter().product();
            let input: Vec<f32> = (0..len).map(|i| (i % 611) as f32 * 0.37 - 100.0).collect();
            for isa in Isa::available() {
                for f in [Reduce::Sum, Reduce::L2, Reduce::Max] {
                    let run = |threads: usize| {
                        let mut y = vec![f32::NAN; plan.output_len()];
                        plan.run(isa, &ThreadPool::new(threads), f, &input, &mut y);
                        y
                    };
                    let alone = run(1);
                    for threads in [2, 3, 7] {
                        assert_eq!(run(threads), alone, "{isa:?} {f:?} {shape:?}, {threads} threads");
                    }
                }
            }
        }
    }

    #[test]
    fn nan_is_the_extreme_of_a_long_line() {
        let plan = ReducePlan::new(&[2, 100], &[false, true]).unwrap();
        for isa in Isa::available() {
            for at in [0, 50, 95, 96, 99] {
                let mut input = [1.0; 200];
                input[at] = f32::NAN;
                input[199] = 2.0;
                input[198] = -2.0;
                for (f, other) in [(Reduce::Max, 2.0), (Reduce::Min, -2.0)] {
                    let mut y = [0.0; 2];
                    plan.run(isa, &ThreadPool::new(1), f, &input, &mut y);
                    assert!(y[0].is_nan(), "{isa:?} {f:?} {at}");
                    assert_eq!(y[1], other, "{isa:?} {f:?}");
                }
            }
        }
    }

    #[test]
    fn nan_is_the_extreme_of_a_short_line() {
        let lines = [
            [1.0, f32::NAN, 3.0],
            [f32::NAN, 1.0, 2.0],
            [3.0, 2.0, f32::NAN],
            [1.0, 2.0, -3.0],
        ];
        let plan = ReducePlan::new(&[4, 3], &[false, true]).unwrap();
        for (f, last) in [(Reduce::Max, 2.0), (Reduce::Min, -3.0)] {
            let mut y = [0.0; 4];
            plan.run(
                Isa::detect(),
                &ThreadPool::new(1),
                f,
                lines.as_flattened(),
                &mut y,
            );
            assert!(y[..3].iter().all(|y| y.is_nan()), "{f:?} {y:?}");
            assert_eq!(y[3], last);
        }
    }
}
