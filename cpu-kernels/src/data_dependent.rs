//! Kernels whose result sizes depend on the data: NonZero, Unique and NonMaxSuppression.
//!
//! 1. Only the values determine the size of a result, so the caller counts first, or receives elements one by one, and makes room.
//! 2. Orders are those of [`Ordered`]: NaN counts as larger than any number, and zeros of both signs are equal.
//!
//! Not here: the k largest ([`crate::top_k`]).

use crate::Isa;
use crate::isa::{Kernel, Simd};
use crate::top_k::Ordered;

/// How many elements of each row of `columns` are not zero, into `counts`.
///
/// # Panics
/// If there is not one count for each row.
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

/// The places in their rows of the elements that are not zero, of which there are as many as `found` is long.
///
/// # Panics
/// If there are more.
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

/// Keys in their order, of equals the one of the lesser place first.
fn sort(order: &mut [(i64, u32)]) {
    let (low, high) = order.iter().fold((i64::MAX, i64::MIN), |(low, high), at| {
        (low.min(at.0), high.max(at.0))
    });
    if high.checked_sub(low).is_some_and(|range| range < 1 << 31) {
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

/// Which boxes of a class are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suppression {
    /// Whether a box is `[x centre, y centre, width, height]` instead of two corners `[y1, x1, y2, x2]`.
    pub centre: bool,
    /// The most boxes.
    pub most: usize,
    /// A box that overlaps a chosen one by more is dropped.
    pub overlap: f64,
    /// A box must score more, if set.
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

/// Calls `choose` with the number of each chosen box, the best first; equals by their numbers.
///
/// # Panics
/// If there is not one score for each box.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Element, Tensor, detect, sort};

    fn numbers(count: usize, seed: u64) -> impl Iterator<Item = f32> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 24) as f32
        })
        .take(count)
    }

    #[test]
    fn non_zero_matches_the_reference() {
        for (rows, columns) in [(3, 70), (1, 1), (5, 0), (7, 16)] {
            let x: Vec<f32> = numbers(rows * columns, 3)
                .map(|v| match (v * 5.0) as u32 {
                    0 => 0.0,
                    1 => -0.0,
                    2 => f32::NAN,
                    _ => v,
                })
                .collect();
            let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
            let tensor = Tensor::from_bytes(Element::F32, vec![rows, columns], &bytes).unwrap();
            let want = sort::non_zero(&tensor).unwrap().to_i64s().unwrap();
            for isa in Isa::available() {
                let mut counts = vec![9; rows];
                count_non_zero(isa, &x, columns, &mut counts);
                let mut found = vec![0; counts.iter().sum()];
                columns_non_zero(&x, columns, &mut found);
                assert_eq!(found, want[found.len()..], "{isa:?}");
                let of_rows = counts
                    .iter()
                    .enumerate()
                    .flat_map(|(row, &n)| std::iter::repeat_n(row as i64, n));
                assert_eq!(of_rows.collect::<Vec<_>>(), want[..found.len()], "{isa:?}");
            }
        }
    }

    #[test]
    fn ties_keep_their_order() {
        let wide = [i64::MAX, 3, i64::MIN, 3, 0, i64::MIN];
        let mut order = [(0, 0); 6];
        sorted(&wide, &mut order);
        assert_eq!(order.map(|at| at.1), [2, 5, 4, 1, 3, 0]);
        let narrow = [f32::NAN, 0.0, -1.0, -0.0, f32::NAN, 2.0];
        sorted(&narrow, &mut order);
        assert_eq!(order.map(|at| at.1), [2, 1, 3, 5, 0, 4]);
    }

    #[test]
    fn non_max_suppression_matches_the_reference() {
        for (count, centre, score) in [
            (200, false, Some(0.2)),
            (60, true, None),
            (1, false, None),
            (0, true, None),
        ] {
            let boxes: Vec<f32> = numbers(4 * count, 5).collect();
            let scores: Vec<f32> = numbers(count, 8).map(|v| (v * 20.0).floor() / 20.0).collect();
            for most in [0, 5, 500] {
                let p = Suppression {
                    centre,
                    most,
                    overlap: 0.3,
                    score,
                };
                let mut found = Vec::new();
                non_max_suppression(boxes.as_chunks().0, &scores, p, |i| found.push(i as i64));
                let tensor = |shape: Vec<usize>, v: &[f32]| {
                    let v: Vec<f64> = v.iter().map(|&v| f64::from(v)).collect();
                    Tensor::from_f64s(Element::F32, shape, &v).unwrap()
                };
                let (b, s) = (
                    tensor(vec![1, count, 4], &boxes),
                    tensor(vec![1, 1, count], &scores),
                );
                let of = detect::Suppression {
                    centre,
                    max_output: most,
                    iou: 0.3,
                    score: score.map(f64::from),
                };
                let want = detect::non_max_suppression(&b, &s, of)
                    .unwrap()
                    .to_i64s()
                    .unwrap();
                let want: Vec<i64> = want.chunks(3).map(|found| found[2]).collect();
                assert_eq!(found, want, "{count} {most}");
            }
        }
    }
}
