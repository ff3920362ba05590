//! Pairs of features rotated by the angles of their position.
//!
//! Invariant: features that are not rotated are copied.

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// The layout of rows, and which of their features are rotated.
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
    /// Number of leading features that are rotated; an even number.
    pub rotated: usize,
    /// Whether neighbours form pairs; if not, a pair is a feature of the first half and one of the
    /// second.
    pub interleaved: bool,
}

/// Rotates `x` into `y`, with cosines and sines (caches) `[positions, rotated / 2]` and positions
/// `[batch, rows]`, or with caches for each batch and row.
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
