//! Columns of windows added back into images.
//!
//! Invariant: taps are added in order, each for all windows.

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// Windows of two-dimensional images whose elements are added back to their original positions.
#[derive(Debug, Clone, Copy)]
pub struct ColumnsPlan {
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Windows along each side.
    pub windows: [usize; 2],
    /// Strides of the window.
    pub strides: [usize; 2],
    /// Dilations of the window.
    pub dilations: [usize; 2],
    /// Padding before the image.
    pub pads: [i64; 2],
}

impl ColumnsPlan {
    /// Computes `y` `[planes, h, w]` from columns `[planes, taps, windows]`.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, columns: &[f32], y: &mut [f32]) {
        let pixels = self.size[0] * self.size[1];
        let own = self.kernel.iter().chain(&self.windows).product::<usize>();
        if pixels == 0 {
            return;
        }
        let planes = y.len() / pixels;
        let out = Parts::new(y);
        let chunks = (planes * own)
            .div_ceil(CHUNK)
            .clamp(1, pool.threads() * 4)
            .min(planes.max(1));
        pool.run(chunks, &|chunk| {
            for plane in share(planes, chunks, chunk, 1) {
                isa.run(ColumnsPlane {
                    plan: self,
                    columns: &columns[plane * own..][..own],
                    // SAFETY: chunks share the planes out.
                    y: unsafe { out.part(plane * pixels, pixels) },
                });
            }
        });
    }
}

struct ColumnsPlane<'a> {
    plan: &'a ColumnsPlan,
    columns: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for ColumnsPlane<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ColumnsPlane { plan, columns, y } = self;
        let ([_, width], [rows, across]) = (plan.size, plan.windows);
        y.fill(0.0);
        if rows * across == 0 {
            return;
        }
        let place = |d: usize, i: usize, tap: usize| {
            let at = (i * plan.strides[d] + tap * plan.dilations[d]) as i64 - plan.pads[d];
            usize::try_from(at).ok().filter(|&at| at < plan.size[d])
        };
        for (tap, columns) in columns.chunks_exact(rows * across).enumerate() {
            let (down, right) = (tap / plan.kernel[1], tap % plan.kernel[1]);
            // the windows whose element lies in the image are neighbours
            let first = (0..across).find(|&i| place(1, i, right).is_some());
            let Some(first) = first else { continue };
            let start = place(1, first, right).unwrap_or(0);
            for (row, columns) in columns.chunks_exact(across).enumerate() {
                let Some(to) = place(0, row, down) else { continue };
                let y = &mut y[to * width + start..(to + 1) * width];
                let from = &columns[first..];
                if plan.strides[1] == 1 {
                    let count = y.len().min(from.len());
                    for at in (0..count).step_by(S::LANES) {
                        let left = count - at;
                        // SAFETY: `left` elements remain of both.
                        unsafe {
                            let to = y.as_mut_ptr().add(at);
                            let sum = s.add(s.read(to, left), s.read(from.as_ptr().add(at), left));
                            s.write(to, sum, left);
                        }
                    }
                } else {
                    for (y, x) in y.iter_mut().step_by(plan.strides[1]).zip(from) {
                        *y += x;
                    }
                }
            }
        }
    }
}
