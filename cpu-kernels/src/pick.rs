//! The place of an extreme along an axis, one at that place, ones at places that indices name, and running sums and products.
//!
//! 1. A tensor is `[outer, n, inner]`, where `n` is the axis.
//! 2. Of equals the first or the last counts, as asked for. [`arg`] takes NaN for the extreme, as NumPy does; [`hardmax`] never.
//! 3. Sums and products of floats are made in `f64`.
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// A number with an order.
pub trait Extreme: Copy + PartialOrd + Send + Sync + 'static {
    /// What nothing is below.
    const LOWEST: Self;
    /// What nothing is above.
    const HIGHEST: Self;
    /// Whether it is no number.
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

/// Which element of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Which {
    /// The largest one, else the least.
    pub largest: bool,
    /// Of equals the last one, else the first.
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

/// The first place of a value in a line, or the last one.
#[inline(always)]
fn place<T: Extreme>(x: &[T], value: T, last: bool) -> Option<usize> {
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
    piece: &(impl Fn(usize, std::ops::Range<usize>) + Sync),
) {
    let blocks = inner.div_ceil(COLUMNS).max(1);
    let chunks = (outer * n * inner).div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for i in share(outer * blocks, chunks, chunk, 1) {
            let first = i % blocks * COLUMNS;
            piece(i / blocks, first..(first + COLUMNS).min(inner));
        }
    });
}

/// `y[o, i]` is the place of the extreme of `x[o, .., i]`.
///
/// # Panics
/// If a length is not that of its shape, or the axis is empty.
pub fn arg<T: Extreme>(isa: Isa, pool: &ThreadPool, shape: [usize; 3], which: Which, x: &[T], y: &mut [i64]) {
    let [outer, n, inner] = shape;
    assert_eq!(
        (x.len(), y.len()),
        (outer * n * inner, outer * inner),
        "arg: lengths"
    );
    assert!(n > 0, "arg: an empty axis");
    let out = Parts::new(y);
    if inner == 1 && n <= SHORT {
        let chunks = x.len().div_ceil(CHUNK).min(pool.threads() * 4);
        pool.run(chunks, &|chunk| {
            let range = share(outer, chunks, chunk, 1);
            // SAFETY: chunks share the lines out.
            let y = unsafe { out.part(range.start, range.len()) };
            let x = &x[range.start * n..range.end * n];
            isa.run(Lines { x, n, which, y });
        });
        return;
    }
    lines(pool, shape, &|o, columns| {
        isa.run(Arg {
            x: &x[o * n * inner..][..n * inner],
            inner,
            which,
            first: columns.start,
            // SAFETY: pieces share the columns of the lines out.
            y: unsafe { out.part(o * inner + columns.start, columns.len()) },
        });
    });
}

/// Short lines, one behind the other.
struct Lines<'a, T> {
    x: &'a [T],
    n: usize,
    which: Which,
    y: &'a mut [i64],
}

impl<T: Extreme> Kernel for Lines<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Lines { x, n, which, y } = self;
        let lines = x.chunks_exact(n).zip(y);
        match (which.largest, which.last) {
            (true, false) => lines.for_each(|(x, y)| *y = of_few(x, true, false)),
            (true, true) => lines.for_each(|(x, y)| *y = of_few(x, true, true)),
            (false, false) => lines.for_each(|(x, y)| *y = of_few(x, false, false)),
            (false, true) => lines.for_each(|(x, y)| *y = of_few(x, false, true)),
        }
    }
}

