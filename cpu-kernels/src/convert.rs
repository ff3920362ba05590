//! Storage conversions between `f32` and the 16-bit floats, rounding to nearest even.
//!
//! Vectorised by the crate `half` where the CPU has instructions for it. Not here: arithmetic in 16 bits.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// `output[i] = input[i]`, exactly.
///
/// # Panics
/// If the lengths differ.
pub fn f16_to_f32(input: &[f16], output: &mut [f32]) {
    input.convert_to_f32_slice(output);
}

/// `output[i]` is the `f16` nearest to `input[i]`.
///
/// # Panics
/// If the lengths differ.
pub fn f32_to_f16(input: &[f32], output: &mut [f16]) {
    output.convert_from_f32_slice(input);
}

/// `output[i] = input[i]`, exactly.
///
/// # Panics
/// If the lengths differ.
pub fn bf16_to_f32(input: &[bf16], output: &mut [f32]) {
    input.convert_to_f32_slice(output);
}

/// `output[i]` is the `bf16` nearest to `input[i]`.
///
/// # Panics
/// If the lengths differ.
pub fn f32_to_bf16(input: &[f32], output: &mut [bf16]) {
    output.convert_from_f32_slice(input);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_16_bit_value_survives_the_round_trip() {
        let bits: Vec<u16> = (0..=u16::MAX).collect();
        let halves: Vec<f16> = bits.iter().map(|&bits| f16::from_bits(bits)).collect();
        let (mut wide, mut back) = (vec![0.0; halves.len()], vec![f16::ZERO; halves.len()]);
        f16_to_f32(&halves, &mut wide);
        f32_to_f16(&wide, &mut back);
        for ((a, b), wide) in halves.iter().zip(&back).zip(&wide) {
            assert!(
                a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() && wide.is_nan(),
                "{a} {b} {wide}"
            );
        }
        let brains: Vec<bf16> = bits.iter().map(|&bits| bf16::from_bits(bits)).collect();
        let mut back = vec![bf16::ZERO; brains.len()];
        bf16_to_f32(&brains, &mut wide);
        f32_to_bf16(&wide, &mut back);
        for (a, b) in brains.iter().zip(&back) {
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{a} {b}");
        }
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        let mut half = [f16::ZERO; 3];
        f32_to_f16(&[1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 1e6], &mut half);
        assert_eq!(half.map(f16::to_bits), [0x3c00, 0x3c02, 0x7c00]);
        let mut brain = [bf16::ZERO; 2];
        f32_to_bf16(&[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0], &mut brain);
        assert_eq!(brain.map(bf16::to_bits), [0x3f80, 0x3f82]);
    }
}
