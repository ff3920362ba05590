//! ArgMin, ArgMax, Hardmax and OneHot.
//!
//! 1. A tensor is `[outer, n, inner]`, where `n` is the axis.
//! 2. Ties go to the first or the last element, as [`ArgRule`] says. [`argreduce`] treats NaN as
//!    the extreme, as NumPy does; [`hardmax`] never does.
//!
//! Not here: prefix sums and products ([`crate::scan`]), the k largest ([`crate::top_k`]).
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// An ordered number type.
pub trait Extreme: Copy + PartialOrd + Send + Sync + 'static {
    /// The least value.
    const LOWEST: Self;
    /// The greatest value.
    const HIGHEST: Self;
    /// Whether the value is NaN.
    #[must_use]
    fn is_none(self) -> bool;
}
macro_rules! extremes {
    ($($t:ident: $low:expr, $high:expr, $none:expr;)*) => {$(
        impl Extreme for $t {
            const LOWEST: $t = $low;
            const HIGHEST: $t = $high;
            #[inline(always)]
            fn is_none(self) -> bool {
                $none(self)
            }
        }
    )*};
}
extremes! {
    f32: f32::NEG_INFINITY, f32::INFINITY, f32::is_nan;
    f64: f64::NEG_INFINITY, f64::INFINITY, f64::is_nan;
    i8: i8::MIN, i8::MAX, |_| false;
    u8: u8::MIN, u8::MAX, |_| false;
    i32: i32::MIN, i32::MAX, |_| false;
    i64: i64::MIN, i64::MAX, |_| false;
}

/// Which element [`argreduce`] finds along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgRule {
    /// Find the largest element, else the smallest.
    pub largest: bool,
    /// Ties go to the last element, else to the first.
    pub last: bool,
}

/// Lanes of independent comparisons.
const LANES: usize = 32;
/// Longest line that is looked through in a loop over lines: a kernel for each would cost more to call.
const SHORT: usize = 48;
/// Columns whose best are kept at a time.
const COLUMNS: usize = 64;

/// The extreme of a line without its NaN.
#[inline(always)]
fn extreme<T: Extreme>(x: &[T], largest: bool) -> T {
    let better = |new: T, old: T| if largest { new > old } else { new < old };
    let start = if largest { T::LOWEST } else { T::HIGHEST };
    let mut lanes = [start; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &new) in lanes.iter_mut().zip(chunk) {
            *lane = if better(new, *lane) { new } else { *lane };
        }
    }
    let mut best = start;
    for &new in lanes.iter().chain(rest) {
        best = if better(new, best) { new } else { best };
    }
    best
}

/// The first position of a value in a line, or the last one.
#[inline(always)]
fn position<T: Extreme>(x: &[T], value: T, last: bool) -> Option<usize> {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let is_in = |chunk: &[T; LANES]| chunk.iter().fold(false, |any, &x| any | (x == value));
    let at = |chunk: usize| chunk * LANES;
    if last {
        if let Some(i) = rest.iter().rposition(|&x| x == value) {
            return Some(at(chunks.len()) + i);
        }
        let chunk = chunks.iter().rposition(is_in)?;
        return Some(at(chunk) + chunks[chunk].iter().rposition(|&x| x == value)?);
    }
    match chunks.iter().position(is_in) {
        Some(chunk) => Some(at(chunk) + chunks[chunk].iter().position(|&x| x == value)?),
        None => Some(at(chunks.len()) + rest.iter().position(|&x| x == value)?),
    }
}

/// Shares lines of `n` elements, or blocks of columns of them, among threads.
fn lines(
    pool: &ThreadPool,
    [outer, n, inner]: [usize; 3],
    block: &(impl Fn(usize, std::ops::Range<usize>) + Sync),
) {
    let blocks = inner.div_ceil(COLUMNS).max(1);
    let chunks = (outer * n * inner).div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for i in share(outer * blocks, chunks, chunk, 1) {
            let first = i % blocks * COLUMNS;
            block(i / blocks, first..(first + COLUMNS).min(inner));
        }
    });
}

