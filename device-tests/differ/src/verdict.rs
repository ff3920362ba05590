//! Outcome of a graph on both sides, and the kind of difference.
//!
//! Invariant: shapes, types and integers are compared exactly, floats within the error of reordered sums.

use polychip_device_tests::compare::{Tolerance, compare};
use polychip_ops::{DType, Literal};
use serde::Serialize;

use crate::peer::Tensors;

/// How two results differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    /// Data types, shapes or names of outputs.
    Shape,
    /// One is NaN and the other none.
    Nan,
    /// One is infinite and the other another number.
    Infinity,
    /// Finite numbers that are too far apart.
    Values,
    /// We do not run it.
    Refused,
    /// We panicked.
    Panic,
    /// Several devices do not run what the CPU alone does.
    Split,
}

impl What {
    pub(crate) fn name(self) -> &'static str {
        match self {
            What::Shape => "shape",
            What::Nan => "nan",
            What::Infinity => "infinity",
            What::Values => "values",
            What::Refused => "refused",
            What::Panic => "panic",
            What::Split => "split",
        }
    }
}

/// A difference, and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) what: What,
    pub(crate) words: String,
}

const NOISE: Tolerance = Tolerance::Elementwise {
    relative: 0.0,
    absolute: 5e-7,
};

/// How far values of a node may be apart, as a share of the largest.
pub(crate) fn relative(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-6,
        DType::F16 => 2e-3,
        _ => 1e-4,
    }
}

/// How our outputs differ from those wanted, where they do.
pub(crate) fn difference(found: &Tensors, wanted: &Tensors) -> Option<Difference> {
    if !found.keys().eq(wanted.keys()) {
        return Some(Difference {
            what: What::Shape,
            words: format!("outputs {:?} instead of {:?}", found.keys(), wanted.keys()),
        });
    }
    found
        .iter()
        .zip(wanted.values())
        .find_map(|((name, found), wanted)| {
            let words = compare(found, wanted, Tolerance::OfLargest(relative(wanted.dtype))).err()?;
            // what rounding leaves of sums of about one that are about zero
            if found.dtype.is_float() && compare(found, wanted, NOISE).is_ok() {
                return None;
            }
            Some(Difference {
                what: kind(found, wanted),
                words: format!("output {name:?}: {words}"),
            })
        })
}

fn kind(found: &Literal, wanted: &Literal) -> What {
    if found.dtype != wanted.dtype || found.shape != wanted.shape {
        return What::Shape;
    }
    let (Some(a), Some(b)) = (found.as_f64s(), wanted.as_f64s()) else {
        return What::Values;
    };
    let any = |differs: fn(f64, f64) -> bool| a.iter().zip(&b).any(|(&a, &b)| differs(a, b));
    if any(|a, b| a.is_nan() != b.is_nan()) {
        What::Nan
    } else if any(|a, b| (a.is_infinite() || b.is_infinite()) && a != b && !a.is_nan()) {
        What::Infinity
    } else {
        What::Values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(values: &[f32]) -> Tensors {
        Tensors::from([("y".to_owned(), Literal::f32s(values))])
    }

    #[test]
    fn differences_are_told_apart() {
        let what = |a: &[f32], b: &[f32]| difference(&one(a), &one(b)).map(|found| found.what);
        assert_eq!(what(&[1.0, f32::NAN], &[1.000_01, f32::NAN]), None);
        assert_eq!(what(&[1.0], &[1.1]), Some(What::Values));
        assert_eq!(what(&[f32::NAN], &[1.0]), Some(What::Nan));
        assert_eq!(what(&[f32::INFINITY], &[f32::MAX]), Some(What::Infinity));
        assert_eq!(what(&[1.0, 2.0], &[1.0]), Some(What::Shape));
        assert!(difference(&one(&[1.0]), &Tensors::new()).is_some());
        let integers = |value| Tensors::from([("y".to_owned(), Literal::i64s(&[value]))]);
        // too close for a float to tell
        let apart = difference(&integers(1 << 60), &integers((1 << 60) + 1)).unwrap();
        assert_eq!(apart.what, What::Values);
    }
}
