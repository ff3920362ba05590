//! Storage conversions between `f32` and the 16-bit floats, rounding to nearest even.

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
