//! Conversion of quantised integers at ports: the runtime reads and writes f32, and uses the
//! integers internally.
//!
//! The conversion is exact for one encoding: a real that is a whole number of steps yields the same
//! integer again.

use polychip_ops::DType;
use polychip_sdk::{EncodingKind, TensorView};

/// The encoding of a port of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Linear {
    scale: f32,
    zero: i32,
    signed: bool,
}

impl Linear {
    /// Bytes of a real, for each stored byte.
    pub(crate) const REAL_BYTES: usize = size_of::<f32>();

    /// The encoding of a tensor; none of one that has none, or another than bytes with one scale.
    pub(crate) fn of_tensor(tensor: &TensorView<'_>) -> Option<Linear> {
        let encoding = tensor.encoding()?;
        let signed = match tensor.dtype() {
            DType::I8 => true,
            DType::U8 => false,
            _ => return None,
        };
        (encoding.kind() == EncodingKind::PerTensor).then_some(())?;
        Some(Linear {
            scale: *encoding.scales().first()?,
            zero: encoding.zero_points().first().copied().unwrap_or(0),
            signed,
        })
    }

    /// Whether the runtime's scale and zero point are these: it has signed bytes, and scales that may have been printed between.
    pub(crate) fn is(&self, scale: f32, zero: i32) -> bool {
        let own = if self.signed { self.zero } else { self.zero - 128 };
        own == zero && (scale - self.scale).abs() <= self.scale * 1e-5
    }

    /// What stored bytes stand for, as the bytes of f32.
    pub(crate) fn reals(&self, stored: &[u8], to: &mut [u8]) {
        for (to, &byte) in to.chunks_exact_mut(Self::REAL_BYTES).zip(stored) {
            let number = if self.signed {
                i32::from(byte as i8)
            } else {
                i32::from(byte)
            };
            to.copy_from_slice(&((number - self.zero) as f32 * self.scale).to_ne_bytes());
        }
    }

    /// Stored bytes of reals: the nearest step, half to even, within the type.
    pub(crate) fn stored(&self, reals: &[u8], to: &mut [u8]) {
        let (least, most) = if self.signed {
            (-128.0, 127.0)
        } else {
            (0.0, 255.0)
        };
        for (to, real) in to.iter_mut().zip(reals.chunks_exact(Self::REAL_BYTES)) {
            let real = f32::from_ne_bytes([real[0], real[1], real[2], real[3]]);
            let number = (real / self.scale).round_ties_even() + self.zero as f32;
            // a cast makes 0 of NaN
            let number = number.clamp(least, most) as i32;
            *to = number as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<u8> {
        (0..=255).collect()
    }

    #[test]
    fn every_byte_round_trips() {
        for (zero, signed) in [
            (0, true),
            (-128, true),
            (127, true),
            (0, false),
            (128, false),
            (255, false),
        ] {
            for scale in [1e-6f32, 0.023_529_412, 1.0, 3e5] {
                let linear = Linear { scale, zero, signed };
                let mut reals = vec![0; 4 * 256];
                linear.reals(&all(), &mut reals);
                let mut back = vec![0; 256];
                linear.stored(&reals, &mut back);
                assert_eq!(back, all(), "{linear:?}");
            }
        }
    }

    #[test]
    fn reals_are_rounded_half_to_even_and_clamped() {
        let linear = Linear {
            scale: 2.0,
            zero: 10,
            signed: true,
        };
        let reals: Vec<u8> = [1.0f32, 3.0, -5.0, 1e9, -1e9, f32::INFINITY]
            .iter()
            .flat_map(|real| real.to_ne_bytes())
            .collect();
        let mut stored = vec![0; 6];
        linear.stored(&reals, &mut stored);
        let stored: Vec<i8> = stored.into_iter().map(|byte| byte as i8).collect();
        assert_eq!(stored, [10, 12, 8, 127, -128, 127]);
    }

    #[test]
    fn runtime_scale_is_compared_with_a_tolerance() {
        let linear = Linear {
            scale: 0.1,
            zero: 200,
            signed: false,
        };
        assert!(linear.is(0.1, 72) && linear.is(0.100_000_5, 72));
        assert!(!linear.is(0.1, 200) && !linear.is(0.101, 72) && !linear.is(f32::NAN, 72));
    }
}
