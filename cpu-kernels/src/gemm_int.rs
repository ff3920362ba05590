//! Matrix products of integers and `f64`: plain loops, compiled for each instruction set.
//!
//! Invariant: integers wrap; sums of `f64` follow the order of the depth.
//!
//! Not here: products of `f32` and bf16 ([`crate::gemm`]), of quantised constant weights ([`crate::quantised`]).
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
use crate::threads::{Parts, share};
use crate::{Isa, ThreadPool};

/// A number type of these products.
pub trait Number: Copy + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;
    /// `self + a * b`, rounded once where that is said.
    #[must_use]
    fn plus(self, a: Self, b: Self, fused: bool) -> Self;
    /// Slices of doubles, where these are.
    #[inline(always)]
    fn doubles<'a>(_a: &'a [Self], _b: &'a [Self], _y: &'a mut [Self]) -> Option<Doubles<'a>> {
        None
    }
}

/// The operands and the result of an `f64` product.
pub struct Doubles<'a> {
    a: &'a [f64],
    b: &'a [f64],
    y: &'a mut [f64],
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            const ZERO: $t = 0;
            #[inline(always)]
            fn plus(self, a: $t, b: $t, _: bool) -> $t {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}
integers! { i32 i64 u32 u64 }

impl Number for f64 {
    const ZERO: f64 = 0.0;
    #[inline(always)]
    fn plus(self, a: f64, b: f64, fused: bool) -> f64 {
        if fused { a.mul_add(b, self) } else { self + a * b }
    }
    #[inline(always)]
    fn doubles<'a>(a: &'a [f64], b: &'a [f64], y: &'a mut [f64]) -> Option<Doubles<'a>> {
        Some(Doubles { a, b, y })
    }
}

/// Sizes of batched products: `[batches][m, k] × [batches][k, n]`, where an operand may be the same
/// for all batches.
#[derive(Debug, Clone)]
pub struct Extents {
    /// Rows of the left operand and of the result.
    pub m: usize,
    /// The depth.
    pub k: usize,
    /// Columns of the right operand and of the result.
    pub n: usize,
    /// Per product, the index of its matrix in the left and in the right operand.
    pub batches: Vec<[usize; 2]>,
}

/// Multiply-adds that a thread is worth waking for.
const CHUNK: usize = 1 << 15;

/// `y = a × b` for every batch.
///
/// # Panics
/// If a slice is too short.
pub fn product<T: Number>(isa: Isa, pool: &ThreadPool, extents: &Extents, a: &[T], b: &[T], y: &mut [T]) {
    let Extents { m, k, n, ref batches } = *extents;
    assert_eq!(y.len(), batches.len() * m * n, "product: results");
    let rows = batches.len() * m;
    let chunks = (rows * k * n)
        .div_ceil(CHUNK)
        .clamp(1, pool.threads() * 4)
        .min(rows.max(1));
    let out = Parts::new(y);
    pool.run(chunks, &|chunk| {
        let mut own = share(rows, chunks, chunk, 1);
        while !own.is_empty() {
            let (batch, row) = (own.start / m, own.start % m);
            let count = own.len().min(m - row);
            let [left, right] = batches[batch];
            // SAFETY: chunks share the rows out.
            let y = unsafe { out.part(own.start * n, count * n) };
            isa.run(Rows {
                a: &a[(left * m + row) * k..][..count * k],
                b: &b[right * k * n..][..k * n],
                y,
                k,
                n,
            });
            own.start += count;
        }
    });
}

struct Rows<'a, T> {
    a: &'a [T],
    b: &'a [T],
    y: &'a mut [T],
    k: usize,
    n: usize,
}

