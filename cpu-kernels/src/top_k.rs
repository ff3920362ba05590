//! The k largest or smallest elements of rows.
//!
//! 1. Equal elements keep the order of their indices; NaN counts as larger than any number, and zeros of both signs are equal.
//! 2. A row is read once: the best elements so far form a heap, and the next elements are compared
//!    with its worst one, several at a time. The heap is in the caller's memory, unlike the
//!    standard library's.

#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};
use half::{bf16, f16};

/// Numbers with a total order, which map to integers in the same order.
pub trait Ordered: Copy {
    /// Whether keys fit 32 bits.
    const NARROW: bool;
    /// Greater where the number is.
    fn key(self) -> i64;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Ordered for $t {
            const NARROW: bool = size_of::<$t>() <= 4;
            #[inline(always)]
            fn key(self) -> i64 {
                self as i64
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 }

impl Ordered for u32 {
    const NARROW: bool = true;
    #[inline(always)]
    fn key(self) -> i64 {
        i64::from((self ^ (1 << 31)) as i32)
    }
}

impl Ordered for u64 {
    const NARROW: bool = false;
    #[inline(always)]
    fn key(self) -> i64 {
        (self ^ (1 << 63)) as i64
    }
}

impl Ordered for f64 {
    const NARROW: bool = false;
    #[inline(always)]
    fn key(self) -> i64 {
        if self.is_nan() {
            return i64::MAX;
        }
        // a sum with zero has no negative zero
        let bits = (self + 0.0).to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    }
}

impl Ordered for f32 {
    const NARROW: bool = true;
    #[inline(always)]
    fn key(self) -> i64 {
        let bits = (self + 0.0).to_bits() as i32;
        let key = bits ^ (((bits >> 31) as u32) >> 1) as i32;
        i64::from(if self.is_nan() { i32::MAX } else { key })
    }
}

impl Ordered for f16 {
    const NARROW: bool = true;
    #[inline(always)]
    fn key(self) -> i64 {
        self.to_f32().key()
    }
}

impl Ordered for bf16 {
    const NARROW: bool = true;
    #[inline(always)]
    fn key(self) -> i64 {
        self.to_f32().key()
    }
}

/// Elements that are held against the worst of the best at a time.
const TOGETHER: usize = 16;

/// Rows of `n` elements, `inner` elements apart.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    /// Blocks of rows.
    pub outer: usize,
    /// Elements of a row.
    pub n: usize,
    /// Distance between the elements of a row; also the number of rows of a block.
    pub inner: usize,
    /// Number of elements to find.
    pub k: usize,
    /// Find the largest elements, else the smallest.
    pub largest: bool,
}

impl Rows {
    /// Words of scratch that [`run`](Self::run) needs: keys and indices of each thread.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        2 * self.k * pool.threads()
    }

    /// Scratch elements that [`run`](Self::run) needs to gather the elements of a row; none if they
    /// are contiguous.
    #[must_use]
    pub fn line_len(&self, pool: &ThreadPool) -> usize {
        if self.inner == 1 {
            0
        } else {
            self.n * pool.threads()
        }
    }

    /// Writes the first `k` elements of each row and their indices, both `[outer, k, inner]`;
    /// `number` converts an element to an ordered number.
    ///
    /// # Panics
    /// If a length is not that of its shape, or `k` is more than `n`.
    #[allow(clippy::too_many_arguments)]
    pub fn run<T: Copy + Send + Sync, N: Ordered>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        number: impl Fn(T) -> N + Copy + Sync,
        x: &[T],
        values: &mut [T],
        places: &mut [i64],
        scratch: &mut [i64],
        line: &mut [T],
    ) {
        let Rows {
            outer,
            n,
            inner,
            k,
            largest,
        } = *self;
        let results = outer * k * inner;
        assert_eq!(
            (x.len(), values.len(), places.len()),
            (outer * n * inner, results, results),
            "top_k: lengths"
        );
        assert!(
            scratch.len() >= self.scratch_len(pool) && line.len() >= self.line_len(pool),
            "top_k: scratch"
        );
        let chunks = x.len().div_ceil(CHUNK).min(pool.threads() * 4).min(outer);
        let (values, places) = (Parts::new(values), Parts::new(places));
        let (scratch, line) = (Parts::new(scratch), Parts::new(line));
        pool.run_indexed(chunks, &|thread, chunk| {
            // SAFETY: a thread's own pieces; no two chunks run with the same thread at a time.
            let (scratch, line) = unsafe {
                let len = if inner == 1 { 0 } else { n };
                (scratch.part(thread * 2 * k, 2 * k), line.part(thread * len, len))
            };
            let (keys, found) = scratch.split_at_mut(k);
            for block in share(outer, chunks, chunk, 1) {
                // SAFETY: chunks share the blocks out.
                let (values, places) = unsafe {
                    let (start, len) = (block * k * inner, k * inner);
                    (values.part(start, len), places.part(start, len))
                };
                let x = &x[block * n * inner..][..n * inner];
                for i in 0..inner {
                    let row = if inner == 1 {
                        x
                    } else {
                        for (to, from) in line.iter_mut().zip(x[i..].iter().step_by(inner)) {
                            *to = *from;
                        }
                        &*line
                    };
                    top_k(isa, row, number, largest, keys, found);
                    for (rank, &j) in found.iter().enumerate() {
                        let to = rank * inner + i;
                        values[to] = row[j as usize];
                        places[to] = j;
                    }
                }
            }
        });
    }
}