/// `y[o, i]` is the index of the extreme of `x[o, .., i]`.
///
/// # Panics
/// If a length is not that of its shape, or the axis is empty.
pub fn argreduce<T: Extreme>(
    isa: Isa,
    pool: &ThreadPool,
    shape: [usize; 3],
    rule: ArgRule,
    x: &[T],
    y: &mut [i64],
) {
    let [outer, n, inner] = shape;
    assert_eq!(
        (x.len(), y.len()),
        (outer * n * inner, outer * inner),
        "argreduce: lengths"
    );
    assert!(n > 0, "argreduce: an empty axis");
    let out = Parts::new(y);
    if inner == 1 && n <= SHORT {
        let chunks = x.len().div_ceil(CHUNK).min(pool.threads() * 4);
        pool.run(chunks, &|chunk| {
            let range = share(outer, chunks, chunk, 1);
            // SAFETY: chunks share the lines out.
            let y = unsafe { out.part(range.start, range.len()) };
            let x = &x[range.start * n..range.end * n];
            isa.run(Lines { x, n, rule, y });
        });
        return;
    }
    lines(pool, shape, &|o, columns| {
        isa.run(Arg {
            x: &x[o * n * inner..][..n * inner],
            inner,
            rule,
            first: columns.start,
            // SAFETY: blocks share the columns of the lines out.
            y: unsafe { out.part(o * inner + columns.start, columns.len()) },
        });
    });
}

/// Short lines, one behind the other.
struct Lines<'a, T> {
    x: &'a [T],
    n: usize,
    rule: ArgRule,
    y: &'a mut [i64],
}

impl<T: Extreme> Kernel for Lines<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Lines { x, n, rule, y } = self;
        let lines = x.chunks_exact(n).zip(y);
        match (rule.largest, rule.last) {
            (true, false) => lines.for_each(|(x, y)| *y = of_few(x, true, false)),
            (true, true) => lines.for_each(|(x, y)| *y = of_few(x, true, true)),
            (false, false) => lines.for_each(|(x, y)| *y = of_few(x, false, false)),
            (false, true) => lines.for_each(|(x, y)| *y = of_few(x, false, true)),
        }
    }
}

/// The position of the extreme of a short line, without a branch for each element: which is the largest is hard to foresee.
#[inline(always)]
fn of_few<T: Extreme>(x: &[T], largest: bool, last: bool) -> i64 {
    let none = x.iter().fold(false, |any, x| any | x.is_none());
    let (chunks, rest) = x.as_chunks::<8>();
    let better = |old: T, new: T| {
        if (new > old) == largest && new != old {
            new
        } else {
            old
        }
    };
    let mut best = if largest { T::LOWEST } else { T::HIGHEST };
    if let Some((first, chunks)) = chunks.split_first() {
        let mut lanes = *first;
        for chunk in chunks {
            for (lane, &new) in lanes.iter_mut().zip(chunk) {
                *lane = better(*lane, new);
            }
        }
        best = lanes.into_iter().fold(best, better);
    }
    best = rest.iter().fold(best, |best, &new| better(best, new));
    // what is no number is the extreme
    let is_it = |x: T| if none { x.is_none() } else { x == best };
    let mut at = 0;
    if last {
        for (i, &x) in x.iter().enumerate() {
            at = if is_it(x) { i } else { at };
        }
    } else {
        for (i, &x) in x.iter().enumerate().rev() {
            at = if is_it(x) { i } else { at };
        }
    }
    at as i64
}

struct Arg<'a, T> {
    x: &'a [T],
    inner: usize,
    rule: ArgRule,
    first: usize,
    y: &'a mut [i64],
}