/// The place of the extreme of a short line, without a branch for each element: which is the largest is hard to foresee.
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
    which: Which,
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
            which,
            first,
            y,
        } = self;
        if inner == 1 {
            // two loops, each with its comparison known
            let best = if which.largest {
                extreme(x, true)
            } else {
                extreme(x, false)
            };
            let none = |x: &T| x.is_none();
            let at = if !x.iter().fold(false, |any, x| any | none(x)) {
                place(x, best, which.last)
            } else if which.last {
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
                        let none = new.is_none() & (which.last | !best.is_none());
                        let better = (new $better *best) | none;
                        *best = if better { new } else { *best };
                        *at = if better { row as i64 } else { *at };
                    }
                }
            };
        }
        match (which.largest, which.last) {
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
            if let Some(at) = place(x, extreme(x, true), false) {
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

/// `y[o, d, i]` is `on` where `d` is the index of `[o, i]`, counted from the end where negative, else `off`.
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

/// A type whose running sums and products there are.
pub trait Total: Copy + Send + Sync + 'static {
    /// What a total is made in.
    type Wide: Copy;
    /// Nothing added.
    const ZERO: Self::Wide;
    /// Nothing multiplied.
    const ONE: Self::Wide;
    /// The sum.
    fn plus(total: Self::Wide, next: Self) -> Self::Wide;
    /// The product.
    fn times(total: Self::Wide, next: Self) -> Self::Wide;
    /// A total as an element.
    fn of(total: Self::Wide) -> Self;
}
macro_rules! totals {
    ($($t:ident)*) => {$(
        impl Total for $t {
            type Wide = $t;
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn plus(total: $t, next: $t) -> $t {
                total.wrapping_add(next)
            }
            #[inline(always)]
            fn times(total: $t, next: $t) -> $t {
                total.wrapping_mul(next)
            }
            #[inline(always)]
            fn of(total: $t) -> $t {
                total
            }
        }
    )*};
}
totals! { i32 i64 }
macro_rules! float_totals {
    ($($t:ident)*) => {$(
        impl Total for $t {
            type Wide = f64;
            const ZERO: f64 = 0.0;
            const ONE: f64 = 1.0;
            #[inline(always)]
            fn plus(total: f64, next: $t) -> f64 {
                total + f64::from(next)
            }
            #[inline(always)]
            fn times(total: f64, next: $t) -> f64 {
                total * f64::from(next)
            }
            #[inline(always)]
            fn of(total: f64) -> $t {
                total as $t
            }
        }
    )*};
}
float_totals! { f32 f64 }

/// How totals run along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Products, else sums.
    pub product: bool,
    /// Without the element itself.
    pub exclusive: bool,
    /// From the end.
    pub reverse: bool,
}

/// Running totals along the axis.
///
/// # Panics
/// If the lengths are not those of the shape.
pub fn running<T: Total>(isa: Isa, pool: &ThreadPool, shape: [usize; 3], how: Running, x: &[T], y: &mut [T]) {
    let [outer, n, inner] = shape;
    assert_eq!(
        (x.len(), y.len()),
        (outer * n * inner, outer * n * inner),
        "running: lengths"
    );
    let out = Parts::new(y);
    let chunks = x.len().div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for o in share(outer, chunks, chunk, 1) {
            isa.run(Totals {
                x: &x[o * n * inner..][..n * inner],
                inner,
                how,
                // SAFETY: chunks share the lines out.
                y: unsafe { out.part(o * n * inner, n * inner) },
            });
        }
    });
}

struct Totals<'a, T> {
    x: &'a [T],
    inner: usize,
    how: Running,
    y: &'a mut [T],
}

impl<T: Total> Totals<'_, T> {
    #[inline(always)]
    fn each(self, start: T::Wide, next: impl Fn(T::Wide, T) -> T::Wide) {
        let Totals { x, inner, how, y } = self;
        if inner == 0 {
            return;
        }
        let rows = x.len() / inner;
        if inner == 1 {
            let mut total = start;
            let mut step = |(y, &x): (&mut T, &T)| {
                let sum = next(total, x);
                *y = T::of(if how.exclusive { total } else { sum });
                total = sum;
            };
            if how.reverse {
                y.iter_mut().zip(x).rev().for_each(&mut step);
            } else {
                y.iter_mut().zip(x).for_each(&mut step);
            }
            return;
        }
        for first in (0..inner).step_by(COLUMNS) {
            let columns = COLUMNS.min(inner - first);
            let mut totals = [start; COLUMNS];
            for row in 0..rows {
                let row = if how.reverse { rows - 1 - row } else { row };
                let own = row * inner + first..row * inner + first + columns;
                for ((total, &x), y) in totals.iter_mut().zip(&x[own.clone()]).zip(&mut y[own]) {
                    let sum = next(*total, x);
                    *y = T::of(if how.exclusive { *total } else { sum });
                    *total = sum;
                }
            }
        }
    }
}

