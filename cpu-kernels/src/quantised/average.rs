//! Averages of codes over windows, summed in integers.
//!
//! Taps outside the image are skipped; whether they count is the caller's choice.
#![allow(unsafe_code)]

use super::int8::CodeRange;
use crate::isa::Simd;
use crate::isa::dot::{ByteKernel, Bytes};
use crate::pool::{PoolParams, PoolPlan, Pooling};
use crate::threads::{Address, Parts, share};
use crate::{Error, Isa, ThreadPool};
use std::ops::Range;

/// An average of codes, planned for its shape.
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, conv::Window, pool::PoolParams};
/// use polychip_cpu_kernels::quantised::{AveragePlan, CodeRange};
///
/// let window = Window::new_2d([1, 2], [1, 1], [1, 2], [1, 1], [1, 1], [0, 0]);
/// let params = PoolParams { batch: 1, channels: 1, window, pads_end: [0; 3] };
/// let plan = AveragePlan::new(params, false)?;
/// let mut mean = [0];
/// // zero at 10, and the result has half the step
/// plan.run(Isa::detect(), &ThreadPool::new(1), &[12, 16], 10, 2.0, CodeRange::all(0), &mut mean);
/// assert_eq!(mean, [8]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AveragePlan {
    params: PoolParams,
    count_padding: bool,
}

impl AveragePlan {
    /// Plans an average; padding counts as zeros if `count_padding`.
    ///
    /// # Errors
    /// If a kernel size, stride or dilation is zero, or a size does not fit the address space.
    pub fn new(params: PoolParams, count_padding: bool) -> Result<Self, Error> {
        PoolPlan::new(params)?;
        if params.window.taps() > i32::MAX as usize / 255 {
            return Err(Error::too_large("quantised average", "the window"));
        }
        Ok(Self {
            params,
            count_padding,
        })
    }

    /// Averages codes whose zero is `input_zero`; `factor` is their step in steps of the result.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape.
    pub fn run(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        x: &[u8],
        input_zero: u8,
        factor: f32,
        codes: CodeRange,
        y: &mut [u8],
    ) {
        let PoolParams {
            batch,
            channels,
            window,
            ..
        } = self.params;
        let pixels = batch * window.out_pixels();
        assert_eq!(
            x.len(),
            batch * window.in_pixels() * channels,
            "average: length of the input"
        );
        assert_eq!(y.len(), pixels * channels, "average: length of the output");
        if y.is_empty() {
            return;
        }
        let work = y.len().saturating_mul(window.taps());
        let parts = if work < 200_000 { 1 } else { pool.threads() * 4 };
        // few pixels with many taps (global averages) are cut by channels
        let cuts = if pixels < parts {
            channels.div_ceil(64).min(parts)
        } else {
            1
        };
        let rows = if cuts == 1 { parts.min(pixels) } else { 1 };
        let (x, y) = (Address(x.as_ptr()), Parts::new(y));
        pool.run(rows * cuts, &|chunk| {
            isa.run_bytes(&Pixels {
                plan: self,
                pixels: share(pixels, rows, chunk / cuts, 1),
                channels: share(channels, cuts, chunk % cuts, 64),
                x: x.at(0),
                y: y.as_ptr(),
                input_zero: i32::from(input_zero),
                factor,
                codes,
            });
        });
    }
}

struct Pixels<'a> {
    plan: &'a AveragePlan,
    pixels: Range<usize>,
    channels: Range<usize>,
    x: *const u8,
    y: *mut u8,
    input_zero: i32,
    factor: f32,
    codes: CodeRange,
}

impl ByteKernel for &Pixels<'_> {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let s = b.simd();
        let PoolParams { channels, window, .. } = self.plan.params;
        let pooling = if self.plan.count_padding {
            Pooling::AverageCountPadding
        } else {
            Pooling::Average
        };
        let (low, high) = self.codes.limits();
        let (low, high) = (s.splat(low), s.splat(high));
        let zero = s.splat_i(i32::from(self.codes.zero));
        for pixel in self.pixels.clone() {
            let first = window.first_tap(pixel % window.out_pixels());
            let (taps, counted) = self.plan.params.taps(first, pooling);
            let inside: usize = taps.iter().map(|(low, high)| high - low).product();
            let image = self
                .x
                .wrapping_add(pixel / window.out_pixels() * window.in_pixels() * channels);
            let offset = s.splat_i(-self.input_zero * inside as i32);
            let factor = s.splat(self.factor / counted.max(1) as f32);
            let mut c = self.channels.start;
            while c < self.channels.end {
                let left = self.channels.end - c;
                let mut sum = offset;
                for kd in taps[0].0..taps[0].1 {
                    for kh in taps[1].0..taps[1].1 {
                        for kw in taps[2].0..taps[2].1 {
                            let from = window.tap(first, [kd, kh, kw], image, image, channels);
                            // SAFETY: the tap lies in the image, and `left` channels remain.
                            sum = s.add_i(sum, unsafe { b.widen(from.add(c), left) });
                        }
                    }
                }
                let x = s.mul(s.to_float(sum), factor);
                let q = s.add_i(s.to_int(s.min(s.max(x, low), high)), zero);
                // SAFETY: `left` channels of this pixel remain.
                unsafe { b.narrow(self.y.add(pixel * channels + c), q, left) };
                c += B::S::LANES;
            }
        }
    }
}
