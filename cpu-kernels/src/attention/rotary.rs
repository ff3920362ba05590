//! Pairs of features rotated by the angles of their position.
//!
//! Invariant: features beyond those that turn are copied.

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// Where rows are, and which of their features turn.
#[derive(Debug, Clone, Copy)]
pub struct Rotary {
    /// Batches.
    pub batch: usize,
    /// Heads.
    pub heads: usize,
    /// Positions of a head.
    pub rows: usize,
    /// Features of a row.
    pub size: usize,
    /// `[batch, rows, heads, size]`, else `[batch, heads, rows, size]`.
    pub heads_inside: bool,
    /// Features that turn, an even number of them.
    pub rotated: usize,
    /// Neighbours are pairs, else a feature of the first half and one of the second.
    pub interleaved: bool,
}

/// `y` of `x`, with caches `[positions, rotated / 2]` and positions `[batch, rows]`, or caches for each batch and row.
///
/// # Errors
/// A position outside the caches.
///
/// # Panics
/// If a slice is too short.
pub fn rotary(
    isa: Isa,
    pool: &ThreadPool,
    plan: Rotary,
    x: &[f32],
    (cosines, sines): (&[f32], &[f32]),
    positions: Option<&[i64]>,
    y: &mut [f32],
) -> Result<(), i64> {
    let Rotary {
        batch,
        heads,
        rows,
        size,
        ..
    } = plan;
    let half = plan.rotated / 2;
    assert_eq!(
        (x.len(), y.len()),
        (batch * heads * rows * size, batch * heads * rows * size),
        "rotary: lengths"
    );
    let places = cosines.len() / half;
    let place = |row: usize| match positions {
        None => Some(row),
        Some(positions) => {
            let at = positions[row];
            let at = if at < 0 { at + places as i64 } else { at };
            usize::try_from(at).ok().filter(|&at| at < places)
        }
    };
    if let Some(wrong) = (0..batch * rows).find(|&row| place(row).is_none()) {
        return Err(positions.map_or(0, |positions| positions[wrong]));
    }
    let lines = batch * heads * rows;
    let out = Parts::new(y);
    let chunks = (lines * size).div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for line in share(lines, chunks, chunk, 1) {
            let (entry, row) = if plan.heads_inside {
                (line / (heads * rows), line / heads % rows)
            } else {
                (line / (heads * rows), line % rows)
            };
            let at = place(entry * rows + row).unwrap_or(0) * half;
            isa.run(Line {
                x: &x[line * size..][..size],
                cosines: &cosines[at..][..half],
                sines: &sines[at..][..half],
                interleaved: plan.interleaved,
                // SAFETY: chunks share the lines out.
                y: unsafe { out.part(line * size, size) },
            });
        }
    });
    Ok(())
}

struct Line<'a> {
    x: &'a [f32],
    cosines: &'a [f32],
    sines: &'a [f32],
    interleaved: bool,
    y: &'a mut [f32],
}

impl Kernel for Line<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Line {
            x,
            cosines,
            sines,
            interleaved,
            y,
        } = self;
        let half = cosines.len();
        let (front, kept) = y.split_at_mut(2 * half);
        kept.copy_from_slice(&x[2 * half..]);
        let angles = cosines.iter().zip(sines);
        if interleaved {
            let (pairs, _) = x.as_chunks::<2>();
            let (to, _) = front.as_chunks_mut::<2>();
            for ((y, &[a, b]), (&c, &s)) in to.iter_mut().zip(pairs).zip(angles) {
                *y = [a * c - b * s, a * s + b * c];
            }
            return;
        }
        let (first, second) = front.split_at_mut(half);
        let (left, right) = x[..2 * half].split_at(half);
        for ((((y, z), &a), &b), (&c, &s)) in first.iter_mut().zip(second).zip(left).zip(right).zip(angles) {
            (*y, *z) = (a * c - b * s, a * s + b * c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Element, Tensor, attention};

    #[test]
    fn rotated_pairs_match_the_reference() {
        let (batch, heads, rows) = (2, 3, 5);
        let numbers = |len: usize, seed: usize| -> Vec<f32> {
            (0..len)
                .map(|i| ((i * 7919 + seed) % 201) as f32 / 100.0 - 1.0)
                .collect()
        };
        let tensor = |shape: &[usize], x: &[f32]| {
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            Tensor::from_f64s(Element::F32, shape.to_vec(), &wide).unwrap()
        };
        let pool = ThreadPool::new(2);
        for isa in Isa::available() {
            for (size, rotated) in [(8, 8), (10, 6), (64, 64)] {
                for bits in 0..4 {
                    let (interleaved, with_positions) = (bits & 1 != 0, bits & 2 != 0);
                    let half = rotated / 2;
                    let x = numbers(batch * heads * rows * size, 1);
                    let places: Vec<i64> = (0..batch * rows).map(|i| (i * 3 % 7) as i64).collect();
                    let shape = if with_positions {
                        vec![7, half]
                    } else {
                        vec![batch, rows, half]
                    };
                    let count = shape.iter().product();
                    let (c, s) = (numbers(count, 2), numbers(count, 3));
                    let given = Tensor::from_i64s(vec![batch, rows], places.clone()).unwrap();
                    let want = attention::rotary(
                        &tensor(&[batch, heads, rows, size], &x),
                        &tensor(&shape, &c),
                        &tensor(&shape, &s),
                        with_positions.then_some(&given),
                        rotated,
                        interleaved,
                    )
                    .unwrap()
                    .to_f64s()
                    .unwrap();
                    let mut plan = Rotary {
                        batch,
                        heads,
                        rows,
                        size,
                        heads_inside: false,
                        rotated,
                        interleaved,
                    };
                    let positions = with_positions.then_some(&places[..]);
                    let mut y = vec![f32::NAN; x.len()];
                    rotary(isa, &pool, plan, &x, (&c, &s), positions, &mut y).unwrap();
                    for (y, want) in y.iter().zip(&want) {
                        assert!((f64::from(*y) - want).abs() < 1e-6, "{isa:?} {plan:?}");
                    }
                    // the same heads, beside each other
                    let swap = |x: &[f32]| {
                        let mut to = vec![0.0; x.len()];
                        for (line, x) in x.chunks_exact(size).enumerate() {
                            let (b, h, r) = (line / (heads * rows), line / rows % heads, line % rows);
                            to[((b * rows + r) * heads + h) * size..][..size].copy_from_slice(x);
                        }
                        to
                    };
                    plan.heads_inside = true;
                    let mut z = vec![f32::NAN; x.len()];
                    rotary(isa, &pool, plan, &swap(&x), (&c, &s), positions, &mut z).unwrap();
                    assert_eq!(z, swap(&y), "{isa:?} {plan:?}");
                }
            }
        }
    }
}