impl<T: Number> Kernel for Rows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Rows { a, b, y, k, n } = self;
        y.fill(T::ZERO);
        if k == 0 || n == 0 {
            return;
        }
        if let Some(doubles) = T::doubles(a, b, y) {
            return of_doubles(s, doubles, k, n);
        }
        // two rows at a time share what is read of the right operand
        for (a, y) in a.chunks(2 * k).zip(y.chunks_mut(2 * n)) {
            let (a, second) = a.split_at(k);
            let (y, z) = y.split_at_mut(n);
            let mut p = 0;
            while p + 4 <= k {
                let quad = |a: &[T]| [a[p], a[p + 1], a[p + 2], a[p + 3]];
                let [a0, a1, a2, a3] = quad(a);
                let (b0, rest) = b[p * n..(p + 4) * n].split_at(n);
                let (b1, rest) = rest.split_at(n);
                let (b2, b3) = rest.split_at(n);
                let columns = b0.iter().zip(b1).zip(b2).zip(b3);
                let sum = |y: T, [a0, a1, a2, a3]: [T; 4], (((&b0, &b1), &b2), &b3): (((&T, &T), &T), &T)| {
                    y.plus(a0, b0, S::FUSES)
                        .plus(a1, b1, S::FUSES)
                        .plus(a2, b2, S::FUSES)
                        .plus(a3, b3, S::FUSES)
                };
                if second.is_empty() {
                    for (y, column) in y.iter_mut().zip(columns) {
                        *y = sum(*y, [a0, a1, a2, a3], column);
                    }
                } else {
                    let [c0, c1, c2, c3] = quad(second);
                    for ((y, z), column) in y.iter_mut().zip(z.iter_mut()).zip(columns) {
                        *y = sum(*y, [a0, a1, a2, a3], column);
                        *z = sum(*z, [c0, c1, c2, c3], column);
                    }
                }
                p += 4;
            }
            while p < k {
                let b = &b[p * n..(p + 1) * n];
                for (y, &b) in y.iter_mut().zip(b) {
                    *y = y.plus(a[p], b, S::FUSES);
                }
                for (z, &b) in z.iter_mut().zip(b) {
                    *z = z.plus(second[p], b, S::FUSES);
                }
                p += 1;
            }
        }
    }
}

/// Vectors of results of doubles that stay in registers, of each of [`DOUBLE_ROWS`] rows.
const DOUBLE_VECTORS: usize = 3;
/// Rows of results of doubles that stay in registers.
const DOUBLE_ROWS: usize = 4;

/// The product of doubles, by tiles of results that stay in registers.
#[inline(always)]
fn of_doubles<S: Simd>(s: S, Doubles { a, b, y }: Doubles<'_>, k: usize, n: usize) {
    let lanes = S::LANES / 2;
    let mut column = 0;
    while column < n && lanes <= n {
        // the last vectors overlap those before them, if they would not end within the row
        column = column.min(n - lanes);
        let vectors = ((n - column) / lanes).min(DOUBLE_VECTORS);
        let (mut rows, mut results) = (
            a.chunks_exact(DOUBLE_ROWS * k),
            y.chunks_exact_mut(DOUBLE_ROWS * n),
        );
        macro_rules! tiles {
            ($vectors:literal) => {{
                for (a, y) in (&mut rows).zip(&mut results) {
                    tile_of_doubles::<S, DOUBLE_ROWS, $vectors>(s, a, &b[column..], &mut y[column..], k, n);
                }
                let rest = rows.remainder().chunks_exact(k);
                for (a, y) in rest.zip(results.into_remainder().chunks_exact_mut(n)) {
                    tile_of_doubles::<S, 1, $vectors>(s, a, &b[column..], &mut y[column..], k, n);
                }
            }};
        }
        match vectors {
            1 => tiles!(1),
            2 => tiles!(2),
            _ => tiles!(3),
        }
        column += vectors * lanes;
    }
    for (a, y) in a.chunks_exact(k).zip(y.chunks_exact_mut(n)) {
        for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
            for (y, &b) in y[column..].iter_mut().zip(&b[column..]) {
                *y = y.plus(a, b, S::FUSES);
            }
        }
    }
}

