//! Weights of a convolution in the order in which its kernels read them.
//!
//! Invariant: step `k` of a group's sum is channel `k % inside` under element `k / inside` of the window.

use half::f16;

use super::{Conv, Direction, Sizes};
use crate::{Error, Result, Scalar};

impl Conv {
    /// The position in ONNX's order of the weight of step `k` and column `column` of `group`, if there is one:
    /// `[m, c / g, kh, kw]`, transposed `[c, m / g, kh, kw]`.
    pub(super) fn place(&self, sizes: &Sizes, group: u32, k: u32, column: u32) -> Option<usize> {
        let channel = group * sizes.inside + k % sizes.inside;
        let output = group * sizes.outside + column;
        let (c, m) = (self.image.channels / self.groups, self.channels_out / self.groups);
        if k >= sizes.depth || column >= sizes.outside || channel / c != output / m {
            return None;
        }
        let tap = u64::from(k / sizes.inside);
        let taps = u64::from(self.window.taps());
        let filter = match self.direction {
            Direction::Forward => u64::from(output) * u64::from(c) + u64::from(channel % c),
            Direction::Transposed { .. } => u64::from(channel) * u64::from(m) + u64::from(output % m),
        };
        usize::try_from(filter * taps + tap).ok()
    }

    fn weight_count(&self) -> u64 {
        u64::from(self.window.taps())
            * u64::from(self.image.channels / self.groups)
            * u64::from(self.channels_out)
    }

    /// Packs the weights of floats, given in ONNX's order: `[m, c / g, kh, kw]`, transposed `[c, m / g, kh, kw]`.
    ///
    /// # Errors
    /// If the number of weights is wrong, or the convolution does not compute floats.
    pub fn pack_weights(&self, weights: &[f32]) -> Result<Vec<u8>> {
        let sizes = self.sizes()?;
        self.check_count(weights.len())?;
        let mut bytes = Vec::new();
        for group in 0..sizes.groups {
            for k in 0..sizes.fours * 4 {
                for column in 0..sizes.quads * 4 {
                    let place = self.place(&sizes, group, k, column);
                    let weight = place.map_or(0.0, |at| weights[at]);
                    match self.scalar {
                        Scalar::F32 => bytes.extend(weight.to_le_bytes()),
                        Scalar::F16 => bytes.extend(f16::from_f32(weight).to_le_bytes()),
                        other => {
                            return Err(Error::new(format!("weights of floats for {}", other.name())));
                        }
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// Packs the weights of bytes, whose zero point is 0: words of four steps of the sum, then what the
    /// image's zero point adds to each column.
    ///
    /// # Errors
    /// If the number of weights is wrong, or the convolution does not compute bytes.
    pub fn pack_bytes(&self, weights: &[i8]) -> Result<Vec<u8>> {
        let sizes = self.sizes()?;
        self.check_count(weights.len())?;
        if !self.is_bytes() {
            return Err(Error::new(format!("weights of bytes for {}", self.scalar.name())));
        }
        let zero = self.zero_signed();
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for group in 0..sizes.groups {
            let mut sums = vec![0i32; sizes.quads as usize * 4];
            for four in 0..sizes.fours {
                for (column, sum) in (0..).zip(&mut sums) {
                    for k in 4 * four..4 * four + 4 {
                        let place = self.place(&sizes, group, k, column);
                        let weight = place.map_or(0, |at| weights[at]);
                        *sum += i32::from(weight);
                        bytes.push(weight.cast_unsigned());
                    }
                }
            }
            ends.extend(sums.iter().flat_map(|sum| (-zero * sum).to_le_bytes()));
        }
        bytes.extend(ends);
        Ok(bytes)
    }

    /// The zero point of the image once its bytes are read as signed ones.
    pub(super) fn zero_signed(&self) -> i32 {
        match self.scalar {
            Scalar::U8 => self.zero_point - 128,
            _ => self.zero_point,
        }
    }

    fn check_count(&self, count: usize) -> Result<()> {
        if count as u64 != self.weight_count() {
            return Err(Error::new(format!(
                "{count} weights for a convolution that has {}",
                self.weight_count()
            )));
        }
        Ok(())
    }
}
