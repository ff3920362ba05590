//! Columns of windows added back into images.
//!
//! Invariant: taps are added to a pixel in order.

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
    /// Computes `y` `[planes, h, w]` from columns `[planes, taps, windows]`, on top of what `start` has for each channel of
    /// an image, in turn; of zeros if it is empty.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, columns: &[f32], start: &[f32], y: &mut [f32]) {
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
                    start: match start.len() {
                        0 => 0.0,
                        channels => start[plane % channels],
                    },
                    // SAFETY: chunks share the planes out.
                    y: unsafe { out.part(plane * pixels, pixels) },
                });
            }
        });
    }
}

/// The largest stride whose pixels are summed one remainder after the other.
const MOST_PHASES: usize = 4;
/// Pixels of one remainder that are summed at a time.
const PHASE: usize = 64;

struct ColumnsPlane<'a> {
    plan: &'a ColumnsPlan,
    columns: &'a [f32],
    start: f32,
    y: &'a mut [f32],
}

/// The elements that a tap adds to some pixels, each `step` behind the one before: the first pixel, and the elements.
struct Run<'a> {
    at: usize,
    from: &'a [f32],
}

impl ColumnsPlane<'_> {
    /// Where a window's element is along a side, if it is in the image.
    fn place(&self, side: usize, window: usize, tap: usize) -> Option<usize> {
        let plan = self.plan;
        let at = (window * plan.strides[side] + tap * plan.dilations[side]) as i64 - plan.pads[side];
        usize::try_from(at).ok().filter(|&at| at < plan.size[side])
    }

    /// What the tap at `[down, right]` of a row of windows adds to its row of pixels.
    #[inline(always)]
    fn row(&self, stride: usize, [down, right]: [usize; 2], window: usize) -> Option<Run<'_>> {
        let plan = self.plan;
        let [rows, across] = plan.windows;
        let reach = right as i64 * plan.dilations[1] as i64 - plan.pads[1];
        // the windows whose element lies in the image are neighbours
        let first = ((-reach).max(0) as usize).div_ceil(stride);
        let end = (plan.size[1] as i64 - reach).max(0) as usize;
        let end = end.div_ceil(stride).min(across);
        let columns = &self.columns[((down * plan.kernel[1] + right) * rows + window) * across..][..across];
        Some(Run {
            from: columns.get(first..end)?,
            at: ((first * stride) as i64 + reach) as usize,
        })
    }

    /// Sums rows of pixels of a stride of some pixels, one remainder after the other, so that sums are of neighbours.
    #[inline(always)]
    fn phases<const STRIDE: usize>(&self, y: &mut [f32]) {
        let plan = self.plan;
        let ([_, width], [rows, _]) = (plan.size, plan.windows);
        for (to, y) in y.chunks_exact_mut(width).enumerate() {
            // the windows of each row of taps that have an element in this row of pixels
            let taps = (0..plan.kernel[0]).filter_map(|down| {
                let at = to as i64 + plan.pads[0] - (down * plan.dilations[0]) as i64;
                let at = usize::try_from(at).ok()?;
                let window = at / plan.strides[0];
                (at.is_multiple_of(plan.strides[0]) && window < rows).then_some((down, window))
            });
            for (block, y) in y.chunks_mut(PHASE * STRIDE).enumerate() {
                let first = block * PHASE * STRIDE;
                let mut sums = [[self.start; PHASE]; STRIDE];
                for (down, window) in taps.clone() {
                    for right in 0..plan.kernel[1] {
                        let Some(Run { at, from }) = self.row(STRIDE, [down, right], window) else {
                            continue;
                        };
                        let sums = &mut sums[at % STRIDE];
                        // in units of the stride: where the run begins, and where these sums do
                        let (begin, own) = (at / STRIDE, first / STRIDE);
                        let from = &from[own.saturating_sub(begin).min(from.len())..];
                        let sums = &mut sums[begin.saturating_sub(own).min(PHASE)..];
                        for (sum, x) in sums.iter_mut().zip(from) {
                            *sum += x;
                        }
                    }
                }
                let (whole, rest) = y.as_chunks_mut::<STRIDE>();
                for (i, y) in whole.iter_mut().enumerate() {
                    *y = std::array::from_fn(|phase| sums[phase][i]);
                }
                for (phase, y) in rest.iter_mut().enumerate() {
                    *y = sums[phase][whole.len()];
                }
            }
        }
    }
}

impl Kernel for ColumnsPlane<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, _: S) {
        let (plan, y) = (self.plan, std::mem::take(&mut self.y));
        match plan.strides[1] {
            1 => return self.phases::<1>(y),
            2 => return self.phases::<2>(y),
            3 => return self.phases::<3>(y),
            MOST_PHASES => return self.phases::<MOST_PHASES>(y),
            _ => {}
        }
        y.fill(self.start);
        let width = plan.size[1];
        for down in 0..plan.kernel[0] {
            for right in 0..plan.kernel[1] {
                for window in 0..plan.windows[0] {
                    let (Some(to), Some(run)) = (
                        self.place(0, window, down),
                        self.row(plan.strides[1], [down, right], window),
                    ) else {
                        continue;
                    };
                    let y = y[to * width..(to + 1) * width]
                        .get_mut(run.at..)
                        .unwrap_or(&mut []);
                    for (y, x) in y.iter_mut().step_by(plan.strides[1]).zip(run.from) {
                        *y += x;
                    }
                }
            }
        }
    }
}
