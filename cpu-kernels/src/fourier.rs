//! Discrete Fourier transforms of many lines, by the crates `realfft` and `rustfft`.
//!
//! Invariants:
//! 1. Complex numbers are pairs of floats, real part first.
//! 2. Bins of a line are `Σ x[t] exp(∓2πi·kt/n)`; the inverse transform divides them by `n`.
//!
//! Not here: half a spectrum back to real numbers.

use std::fmt;
use std::sync::Arc;

use num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use crate::Error;

/// The parameters of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FourierParams {
    /// Length of the transform; missing elements of a line count as zeros.
    pub length: usize,
    /// Number of bins to compute per line, from the first one.
    pub bins: usize,
    /// Whether lines are complex.
    pub is_complex: bool,
    /// Whether the transform is inverse.
    pub inverse: bool,
}

/// The positions of lines and of their bins; all distances in floats.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    /// Lines, in two dimensions.
    pub count: [usize; 2],
    /// Distances between lines in the input.
    pub from: [usize; 2],
    /// Distance between a line's elements.
    pub step: usize,
    /// Number of elements of a line.
    pub len: usize,
    /// Distances between lines in the output.
    pub to: [usize; 2],
    /// Distance between a line's bins.
    pub to_step: usize,
}

/// A transform, planned for its length.
///
/// ```
/// use polychip_cpu_kernels::fourier::{FourierParams, FourierPlan, Lines};
///
/// let params = FourierParams { length: 4, bins: 3, is_complex: false, inverse: false };
/// let plan = FourierPlan::new(params)?;
/// let lines = Lines { count: [1, 1], from: [0, 0], step: 1, len: 4, to: [0, 0], to_step: 2 };
/// let (mut bins, mut scratch) = ([0.0; 6], vec![0.0; plan.scratch_len()]);
/// plan.run(&lines, &[1.0, 0.0, -1.0, 0.0], None, &mut bins, &mut scratch);
/// assert_eq!(bins, [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Clone)]
pub struct FourierPlan {
    params: FourierParams,
    transform: Transform,
}

#[derive(Clone)]
enum Transform {
    Real(Arc<dyn RealToComplex<f32>>),
    Complex(Arc<dyn Fft<f32>>),
}

impl fmt::Debug for FourierPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FourierPlan")
            .field("params", &self.params)
            .finish_non_exhaustive()
    }
}

/// A complex number of zeros.
const ZERO: Complex<f32> = Complex { re: 0.0, im: 0.0 };

impl FourierPlan {
    /// Plans a transform.
    ///
    /// # Errors
    /// If the length is 0 or above 2^20, or there are more bins than elements.
    pub fn new(params: FourierParams) -> Result<Self, Error> {
        let FourierParams { length, bins, .. } = params;
        if length == 0 || length > 1 << 20 {
            return Err(Error::parameter(
                "fourier",
                "length",
                length,
                "it must be 1 to 2^20",
            ));
        }
        if bins > length {
            return Err(Error::parameter(
                "fourier",
                "bins",
                bins,
                "there are as many as elements at most",
            ));
        }
        let transform = if params.is_complex || params.inverse {
            let mut planner = FftPlanner::new();
            Transform::Complex(if params.inverse {
                planner.plan_fft_inverse(length)
            } else {
                planner.plan_fft_forward(length)
            })
        } else {
            Transform::Real(RealFftPlanner::new().plan_fft_forward(length))
        };
        Ok(Self { params, transform })
    }

    /// Floats of the line, of its bins, and of what the transform needs.
    fn shares(&self) -> [usize; 3] {
        let n = self.params.length;
        match &self.transform {
            Transform::Real(real) => [n.next_multiple_of(2), 2 * (n / 2 + 1), 2 * real.get_scratch_len()],
            Transform::Complex(complex) => [2 * n, 0, 2 * complex.get_inplace_scratch_len()],
        }
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.shares().iter().sum()
    }

    /// Transforms all lines of `x` into `y`; each element is first multiplied by that of `window`,
    /// if given.
    ///
    /// # Panics
    /// If a slice is shorter than the lines say, or scratch than [`scratch_len`](Self::scratch_len).
    pub fn run(&self, lines: &Lines, x: &[f32], window: Option<&[f32]>, y: &mut [f32], scratch: &mut [f32]) {
        let FourierParams {
            length,
            bins,
            is_complex,
            inverse,
        } = self.params;
        let [own, other, rest] = self.shares();
        let (line, scratch) = scratch.split_at_mut(own);
        let (spectrum, scratch) = scratch.split_at_mut(other);
        let spectrum: &mut [Complex<f32>] = bytemuck::cast_slice_mut(spectrum);
        let scratch: &mut [Complex<f32>] = bytemuck::cast_slice_mut(&mut scratch[..rest]);
        let have = lines.len.min(length);
        let weight = |t: usize| window.map_or(1.0, |window| window[t]);
        let scale = if inverse { 1.0 / length as f32 } else { 1.0 };
        for i in 0..lines.count[0] {
            for j in 0..lines.count[1] {
                let x = &x[i * lines.from[0] + j * lines.from[1]..];
                let y = &mut y[i * lines.to[0] + j * lines.to[1]..];
                let mut put = |k: usize, bin: Complex<f32>| {
                    y[k * lines.to_step] = bin.re;
                    y[k * lines.to_step + 1] = bin.im;
                };
                match &self.transform {
                    Transform::Real(transform) => {
                        let line = &mut line[..length];
                        for (t, to) in line[..have].iter_mut().enumerate() {
                            *to = x[t * lines.step] * weight(t);
                        }
                        line[have..].fill(0.0);
                        transform
                            .process_with_scratch(line, spectrum, scratch)
                            .expect("invariant: lengths are the plan's own");
                        for (k, bin) in spectrum.iter().take(bins).enumerate() {
                            put(k, *bin);
                        }
                        // the other half mirrors the first
                        for k in spectrum.len()..bins {
                            put(k, spectrum[length - k].conj());
                        }
                    }
                    Transform::Complex(transform) => {
                        let line: &mut [Complex<f32>] = bytemuck::cast_slice_mut(line);
                        for (t, to) in line[..have].iter_mut().enumerate() {
                            let at = t * lines.step;
                            let im = if is_complex { x[at + 1] } else { 0.0 };
                            *to = Complex::new(x[at], im) * weight(t);
                        }
                        line[have..].fill(ZERO);
                        transform.process_with_scratch(line, scratch);
                        for (k, bin) in line[..bins].iter().enumerate() {
                            put(k, *bin * scale);
                        }
                    }
                }
            }
        }
    }
}