/// A tile of results: `R` rows of `a`, `k` apart, times `V` vectors of `b`, whose rows are `n` apart as those of `y` are.
#[inline(always)]
fn tile_of_doubles<S: Simd, const R: usize, const V: usize>(
    s: S,
    a: &[f64],
    b: &[f64],
    y: &mut [f64],
    k: usize,
    n: usize,
) {
    let lanes = S::LANES / 2;
    assert!(a.len() >= R * k && b.len() >= (k - 1) * n + V * lanes && y.len() >= (R - 1) * n + V * lanes);
    let mut sums = [[s.splat(0.0); V]; R];
    for p in 0..k {
        let mut right = [s.splat(0.0); V];
        for (v, right) in right.iter_mut().enumerate() {
            // SAFETY: the last of these vectors ends within the slice, as was seen above.
            *right = unsafe { s.load(b.as_ptr().add(p * n + v * lanes).cast()) };
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: as above.
            let left = s.splat_double(unsafe { *a.get_unchecked(r * k + p) });
            for (sum, &right) in sums.iter_mut().zip(&right) {
                *sum = s.mul_add_doubles(left, right, *sum);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            // SAFETY: as above.
            unsafe { s.store(y.as_mut_ptr().add(r * n + v * lanes).cast(), sum) };
        }
    }
}

/// `y = (a - a_zero) × (b - b_zero)` of bytes for every batch, in 32 bits; `pairs` is scratch of
/// [`pairs_len`] words.
///
/// # Panics
/// If a slice is too short.
pub fn product_of_bytes<A: Byte, B: Byte>(
    isa: Isa,
    pool: &ThreadPool,
    extents: &Extents,
    (a, a_zero): (&[A], A),
    (b, b_zero): (&[B], B),
    pairs: &mut [i32],
    y: &mut [i32],
) {
    let Extents { m, k, n, ref batches } = *extents;
    assert_eq!(y.len(), batches.len() * m * n, "product of bytes: results");
    let (a_zero, b_zero) = (a_zero.wide(), b_zero.wide());
    let pairs = &mut pairs[..pairs_len(k, n)];
    let mut packed = None;
    for (batch, &[left, right]) in batches.iter().enumerate() {
        if packed != Some(right) {
            isa.run(Pack {
                b: &b[right * k * n..][..k * n],
                zero: b_zero,
                n,
                pairs: &mut *pairs,
            });
            packed = Some(right);
        }
        let chunks = (m * k * n / 8)
            .div_ceil(CHUNK)
            .clamp(1, pool.threads() * 4)
            .min(m.max(1));
        let out = Parts::new(&mut y[batch * m * n..][..m * n]);
        pool.run(chunks, &|chunk| {
            let own = share(m, chunks, chunk, 1);
            // SAFETY: chunks share the rows out.
            let y = unsafe { out.part(own.start * n, own.len() * n) };
            isa.run(ByteRows {
                a: &a[(left * m + own.start) * k..][..own.len() * k],
                zero: a_zero,
                pairs: &*pairs,
                y,
                k,
                n,
            });
        });
    }
}

/// Words of scratch of [`product_of_bytes`].
#[must_use]
pub fn pairs_len(k: usize, n: usize) -> usize {
    k.div_ceil(2) * padded(n)
}

/// Words of a row of the scratch: whole vectors of every instruction set.
#[inline(always)]
fn padded(n: usize) -> usize {
    n.next_multiple_of(16)
}

/// A signed or unsigned byte.
pub trait Byte: Copy + Send + Sync + 'static {
    /// The number.
    fn wide(self) -> i16;
}
impl Byte for u8 {
    #[inline(always)]
    fn wide(self) -> i16 {
        i16::from(self)
    }
}
impl Byte for i8 {
    #[inline(always)]
    fn wide(self) -> i16 {
        i16::from(self)
    }
}

/// Two numbers of 16 bits in a word.
#[inline(always)]
fn pair(low: i16, high: i16) -> i32 {
    i32::from(low as u16 as i16) & 0xffff | i32::from(high) << 16
}

/// Two rows of the right operand, less its zero, in each row of words.
struct Pack<'a, B> {
    b: &'a [B],
    zero: i16,
    n: usize,
    pairs: &'a mut [i32],
}

impl<B: Byte> Kernel for Pack<'_, B> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Pack { b, zero, n, pairs } = self;
        if n == 0 {
            return;
        }
        for (rows, pairs) in b.chunks(2 * n).zip(pairs.chunks_exact_mut(padded(n))) {
            let (pairs, padding) = pairs.split_at_mut(n);
            padding.fill(0);
            let (first, second) = rows.split_at(n);
            if second.is_empty() {
                for (pair, low) in pairs.iter_mut().zip(first) {
                    *pair = self::pair(low.wide() - zero, 0);
                }
                continue;
            }
            for ((pair, low), high) in pairs.iter_mut().zip(first).zip(second) {
                *pair = self::pair(low.wide() - zero, high.wide() - zero);
            }
        }
    }
}