/// Indices of the first numbers in order, the largest first or the smallest, as many as `indices` has room for; `keys` is scratch
/// of as many.
///
/// # Panics
/// If `keys` and `indices` are not as long as each other, or longer than `x`, or that is longer than 32 bits count.
fn top_k<T: Copy, N: Ordered>(
    isa: Isa,
    x: &[T],
    number: impl Fn(T) -> N + Copy,
    largest: bool,
    keys: &mut [i64],
    indices: &mut [i64],
) {
    let k = indices.len();
    assert!(
        keys.len() == k && k <= x.len() && u32::try_from(x.len()).is_ok(),
        "top_k: {k} of {}, scratch of {}",
        x.len(),
        keys.len()
    );
    if k > 0 {
        isa.run(First {
            x,
            number,
            largest,
            keys,
            indices,
        });
    }
}

struct First<'a, T, F> {
    x: &'a [T],
    number: F,
    largest: bool,
    keys: &'a mut [i64],
    indices: &'a mut [i64],
}

impl<T: Copy, N: Ordered, F: Fn(T) -> N + Copy> Kernel for First<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let First {
            x,
            number,
            largest,
            keys,
            indices,
        } = self;
        // all bits inverted turn the order around
        let turn = if largest { 0 } else { -1 };
        let key = |x: T| number(x).key() ^ turn;
        let k = keys.len();
        if N::NARROW {
            // key and index in one word, whose comparison is that of both
            let word = |j: usize, key: i64| key << 32 | i64::from(!(j as u32));
            for (j, (word_of, &x)) in keys.iter_mut().zip(x).enumerate() {
                *word_of = word(j, key(x));
            }
            let mut heap = Words(keys);
            each_better(
                x,
                k,
                key,
                &mut heap,
                |heap| heap.0[0] >> 32,
                |heap, j, key| heap.0[0] = word(j, key),
            );
            descending(keys);
            for (index, &word) in indices.iter_mut().zip(&*keys) {
                *index = i64::from(!(word as u32));
            }
            return;
        }
        for (j, ((at, index), &x)) in keys.iter_mut().zip(indices.iter_mut()).zip(x).enumerate() {
            (*at, *index) = (key(x), j as i64);
        }
        let mut heap = Pairs(keys, indices);
        let put = |heap: &mut Pairs<'_>, j: usize, key| (heap.0[0], heap.1[0]) = (key, j as i64);
        each_better(x, k, key, &mut heap, |heap| heap.0[0], put);
        for end in (1..k).rev() {
            heap.swap(0, end);
            sift(&mut heap, 0, end);
        }
    }
}

/// The greatest first. Not part of the kernel, where the same sort would be compiled for each type and instruction set.
#[inline(never)]
fn descending(keys: &mut [i64]) {
    keys.sort_unstable_by(|a, b| b.cmp(a));
}

/// Makes a heap of the first `k` and puts what comes before its worst in the place of that.
#[inline(always)]
fn each_better<T: Copy, H: Heap>(
    x: &[T],
    k: usize,
    key: impl Fn(T) -> i64,
    heap: &mut H,
    worst: impl Fn(&H) -> i64,
    put: impl Fn(&mut H, usize, i64),
) {
    for root in (0..k / 2).rev() {
        sift(heap, root, k);
    }
    let mut bar = worst(heap);
    let mut one = |bar: i64, j: usize, x: T| {
        let key = key(x);
        // a later index never comes before an equal key
        if key <= bar {
            return bar;
        }
        put(heap, j, key);
        sift(heap, 0, k);
        worst(heap)
    };
    let (groups, rest) = x[k..].as_chunks::<TOGETHER>();
    for (group, elements) in groups.iter().enumerate() {
        let any = elements.iter().fold(false, |any, &x| any | (key(x) > bar));
        if any {
            for (j, &x) in elements.iter().enumerate() {
                bar = one(bar, k + group * TOGETHER + j, x);
            }
        }
    }
    let first = k + groups.len() * TOGETHER;
    for (j, &x) in rest.iter().enumerate() {
        bar = one(bar, first + j, x);
    }
}

/// A heap whose root comes last of all.
trait Heap {
    /// Whether the first of two comes before the second: by key, then by index.
    fn before(&self, a: usize, b: usize) -> bool;
    fn swap(&mut self, a: usize, b: usize);
}