impl<T: Extreme> Kernel for Arg<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Arg {
            x,
            inner,
            rule,
            first,
            y,
        } = self;
        if inner == 1 {
            // two loops, each with its comparison known
            let best = if rule.largest {
                extreme(x, true)
            } else {
                extreme(x, false)
            };
            let none = |x: &T| x.is_none();
            let at = if !x.iter().fold(false, |any, x| any | none(x)) {
                position(x, best, rule.last)
            } else if rule.last {
                x.iter().rposition(none)
            } else {
                x.iter().position(none)
            };
            y[0] = at.unwrap_or(0) as i64;
            return;
        }
        let mut best = [T::LOWEST; COLUMNS];
        let best = &mut best[..y.len()];
        best.copy_from_slice(&x[first..first + y.len()]);
        y.fill(0);
        macro_rules! each {
            ($better:tt) => {
                for (row, x) in x.chunks_exact(inner).enumerate().skip(1) {
                    for ((best, at), &new) in best.iter_mut().zip(y.iter_mut()).zip(&x[first..]) {
                        let none = new.is_none() & (rule.last | !best.is_none());
                        let better = (new $better *best) | none;
                        *best = if better { new } else { *best };
                        *at = if better { row as i64 } else { *at };
                    }
                }
            };
        }
        match (rule.largest, rule.last) {
            (true, false) => each!(>),
            (false, false) => each!(<),
            (true, true) => each!(>=),
            (false, true) => each!(<=),
        }
    }
}

/// 1 at the first largest element of each line of `n`, 0 elsewhere.
///
/// # Panics
/// If the lengths are not those of the shape.
pub fn hardmax(isa: Isa, pool: &ThreadPool, shape: [usize; 3], x: &[f32], y: &mut [f32]) {
    let [outer, n, inner] = shape;
    assert_eq!(
        (x.len(), y.len()),
        (outer * n * inner, outer * n * inner),
        "hardmax: lengths"
    );
    let out = Parts::new(y);
    let chunks = x.len().div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for o in share(outer, chunks, chunk, 1) {
            isa.run(Hard {
                x: &x[o * n * inner..][..n * inner],
                inner,
                // SAFETY: chunks share the lines out.
                y: unsafe { out.part(o * n * inner, n * inner) },
            });
        }
    });
}

struct Hard<'a> {
    x: &'a [f32],
    inner: usize,
    y: &'a mut [f32],
}

impl Kernel for Hard<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Hard { x, inner, y } = self;
        y.fill(0.0);
        if inner == 1 {
            if let Some(at) = position(x, extreme(x, true), false) {
                y[at] = 1.0;
            }
            return;
        }
        for first in (0..inner).step_by(COLUMNS) {
            let columns = COLUMNS.min(inner - first);
            let (mut best, mut at) = ([f32::NEG_INFINITY; COLUMNS], [usize::MAX; COLUMNS]);
            for (row, x) in x.chunks_exact(inner).enumerate() {
                for ((best, at), &new) in best.iter_mut().zip(&mut at).zip(&x[first..first + columns]) {
                    if new > *best || (*at == usize::MAX && new == *best) {
                        (*best, *at) = (new, row);
                    }
                }
            }
            for (column, &row) in at[..columns].iter().enumerate() {
                if row != usize::MAX {
                    y[row * inner + first + column] = 1.0;
                }
            }
        }
    }
}

/// `y[o, d, i]` is `on` if `d` is the index at `[o, i]` (a negative index counts from the end),
/// else `off`.
///
/// # Panics
/// If a length is not that of its shape.
pub fn one_hot<T: Copy + Send + Sync>(
    pool: &ThreadPool,
    [outer, depth, inner]: [usize; 3],
    index: impl Fn(usize) -> i64 + Sync,
    [off, on]: [T; 2],
    y: &mut [T],
) {
    assert_eq!(y.len(), outer * depth * inner, "one-hot: length");
    let chunks = y.len().div_ceil(CHUNK).min(pool.threads() * 4);
    let out = Parts::new(y);
    pool.run(chunks, &|chunk| {
        for o in share(outer, chunks, chunk, 1) {
            // SAFETY: chunks share the lines out.
            let y = unsafe { out.part(o * depth * inner, depth * inner) };
            y.fill(off);
            for i in 0..inner {
                let hot = index(o * inner + i);
                let hot = if hot < 0 { hot + depth as i64 } else { hot };
                if let Some(hot) = usize::try_from(hot).ok().filter(|&hot| hot < depth) {
                    y[hot * inner + i] = on;
                }
            }
        }
    });
}
