//! A sliding window: which inputs each output of a convolution or pool sees.
//!
//! Invariant: everything is resolved (no automatic padding, no defaults); a kernel only counts.

use super::error::{Result, require};
use super::index;

/// A window over `n` spatial dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Taps along each dim.
    pub kernel: Vec<usize>,
    /// Steps between windows.
    pub strides: Vec<usize>,
    /// Steps between taps.
    pub dilations: Vec<usize>,
    /// Padding before and after each dim.
    pub pads: Vec<(i64, i64)>,
    /// Outputs along each dim.
    pub output: Vec<usize>,
}

/// One tap of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Index of the kernel element.
    pub kernel: usize,
    /// Index of the spatial input element, if the tap is inside the input.
    pub input: Option<usize>,
    /// Whether the tap is inside the input or its padding.
    pub padded: bool,
}

impl Window {
    /// Checks that all lists have one entry per spatial dim of `input`.
    ///
    /// # Errors
    /// If they do not, or a stride or dilation is zero.
    pub fn check(&self, input: &[usize]) -> Result<()> {
        let n = input.len();
        require!(
            self.kernel.len() == n
                && self.strides.len() == n
                && self.dilations.len() == n
                && self.pads.len() == n
                && self.output.len() == n,
            "a window of {} dims on {n} spatial dims",
            self.kernel.len()
        );
        require!(
            !self.strides.contains(&0) && !self.dilations.contains(&0),
            "strides {:?} and dilations {:?} must not be zero",
            self.strides,
            self.dilations
        );
        super::tensor::elements(&self.kernel)?;
        super::tensor::elements(&self.output)?;
        let far = |v: usize| v > super::tensor::MAX_ELEMENTS;
        require!(
            !self.strides.iter().chain(&self.dilations).any(|&v| far(v))
                && !self
                    .pads
                    .iter()
                    .any(|p| far(p.0.unsigned_abs() as usize) || far(p.1.unsigned_abs() as usize)),
            "strides {:?}, dilations {:?} and pads {:?} are too large",
            self.strides,
            self.dilations,
            self.pads
        );
        Ok(())
    }

    /// Where tap `k` of output `o` along `dim` falls, counted from the input's start.
    #[must_use]
    pub fn position(&self, dim: usize, o: usize, k: usize) -> i64 {
        (o * self.strides[dim] + k * self.dilations[dim]) as i64 - self.pads[dim].0
    }

    /// All taps of the output at `o`, in the order of the kernel.
    #[must_use]
    pub fn taps(&self, input: &[usize], o: &[usize]) -> Vec<Tap> {
        let mut taps = Vec::with_capacity(index::product(&self.kernel));
        index::each(&self.kernel, |k| {
            let (mut at, mut inside, mut padded) = (0usize, true, true);
            for d in 0..input.len() {
                let p = self.position(d, o[d], k[d]);
                inside &= (0..input[d] as i64).contains(&p);
                padded &= p < input[d] as i64 + self.pads[d].1;
                at = at * input[d] + usize::try_from(p).unwrap_or(0);
            }
            taps.push(Tap {
                kernel: taps.len(),
                input: inside.then_some(at),
                padded,
            });
        });
        taps
    }
}
