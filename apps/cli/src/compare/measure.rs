//! Distance between the values of two tensors.
//!
//! Invariants:
//! 1. Equal elements, equal infinities and pairs of NaN are no error.
//! 2. An element that is NaN on one side only, or a different infinity, exceeds every limit.

/// How far one tensor is from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Error {
    /// Cosine of the angle between the two, as rows of numbers.
    pub(super) cosine: f64,
    /// Signal-to-noise ratio in decibels: the squares of the first side over those of the error; infinite without an error.
    pub(super) snr_db: f64,
    /// Largest absolute error.
    pub(super) absolute: f64,
    /// The same over the largest value of the first side; infinite where that is zero and the error is not.
    pub(super) relative: f64,
    /// Elements that are no finite number, on each side.
    pub(super) not_finite: [u64; 2],
    /// Unequal elements that are not finite on both sides.
    pub(super) broken: u64,
}

impl Error {
    /// Of as many values of either side.
    pub(super) fn of(a: &[f64], b: &[f64]) -> Error {
        let (mut product, mut square_a, mut square_b, mut noise) = (0.0, 0.0, 0.0, 0.0);
        let (mut absolute, mut largest) = (0.0f64, 0.0f64);
        let (mut not_finite, mut broken) = ([0, 0], 0);
        for (&a, &b) in a.iter().zip(b) {
            not_finite[0] += u64::from(!a.is_finite());
            not_finite[1] += u64::from(!b.is_finite());
            if !a.is_finite() || !b.is_finite() {
                broken += u64::from(a != b && !(a.is_nan() && b.is_nan()));
                continue;
            }
            product += a * b;
            square_a += a * a;
            square_b += b * b;
            noise += (a - b) * (a - b);
            absolute = absolute.max((a - b).abs());
            largest = largest.max(a.abs());
        }
        let lengths = (square_a * square_b).sqrt();
        let cosine = match (noise == 0.0, lengths == 0.0) {
            (true, _) => 1.0,
            (false, true) => 0.0,
            (false, false) => (product / lengths).clamp(-1.0, 1.0),
        };
        Error {
            cosine,
            snr_db: if noise == 0.0 {
                f64::INFINITY
            } else {
                10.0 * (square_a / noise).log10()
            },
            absolute,
            relative: if absolute == 0.0 { 0.0 } else { absolute / largest },
            not_finite,
            broken,
        }
    }
}

/// Limits of an error.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Limits {
    /// Largest absolute error over the largest value.
    pub(super) most_relative: Option<f64>,
    /// Least cosine.
    pub(super) least_cosine: Option<f64>,
    /// Least signal-to-noise ratio in decibels.
    pub(super) least_snr_db: Option<f64>,
}

impl Limits {
    /// Whether an error is beyond one of them.
    pub(super) fn are_exceeded_by(&self, error: &Error) -> bool {
        let above = |limit: Option<f64>, value: f64| limit.is_some_and(|limit| value > limit);
        let below = |limit: Option<f64>, value: f64| limit.is_some_and(|limit| value < limit);
        error.broken > 0
            || above(self.most_relative, error.relative)
            || below(self.least_cosine, error.cosine)
            || below(self.least_snr_db, error.snr_db)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_match_hand_computed_values() {
        let error = Error::of(&[3.0, -4.0], &[3.0, -3.0]);
        // 21 / (5 · √18), 10 · log10(25 / 1)
        assert!((error.cosine - 21.0 / (5.0 * 18.0f64.sqrt())).abs() < 1e-15);
        assert!((error.snr_db - 10.0 * 25.0f64.log10()).abs() < 1e-12);
        assert_eq!((error.absolute, error.relative, error.broken), (1.0, 0.25, 0));
        let same = Error::of(&[0.0, 2.0], &[0.0, 2.0]);
        assert_eq!((same.cosine, same.absolute, same.relative), (1.0, 0.0, 0.0));
        assert!(same.snr_db.is_infinite());
        let nothing = Error::of(&[0.0], &[0.5]);
        assert_eq!((nothing.cosine, nothing.absolute), (0.0, 0.5));
        assert!(nothing.relative.is_infinite() && nothing.snr_db == f64::NEG_INFINITY);
        assert_eq!(Error::of(&[], &[]).relative, 0.0);
    }

    #[test]
    fn nan_on_one_side_only_is_broken() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let error = Error::of(&[inf, nan, -inf, 1.0, 2.0], &[inf, nan, -inf, 1.0, 2.0]);
        assert_eq!((error.broken, error.not_finite, error.relative), (0, [3, 3], 0.0));
        let error = Error::of(&[inf, nan, 1.0, inf, 2.0], &[-inf, 1.0, inf, nan, 2.0]);
        assert_eq!((error.broken, error.not_finite), (4, [3, 3]));
        assert!(Limits::default().are_exceeded_by(&error));
    }

    #[test]
    fn each_limit_is_one() {
        let error = Error::of(&[3.0, -4.0], &[3.0, -3.0]);
        let relative = |most| Limits {
            most_relative: Some(most),
            ..Limits::default()
        };
        let cosine = |least| Limits {
            least_cosine: Some(least),
            ..Limits::default()
        };
        let snr = |least| Limits {
            least_snr_db: Some(least),
            ..Limits::default()
        };
        let is_beyond = |limits: Limits| limits.are_exceeded_by(&error);
        assert!(!is_beyond(relative(0.25)) && is_beyond(relative(0.24)));
        assert!(!is_beyond(cosine(0.98)) && is_beyond(cosine(0.99)));
        assert!(!is_beyond(snr(13.9)) && is_beyond(snr(14.0)));
        assert!(!is_beyond(Limits::default()));
    }
}
