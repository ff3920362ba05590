//! Kernels whose result sizes depend on the data: NonZero, Unique and NonMaxSuppression.
//!
//! 1. Only the values determine the size of a result. The caller therefore counts first and
//!    allocates, or receives elements one by one.
//! 2. Orders are those of [`Ordered`]: NaN counts as larger than any number, and zeros of both signs are equal.
//!
//! Not here: the k largest ([`crate::top_k`]).

use crate::Isa;
use crate::isa::{Kernel, Simd};
use crate::top_k::Ordered;

/// Writes the number of nonzero elements of each row of `columns` elements to `counts`.
///
/// # Panics
/// If the number of counts is not the number of rows.
pub fn count_non_zero<T: Copy + PartialEq + Default>(
    isa: Isa,
    x: &[T],
    columns: usize,
    counts: &mut [usize],
) {
    assert_eq!(x.len(), counts.len() * columns, "non-zero: rows");
    isa.run(Counted { x, columns, counts });
}

struct Counted<'a, T> {
    x: &'a [T],
    columns: usize,
    counts: &'a mut [usize],
}

impl<T: Copy + PartialEq + Default> Kernel for Counted<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        if self.columns == 0 {
            self.counts.fill(0);
            return;
        }
        for (row, count) in self.x.chunks_exact(self.columns).zip(self.counts) {
            *count = row
                .chunks(1 << 16)
                .map(|x| x.iter().map(|x| u32::from(*x != T::default())).sum::<u32>() as usize)
                .sum();
        }
    }
}

/// Writes the columns of the nonzero elements to `found`, which has room for each of them.
///
/// # Panics
/// If there are more nonzero elements than `found` has room for.
pub fn columns_non_zero<T: Copy + PartialEq + Default>(x: &[T], columns: usize, found: &mut [i64]) {
    let mut rest = found;
    for row in x.chunks_exact(columns.max(1)) {
        let mut count = 0;
        let room = rest.len();
        for (column, &x) in row.iter().enumerate() {
            // written whether it counts or not: what does not is overwritten
            if count < room {
                rest[count] = column as i64;
            }
            count += usize::from(x != T::default());
        }
        rest = &mut rest[count..];
    }
}

/// The numbers of elements in their order, of equals the first one first.
///
/// # Panics
/// If `order` is not as long as `x`, or longer than 32 bits count.
pub fn sorted<T: Ordered>(x: &[T], order: &mut [(i64, u32)]) {
    assert_eq!(x.len(), order.len(), "sorted: lengths");
    assert!(u32::try_from(x.len()).is_ok(), "sorted: too many elements");
    for (i, (at, &x)) in order.iter_mut().zip(x).enumerate() {
        *at = (x.key(), i as u32);
    }
    sort(order);
}

/// Values per key up to which keys are counted instead of compared.
const MOST_VALUES: usize = 4;

/// Sorts keys from `low` on, of so many values, which are in the order of their places.
fn sort_by_counting(order: &mut [(i64, u32)], low: i64, values: usize) {
    let mut next = vec![0u32; values];
    let value = |key: i64| key.wrapping_sub(low) as usize;
    for at in order.iter() {
        next[value(at.0)] += 1;
    }
    let mut before = 0;
    for next in &mut next {
        before += std::mem::replace(next, before);
    }
    let before = order.to_vec();
    for at in before {
        let next = &mut next[value(at.0)];
        order[*next as usize] = at;
        *next += 1;
    }
}

/// Keys in their order, of equals the one of the lesser place first.
fn sort(order: &mut [(i64, u32)]) {
    let (low, high) = order.iter().fold((i64::MAX, i64::MIN), |(low, high), at| {
        (low.min(at.0), high.max(at.0))
    });
    let range = high.checked_sub(low);
    let values = range.and_then(|range| usize::try_from(range).ok()?.checked_add(1));
    if let Some(values) = values.filter(|&values| values / MOST_VALUES <= order.len()) {
        return sort_by_counting(order, low, values);
    }
    if range.is_some_and(|range| range < 1 << 31) {
        // one comparison for both
        for at in order.iter_mut() {
            at.0 = (at.0 - low) << 32 | i64::from(at.1);
        }
        order.sort_unstable_by_key(|at| at.0);
        for at in order {
            at.0 = (at.0 >> 32) + low;
        }
        return;
    }
    order.sort_unstable();
}

/// The parameters of [`non_max_suppression`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suppression {
    /// Whether a box is `[x centre, y centre, width, height]` instead of two corners `[y1, x1, y2, x2]`.
    pub centre: bool,
    /// Maximum number of boxes.
    pub most: usize,
    /// A box that overlaps a chosen one by more than this is dropped.
    pub overlap: f64,
    /// Score that a box must exceed, if set.
    pub score: Option<f32>,
}

/// A chosen box: two corners, and how large it is.
#[derive(Clone, Copy)]
struct Corners {
    low: [f64; 2],
    high: [f64; 2],
    area: f64,
}

impl Corners {
    fn new(b: &[f32; 4], centre: bool) -> Self {
        let [a, b, c, d] = b.map(f64::from);
        let (low, high) = if centre {
            ([b - d / 2.0, a - c / 2.0], [b + d / 2.0, a + c / 2.0])
        } else {
            ([a.min(c), b.min(d)], [a.max(c), b.max(d)])
        };
        Self {
            low,
            high,
            area: (high[0] - low[0]) * (high[1] - low[1]),
        }
    }

    fn overlap(&self, other: &Self) -> f64 {
        let side = |i: usize| (self.high[i].min(other.high[i]) - self.low[i].max(other.low[i])).max(0.0);
        let both = side(0) * side(1);
        if both <= 0.0 {
            0.0
        } else {
            both / (self.area + other.area - both)
        }
    }
}

/// Calls `choose` with the index of each chosen box, best score first; boxes of equal score by
/// index.
///
/// # Panics
/// If the number of scores is not the number of boxes.
pub fn non_max_suppression(
    boxes: &[[f32; 4]],
    scores: &[f32],
    p: Suppression,
    mut choose: impl FnMut(usize),
) {
    assert_eq!(boxes.len(), scores.len(), "suppression: lengths");
    // scores in the total order of their bits above the numbers, so that the greatest is the best and first
    let key = |(i, score): (usize, &f32)| {
        let bits = score.to_bits() as i32;
        let order = bits ^ (((bits >> 31) as u32) >> 1) as i32;
        i64::from(order) << 32 | i64::from(!(i as u32))
    };
    let better = |&(_, &score): &(usize, &f32)| p.score.is_none_or(|least| score > least);
    let candidates: Vec<i64> = scores.iter().enumerate().filter(better).map(key).collect();
    // few are looked at before enough are found, so that they are not sorted
    let mut candidates = std::collections::BinaryHeap::from(candidates);
    let mut chosen: Vec<Corners> = Vec::with_capacity(p.most.min(boxes.len()));
    while chosen.len() < p.most {
        let Some(next) = candidates.pop() else { break };
        let at = !(next as u32) as usize;
        let own = Corners::new(&boxes[at], p.centre);
        if chosen.iter().all(|other| other.overlap(&own) <= p.overlap) {
            chosen.push(own);
            choose(at);
        }
    }
}
