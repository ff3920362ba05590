//! The k largest or smallest elements of rows.
//!
//! 1. Equal elements keep the order of their indices; NaN counts as larger than any number, and zeros of both signs are equal.
//! 2. A row is read once: the best so far are a heap whose worst element the next one is held against. It lies in the caller's
//!    memory, which the standard library's does not.

use half::{bf16, f16};

/// Numbers that have an order, as integers that have the same.
pub trait Ordered: Copy {
    /// Greater where the number is.
    fn key(self) -> i64;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Ordered for $t {
            #[inline(always)]
            fn key(self) -> i64 {
                self as i64
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 }

impl Ordered for u64 {
    #[inline(always)]
    fn key(self) -> i64 {
        (self ^ (1 << 63)) as i64
    }
}

impl Ordered for f64 {
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
    #[inline(always)]
    fn key(self) -> i64 {
        if self.is_nan() {
            return i64::MAX;
        }
        let bits = (self + 0.0).to_bits() as i32;
        i64::from(bits ^ (((bits >> 31) as u32) >> 1) as i32)
    }
}

impl Ordered for f16 {
    #[inline(always)]
    fn key(self) -> i64 {
        self.to_f32().key()
    }
}

impl Ordered for bf16 {
    #[inline(always)]
    fn key(self) -> i64 {
        self.to_f32().key()
    }
}

/// Whether the first of two comes before the second: by key, then by index.
#[inline(always)]
fn before(a: (i64, i64), b: (i64, i64)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && a.1 < b.1)
}

/// Indices of the `k` first of `n` numbers in order, the largest first or the smallest, into `indices`; `keys` is scratch of
/// as many.
///
/// # Panics
/// If `keys` and `indices` are not as long as each other, or longer than `n`.
pub fn top_k<T: Ordered>(
    n: usize,
    at: impl Fn(usize) -> T,
    largest: bool,
    keys: &mut [i64],
    indices: &mut [i64],
) {
    let k = indices.len();
    assert!(
        keys.len() == k && k <= n,
        "top_k: {k} of {n}, scratch of {}",
        keys.len()
    );
    if k == 0 {
        return;
    }
    let turn = if largest { 0 } else { -1 };
    // all bits inverted turn the order around
    let key = |j: usize| at(j).key() ^ turn;
    for j in 0..k {
        (keys[j], indices[j]) = (key(j), j as i64);
    }
    for root in (0..k / 2).rev() {
        sift(keys, indices, root, k);
    }
    for j in k..n {
        let key = key(j);
        // a later index never comes before an equal key
        if key > keys[0] {
            (keys[0], indices[0]) = (key, j as i64);
            sift(keys, indices, 0, k);
        }
    }
    for end in (1..k).rev() {
        keys.swap(0, end);
        indices.swap(0, end);
        sift(keys, indices, 0, end);
    }
}

/// Restores the heap below `root`, whose root comes last of all.
fn sift(keys: &mut [i64], indices: &mut [i64], mut root: usize, len: usize) {
    loop {
        let mut last = root;
        for child in [2 * root + 1, 2 * root + 2] {
            if child < len && before((keys[last], indices[last]), (keys[child], indices[child])) {
                last = child;
            }
        }
        if last == root {
            return;
        }
        keys.swap(root, last);
        indices.swap(root, last);
        root = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Element, Tensor, sort};

    #[test]
    fn the_oracle_agrees_with_ties_nan_and_both_zeros() {
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
                    let (mut keys, mut indices) = (vec![0; k], vec![0; k]);
                    top_k(n, |j| values[j], largest, &mut keys, &mut indices);
                    let (_, wanted) = sort::top_k(&tensor, k, 0, largest).unwrap();
                    let wanted: Vec<i64> = wanted.to_i128s().unwrap().iter().map(|&v| v as i64).collect();
                    assert_eq!(indices, wanted, "{k} of {values:?}, {largest}");
                }
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
        assert!(f16::from_f32(-2.0).key() < f16::from_f32(1.0).key());
    }
}