struct ByteRows<'a, A> {
    a: &'a [A],
    zero: i16,
    pairs: &'a [i32],
    y: &'a mut [i32],
    k: usize,
    n: usize,
}

/// Vectors of results that stay in registers, of each of [`DOWN`] rows.
const ACROSS: usize = 4;
/// Rows of results that stay in registers.
const DOWN: usize = 4;

impl<A: Byte> Kernel for ByteRows<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ByteRows {
            a,
            zero,
            pairs,
            y,
            k,
            n,
        } = self;
        if k == 0 || n == 0 {
            y.fill(0);
            return;
        }
        let mut rows = a.chunks_exact(DOWN * k);
        let mut results = y.chunks_exact_mut(DOWN * n);
        for (a, y) in (&mut rows).zip(&mut results) {
            byte_rows::<A, S, DOWN>(s, zero, a, pairs, y, k, n);
        }
        let rest = rows.remainder().chunks_exact(k);
        for (a, y) in rest.zip(results.into_remainder().chunks_exact_mut(n)) {
            byte_rows::<A, S, 1>(s, zero, a, pairs, y, k, n);
        }
    }
}

/// `R` rows of results.
#[inline(always)]
fn byte_rows<A: Byte, S: Simd, const R: usize>(
    s: S,
    zero: i16,
    a: &[A],
    pairs: &[i32],
    y: &mut [i32],
    k: usize,
    n: usize,
) {
    let mut column = 0;
    while column < n {
        let vectors = (n - column).div_ceil(S::LANES);
        let of = Tile {
            zero,
            a,
            pairs: &pairs[column..],
            k,
            n,
            columns: n - column,
        };
        let y = &mut y[column..];
        column += S::LANES
            * match vectors {
                0..2 => of.sum::<S, R, 1>(s, y),
                2..ACROSS => of.sum::<S, R, 2>(s, y),
                _ => of.sum::<S, R, ACROSS>(s, y),
            };
    }
}

/// Results that stay in registers.
struct Tile<'a, A> {
    zero: i16,
    a: &'a [A],
    /// From the first of the columns on.
    pairs: &'a [i32],
    k: usize,
    n: usize,
    /// Columns of the result that are left.
    columns: usize,
}

impl<A: Byte> Tile<'_, A> {
    /// Sums `R` rows of `V` vectors, the last of which may reach beyond the row's end; returns `V`.
    #[inline(always)]
    fn sum<S: Simd, const R: usize, const V: usize>(&self, s: S, y: &mut [i32]) -> usize {
        let &Tile {
            zero,
            a,
            pairs,
            k,
            n,
            columns,
        } = self;
        let mut sums = [[s.splat_i(0); V]; R];
        for at in 0..k.div_ceil(2) {
            let row = &pairs[at * padded(n)..][..V * S::LANES];
            let mut right = [s.splat_i(0); V];
            for (i, right) in right.iter_mut().enumerate() {
                // SAFETY: the row holds as many words.
                *right = unsafe { s.load_i(row.as_ptr().add(i * S::LANES)) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let low = a[r * k + 2 * at].wide() - zero;
                let high = if 2 * at + 1 < k {
                    a[r * k + 2 * at + 1].wide() - zero
                } else {
                    0
                };
                let left = s.splat_i(pair(low, high));
                for (sum, &right) in sums.iter_mut().zip(&right) {
                    *sum = s.dot_pairs(*sum, left, right);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let row = &mut y[r * n..][..columns.min(V * S::LANES)];
            for (&sum, row) in sums.iter().zip(row.chunks_mut(S::LANES)) {
                if row.len() == S::LANES {
                    // SAFETY: the row holds as many words.
                    unsafe { s.store_i(row.as_mut_ptr(), sum) };
                } else {
                    let mut whole = [0; 16];
                    // SAFETY: no vector has more words.
                    unsafe { s.store_i(whole.as_mut_ptr(), sum) };
                    row.copy_from_slice(&whole[..row.len()]);
                }
            }
        }
        V
    }
}