/// Words of which the greater one comes first.
struct Words<'a>(&'a mut [i64]);

impl Heap for Words<'_> {
    #[inline(always)]
    fn before(&self, a: usize, b: usize) -> bool {
        self.0[a] > self.0[b]
    }
    #[inline(always)]
    fn swap(&mut self, a: usize, b: usize) {
        self.0.swap(a, b);
    }
}

/// Keys and indices.
struct Pairs<'a>(&'a mut [i64], &'a mut [i64]);

impl Heap for Pairs<'_> {
    #[inline(always)]
    fn before(&self, a: usize, b: usize) -> bool {
        self.0[a] > self.0[b] || (self.0[a] == self.0[b] && self.1[a] < self.1[b])
    }
    #[inline(always)]
    fn swap(&mut self, a: usize, b: usize) {
        self.0.swap(a, b);
        self.1.swap(a, b);
    }
}

/// Restores the heap below `root`, whose root comes last of all.
#[inline(always)]
fn sift(heap: &mut impl Heap, mut root: usize, len: usize) {
    loop {
        let mut last = 2 * root + 1;
        if last >= len {
            return;
        }
        if last + 1 < len {
            last += usize::from(heap.before(last, last + 1));
        }
        if !heap.before(root, last) {
            return;
        }
        heap.swap(root, last);
        root = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Element, Tensor, sort};

    #[test]
    fn order_of_ties_nan_and_zeros_matches_the_reference() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        for n in [1usize, 2, 3, 8, 57, 300] {
            let values: Vec<f32> = (0..n)
                .map(|_| match next() % 12 {
                    0 => f32::NAN,
                    1 => -0.0,
                    2 => 0.0,
                    3 => f32::NEG_INFINITY,
                    v => (next() % 9) as f32 - v as f32,
                })
                .collect();
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let tensor = Tensor::from_bytes(Element::F32, vec![n], &bytes).unwrap();
            for k in [0, 1, n / 2, n] {
                for largest in [true, false] {
                    let (_, wanted) = sort::top_k(&tensor, k, 0, largest).unwrap();
                    let wanted: Vec<i64> = wanted.to_i128s().unwrap().iter().map(|&v| v as i64).collect();
                    for isa in Isa::available() {
                        let (mut keys, mut indices) = (vec![0; k], vec![0; k]);
                        top_k(isa, &values, |x| x, largest, &mut keys, &mut indices);
                        assert_eq!(indices, wanted, "{isa:?} {k} of {values:?}, {largest}");
                        // keys of 64 bits
                        top_k(isa, &values, f64::from, largest, &mut keys, &mut indices);
                        assert_eq!(indices, wanted, "{isa:?} {k} of {values:?}, {largest}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_along_any_axis_match_the_reference() {
        let x: Vec<f32> = (0..3 * 50 * 4).map(|i| (i * 7919 % 101) as f32).collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        for [outer, n, inner] in [[12, 50, 1], [3, 50, 4], [1, 150, 4]] {
            let tensor = Tensor::from_f64s(Element::F32, vec![outer, n, inner], &wide).unwrap();
            let (want, at) = sort::top_k(&tensor, 7, 1, false).unwrap();
            for threads in [1, 3] {
                let pool = ThreadPool::new(threads);
                let rows = Rows {
                    outer,
                    n,
                    inner,
                    k: 7,
                    largest: false,
                };
                let results = outer * 7 * inner;
                let (mut values, mut places) = (vec![0.0; results], vec![0; results]);
                let (mut scratch, mut line) =
                    (vec![0; rows.scratch_len(&pool)], vec![0.0; rows.line_len(&pool)]);
                let isa = Isa::detect();
                rows.run(
                    isa,
                    &pool,
                    |x: f32| x,
                    &x,
                    &mut values,
                    &mut places,
                    &mut scratch,
                    &mut line,
                );
                let values: Vec<f64> = values.into_iter().map(f64::from).collect();
                assert_eq!(values, want.to_f64s().unwrap(), "{outer} {n} {inner}");
                assert_eq!(places, at.to_i64s().unwrap(), "{outer} {n} {inner}");
            }
        }
    }

    #[test]
    fn keys_have_the_order_of_their_numbers() {
        let doubles = [
            f64::NEG_INFINITY,
            -1.5,
            -1e-300,
            0.0,
            1e-300,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(doubles.windows(2).all(|pair| pair[0].key() < pair[1].key()));
        assert_eq!((-0.0f64).key(), 0.0f64.key());
        assert!(u64::MAX.key() > 0u64.key() && i8::MIN.key() < 0i8.key());
        assert!(u32::MAX.key() > 0u32.key() && f32::NAN.key() > f32::INFINITY.key());
        assert!(f16::from_f32(-2.0).key() < f16::from_f32(1.0).key());
    }
}
