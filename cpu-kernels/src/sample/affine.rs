//! Sampling grids of affine maps.
//!
//! Invariant: coordinates are made in `f64` and rounded once.

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// The sampling grid of affine maps `theta` `[n, 2, 3]` for images of this height and width: `[n, h, w, 2]`.
///
/// # Panics
/// If a slice is too short.
pub fn affine_grid(
    isa: Isa,
    pool: &ThreadPool,
    theta: &[f32],
    [h, w]: [usize; 2],
    align_corners: bool,
    y: &mut [f32],
) {
    if h == 0 || w == 0 {
        return;
    }
    let rows = y.len() / (2 * w);
    let out = Parts::new(y);
    let chunks = (rows * w).div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for row in share(rows, chunks, chunk, 1) {
            let theta = &theta[row / h * 6..][..6];
            isa.run(AffineRow {
                theta: std::array::from_fn(|i| f64::from(theta[i])),
                at: unit(row % h, h, align_corners),
                align_corners,
                // SAFETY: chunks share the rows out.
                y: unsafe { out.part(row * 2 * w, 2 * w) },
            });
        }
    });
}

#[inline(always)]
fn unit(i: usize, size: usize, align_corners: bool) -> f64 {
    if !align_corners {
        (2.0 * i as f64 + 1.0) / size as f64 - 1.0
    } else if size == 1 {
        0.0
    } else {
        2.0 * i as f64 / (size as f64 - 1.0) - 1.0
    }
}

struct AffineRow<'a> {
    theta: [f64; 6],
    at: f64,
    align_corners: bool,
    y: &'a mut [f32],
}

impl Kernel for AffineRow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AffineRow {
            theta: [a, b, c, d, e, f],
            at,
            align_corners,
            y,
        } = self;
        let (points, _) = y.as_chunks_mut::<2>();
        let width = points.len();
        let (first, second) = (b * at, e * at);
        for (i, point) in points.iter_mut().enumerate() {
            let x = unit(i, width, align_corners);
            *point = [(a * x + first + c) as f32, (d * x + second + f) as f32];
        }
    }
}
