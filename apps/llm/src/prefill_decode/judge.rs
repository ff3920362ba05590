//! Compares a device's results with the reference's.

use polychip::Policy;

/// The reference device: the CPU, if there is one.
pub(crate) fn reference(devices: &[String]) -> Option<&String> {
    let cpu = devices.iter().find(|device| device.starts_with("cpu:"));
    cpu.or(devices.first())
}

/// Distance between logits and the reference's: the norm of the difference, divided by the norm of
/// the reference about its mean.
pub(crate) fn distance(logits: &[f32], reference: &[f32]) -> f64 {
    let mean = reference.iter().map(|x| f64::from(*x)).sum::<f64>() / reference.len().max(1) as f64;
    let (mut off, mut own) = (0.0, 0.0);
    for (a, b) in logits.iter().zip(reference) {
        off += (f64::from(*a) - f64::from(*b)).powi(2);
        own += (f64::from(*b) - mean).powi(2);
    }
    // a NaN is far
    let distance = (off / own.max(f64::MIN_POSITIVE)).sqrt();
    if distance.is_nan() || logits.len() != reference.len() {
        f64::INFINITY
    } else {
        distance
    }
}

/// Largest accepted distance from the reference: 8-bit products and 16-bit floats round by a few
/// hundredths.
pub(crate) fn tolerance(policy: &Policy) -> f64 {
    if policy.is_exact() { 0.02 } else { 0.15 }
}