impl<T: Total> Kernel for Totals<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        if self.how.product {
            self.each(T::ONE, T::times);
        } else {
            self.each(T::ZERO, T::plus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Element, Tensor, gather, reduce, softmax};

    const SHAPES: [[usize; 3]; 8] = [
        [1, 1, 1],
        [3, 7, 1],
        [5, 20, 1],
        [4, 48, 1],
        [2, 100, 1],
        [2, 5, 3],
        [3, 9, 70],
        [4, 257, 1],
    ];

    fn floats(shape: [usize; 3], with_nan: bool) -> Vec<f32> {
        let len: usize = shape.iter().product();
        let number = |i: usize| match i * 7919 % 23 {
            5 if with_nan => f32::NAN,
            7 => f32::NEG_INFINITY,
            n => n as f32 / 4.0 - 2.0,
        };
        (0..len).map(number).collect()
    }

    fn tensor(shape: [usize; 3], x: &[f32]) -> Tensor {
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        Tensor::from_f64s(Element::F32, shape.to_vec(), &wide).unwrap()
    }

    #[test]
    fn places_and_ones_are_those_of_the_oracle() {
        for threads in [1, 2] {
            let pool = ThreadPool::new(threads);
            for isa in Isa::available() {
                for shape in SHAPES {
                    for with_nan in [false, true] {
                        let x = floats(shape, with_nan);
                        let wide = tensor(shape, &x);
                        for (largest, last) in [(true, false), (true, true), (false, false), (false, true)] {
                            let want = reduce::arg_extreme(&wide, 1, true, largest, last).unwrap();
                            let mut y = vec![-1; shape[0] * shape[2]];
                            arg(isa, &pool, shape, Which { largest, last }, &x, &mut y);
                            assert_eq!(
                                y,
                                want.to_i64s().unwrap(),
                                "{isa:?} {shape:?} {largest} {last} {with_nan}"
                            );
                        }
                        let want = softmax::softmax(&wide, 1, softmax::Softmax::Hardmax).unwrap();
                        let mut y = vec![-1.0; x.len()];
                        hardmax(isa, &pool, shape, &x, &mut y);
                        let y: Vec<f64> = y.iter().map(|&y| f64::from(y)).collect();
                        assert_eq!(y, want.to_f64s().unwrap(), "{isa:?} {shape:?} {with_nan}");
                    }
                }
            }
        }
    }

    #[test]
    fn integers_have_extremes_too() {
        let pool = ThreadPool::new(1);
        let x: Vec<i64> = (0..300).map(|i| (i * 7919) % 31 - 15).collect();
        for isa in Isa::available() {
            let which = Which {
                largest: true,
                last: true,
            };
            let mut y = [0];
            arg(isa, &pool, [1, 300, 1], which, &x, &mut y);
            let want = x.iter().enumerate().max_by_key(|&(i, &x)| (x, i)).unwrap().0;
            assert_eq!(y, [want as i64]);
        }
    }

    #[test]
    fn totals_are_those_of_the_oracle() {
        for isa in Isa::available() {
            let pool = ThreadPool::new(2);
            for shape in SHAPES {
                let x: Vec<f32> = (0..shape.iter().product())
                    .map(|i| 0.9 + (i * 31 % 11) as f32 / 50.0)
                    .collect();
                let wide = tensor(shape, &x);
                for bits in 0..8 {
                    let how = Running {
                        product: bits & 1 != 0,
                        exclusive: bits & 2 != 0,
                        reverse: bits & 4 != 0,
                    };
                    let want = reduce::cumulate(&wide, 1, how.exclusive, how.reverse, how.product).unwrap();
                    let mut y = vec![-1.0; x.len()];
                    running(isa, &pool, shape, how, &x, &mut y);
                    let y: Vec<f64> = y.iter().map(|&y| f64::from(y)).collect();
                    assert_eq!(y, want.to_f64s().unwrap(), "{isa:?} {shape:?} {how:?}");
                }
            }
        }
    }

    #[test]
    fn ones_are_where_indices_say() {
        let pool = ThreadPool::new(2);
        let indices = [0i64, 3, -1, 7, -9, 2];
        let of = Tensor::from_i64s(vec![2, 3], indices.to_vec()).unwrap();
        let values = Tensor::from_f64s(Element::F32, vec![2], &[0.5, 2.0]).unwrap();
        for (axis, shape) in [(0, [1, 5, 6]), (1, [2, 5, 3]), (2, [6, 5, 1])] {
            let want = gather::one_hot(&of, 5, &values, axis).unwrap();
            let mut y = vec![0.0; 30];
            one_hot(&pool, shape, |i| indices[i], [0.5, 2.0], &mut y);
            assert_eq!(y, want.to_f64s().unwrap(), "{axis}");
        }
    }
}
