//! The scale of an axis that starts at 0, with a readable end and readable marks.
//!
//! Invariant: the end is at or above every value, and each mark is exact in the shown digits.

/// An axis from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// The end in units of ten to the power of `exponent`: 1, 2, 4, 5 or 10.
    mantissa: u32,
    exponent: i32,
}

impl Scale {
    /// The shortest scale that holds this value.
    pub(super) fn up_to(most: f64) -> Scale {
        if !(most.is_finite() && most > 0.0) {
            return Scale {
                mantissa: 1,
                exponent: 0,
            };
        }
        let exponent = most.log10().floor() as i32;
        let unit = 10_f64.powi(exponent);
        let fits = |mantissa: &u32| f64::from(*mantissa) * unit >= most;
        Scale {
            mantissa: [1, 2, 4, 5].into_iter().find(fits).unwrap_or(10),
            exponent,
        }
    }

    /// The end.
    pub(super) fn top(self) -> f64 {
        f64::from(self.mantissa) * 10_f64.powi(self.exponent)
    }

    /// 0, the middle and the end.
    pub(super) fn marks(self) -> [String; 3] {
        // half of an odd number has a digit more
        let digits = usize::try_from(1 - self.exponent).unwrap_or(0);
        let mark = |share: f64| {
            let text = format!("{:.digits$}", self.top() * share);
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        };
        [0.0, 0.5, 1.0].map(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_ends_are_round_and_include_the_value() {
        for (most, marks) in [
            (380.0, ["0", "200", "400"]),
            (34.9, ["0", "20", "40"]),
            (1.0, ["0", "0.5", "1"]),
            (0.042, ["0", "0.025", "0.05"]),
            (7.2, ["0", "5", "10"]),
            (1e6, ["0", "500000", "1000000"]),
            (0.0, ["0", "0.5", "1"]),
            (f64::NAN, ["0", "0.5", "1"]),
        ] {
            let scale = Scale::up_to(most);
            assert_eq!(scale.marks(), marks, "{most}");
            assert!(most.is_nan() || scale.top() >= most, "{most}");
        }
    }
}
