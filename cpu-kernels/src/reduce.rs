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

/// The kind of reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduce {
    /// `Σ x`; 0 over nothing.
    Sum,
    /// `Σ x / count`; NaN over nothing.
    Mean,
    /// The largest value, NaN if any value is NaN; minus infinity over nothing.
    Max,
    /// The smallest value, NaN if any value is NaN; infinity over nothing.
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

/// The loops of a reduction, planned for its shape.
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

    /// Elements of the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.in_len
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
