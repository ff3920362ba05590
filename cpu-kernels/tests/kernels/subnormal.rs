//! Subnormal numbers within and without their guard.

use polychip_cpu_kernels::subnormal::*;

#[test]
fn subnormal_weights_among_large_ones_flush_to_signed_zero() {
    let tiny = f32::from_bits(0x007f_ffff);
    let mut weights = [0.5, tiny, -tiny, 0.0, f32::MIN_POSITIVE, f32::NAN, f32::INFINITY];
    assert_eq!(flush(&mut weights), 2);
    let bits = weights.map(f32::to_bits);
    let zeros = [0.5, 0.0, -0.0, 0.0, f32::MIN_POSITIVE, f32::NAN, f32::INFINITY];
    assert_eq!(bits, zeros.map(f32::to_bits));
}

#[test]
fn uniformly_small_weights_are_kept() {
    let tiny = f32::from_bits(1);
    let mut weights = [tiny, 1e-30, -tiny];
    assert_eq!(flush(&mut weights), 0);
    assert_eq!(weights, [tiny, 1e-30, -tiny]);
    assert_eq!(flush(&mut []), 0);
}
