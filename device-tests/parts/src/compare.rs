//! Compares a tensor with an independent result.
//!
//! Invariant: data types and shapes must be equal; NaN equals NaN; infinities must agree in sign.

use polychip_ops::{DType, Literal};

/// How far values may be apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// |a − b| ≤ absolute + relative × |b|, element by element, as the ONNX suite compares.
    Elementwise {
        /// Relative part.
        relative: f64,
        /// Absolute part.
        absolute: f64,
    },
    /// max |a − b| ≤ relative × max |b| over the tensor.
    OfLargest(f64),
}

/// Compares two values; the error describes the difference.
///
/// # Errors
/// The first difference in type, shape or value, with both sides.
pub fn compare(found: &Literal, wanted: &Literal, tolerance: Tolerance) -> Result<(), String> {
    if found.dtype != wanted.dtype {
        return Err(format!(
            "data type {} instead of {}",
            found.dtype.name(),
            wanted.dtype.name()
        ));
    }
    if found.shape != wanted.shape {
        return Err(format!("shape {:?} instead of {:?}", found.shape, wanted.shape));
    }
    if found.bytes == wanted.bytes {
        return Ok(());
    }
    if found.dtype == DType::String || !found.dtype.is_float() {
        return integers(found, wanted);
    }
    match (found.as_f64s(), wanted.as_f64s()) {
        (Some(a), Some(b)) => floats(&a, &b, tolerance),
        _ => Err(format!("elements of {} differ", found.dtype.name())),
    }
}

fn integers(found: &Literal, wanted: &Literal) -> Result<(), String> {
    match (found.as_i64s(), wanted.as_i64s()) {
        (Some(a), Some(b)) => {
            let differs = a.iter().zip(&b).position(|(a, b)| a != b);
            differs.map_or(Ok(()), |index| {
                Err(format!("element {index} is {} instead of {}", a[index], b[index]))
            })
        }
        _ => Err(format!("elements of {} differ", found.dtype.name())),
    }
}

fn floats(found: &[f64], wanted: &[f64], tolerance: Tolerance) -> Result<(), String> {
    let largest = wanted
        .iter()
        .filter(|value| value.is_finite())
        .fold(0.0f64, |most, value| most.max(value.abs()));
    for (index, (a, b)) in found.iter().zip(wanted).enumerate() {
        if a == b || (a.is_nan() && b.is_nan()) {
            continue;
        }
        let allowed = match tolerance {
            Tolerance::Elementwise { relative, absolute } => absolute + relative * b.abs(),
            Tolerance::OfLargest(relative) => relative * largest,
        };
        let apart = (a - b).abs();
        // a NaN or an infinity on one side alone is never within
        if !(apart <= allowed && a.is_finite() && b.is_finite()) {
            return Err(format!(
                "element {index} is {a} instead of {b} (apart {apart:e}, allowed {allowed:e})"
            ));
        }
    }
    Ok(())
}

/// max |a − b| / max |b|, for reports; 0 for tensors that are not floats.
#[must_use]
pub fn deviation(found: &Literal, wanted: &Literal) -> f64 {
    let (Some(a), Some(b)) = (found.as_f64s(), wanted.as_f64s()) else {
        return 0.0;
    };
    let apart = a
        .iter()
        .zip(&b)
        .fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
    let largest = b.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    if apart == 0.0 { 0.0 } else { apart / largest }
}

/// The cosine of the angle between two tensors; 0 where one is no float, all zero, or of another size.
#[must_use]
pub fn cosine(a: &Literal, b: &Literal) -> f64 {
    let (Some(a), Some(b)) = (a.as_f64s(), b.as_f64s()) else {
        return 0.0;
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let norms = (dot(&a, &a) * dot(&b, &b)).sqrt();
    // of NaN there is no cosine, which is no match either
    if a.len() == b.len() && norms != 0.0 {
        dot(&a, &b) / norms
    } else {
        0.0
    }
}

/// The index of the largest element: the answer of a classifier.
#[must_use]
pub fn top(values: &Literal) -> Option<usize> {
    let values = values.as_f64s()?;
    (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: Tolerance = Tolerance::Elementwise {
        relative: 1e-3,
        absolute: 1e-7,
    };

    fn f(values: &[f32]) -> Literal {
        Literal::f32s(values)
    }

    #[test]
    fn values_types_and_shapes_are_told_apart() {
        assert!(compare(&f(&[1.0, f32::NAN]), &f(&[1.0005, f32::NAN]), SUITE).is_ok());
        assert!(
            compare(&f(&[1.0]), &f(&[1.01]), SUITE)
                .unwrap_err()
                .contains("element 0")
        );
        assert!(compare(&f(&[1.0]), &f(&[f32::NAN]), SUITE).is_err());
        assert!(compare(&f(&[f32::INFINITY]), &f(&[1.0]), SUITE).is_err());
        assert!(compare(&f(&[f32::INFINITY]), &f(&[f32::NEG_INFINITY]), SUITE).is_err());
        assert!(
            compare(&f(&[1.0]), &f(&[1.0, 2.0]), SUITE)
                .unwrap_err()
                .contains("shape")
        );
        assert!(
            compare(&Literal::i64s(&[1]), &f(&[1.0]), SUITE)
                .unwrap_err()
                .contains("data type")
        );
        assert!(compare(&Literal::i64s(&[1]), &Literal::i64s(&[2]), SUITE).is_err());
    }

    #[test]
    fn cosines_and_answers() {
        assert!((cosine(&f(&[1.0, 2.0]), &f(&[2.0, 4.0])) - 1.0).abs() < 1e-12);
        assert_eq!(cosine(&f(&[1.0, 0.0]), &f(&[0.0, 3.0])), 0.0);
        assert_eq!(cosine(&f(&[0.0]), &f(&[1.0])), 0.0);
        assert_eq!(cosine(&f(&[1.0]), &f(&[1.0, 1.0])), 0.0);
        assert!(cosine(&f(&[f32::NAN]), &f(&[1.0])).is_nan());
        assert_eq!(top(&f(&[0.5, 2.0, -3.0])), Some(1));
        assert_eq!(top(&f(&[])), None);
    }

    #[test]
    fn the_largest_value_sets_the_scale() {
        let (a, b) = (f(&[1000.0, 0.05]), f(&[1000.0, 0.0]));
        assert!(compare(&a, &b, Tolerance::OfLargest(1e-4)).is_ok());
        assert!(compare(&a, &b, Tolerance::OfLargest(1e-5)).is_err());
        assert!((deviation(&a, &b) - 5e-5).abs() < 1e-9);
    }
}
