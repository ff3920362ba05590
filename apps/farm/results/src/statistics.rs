//! The statistics of a comparison: trimmed means of differences, drift, and false discoveries.
//!
//! - The mean of differences is trimmed by a fifth at each end, with the interval and test of Tukey and McLaughlin
//!   (1963; Wilcox, Introduction to Robust Estimation and Hypothesis Testing, section 4.3): the variance is that of
//!   the winsorized values. A pair with another clock mode costs one difference, not the result.
//! - Drift is the slope of Theil and Sen (Sen 1968): the median of the slopes between any two values.
//! - Of many comparisons some differ by chance: Benjamini and Hochberg (1995) bound their share among the reported
//!   differences.
//!
//! Invariant: pure arithmetic in a fixed order.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share that is trimmed at each end.
const TRIMMED: f64 = 0.2;

/// Fewest differences that say something: with five, three are left and the interval is that of two degrees of freedom.
pub(crate) const FEWEST: usize = 6;

/// What differences say of their middle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Ends of the interval of 95 %.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Probability of a mean this far from none, or farther, where there is no difference.
    pub(crate) p: f64,
}

impl Estimate {
    /// Of how many differences the interval would reach no farther than this to either side, where so many gave this one.
    pub(crate) fn differences_for(&self, given: usize, reach: f64) -> f64 {
        // an interval narrows with the square root of their number
        let times = (self.high - self.low) / 2.0 / reach;
        given as f64 * times * times
    }
}

/// The middle of differences; none for fewer than [`FEWEST`].
pub(crate) fn estimate(differences: &[f64]) -> Option<Estimate> {
    let n = differences.len();
    if n < FEWEST {
        return None;
    }
    let mut sorted = differences.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let cut = (TRIMMED * n as f64).floor() as usize;
    let kept = &sorted[cut..n - cut];
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let winsorized = || {
        let values = sorted.iter();
        values.map(|value| value.clamp(kept[0], kept[kept.len() - 1]))
    };
    let middle = winsorized().sum::<f64>() / n as f64;
    let squares = winsorized().map(|value| (value - middle).powi(2)).sum::<f64>();
    let deviation = (squares / (n - 1) as f64).sqrt();
    let error = deviation / ((1.0 - 2.0 * TRIMMED) * (n as f64).sqrt());
    if error <= 0.0 {
        // times without any spread, as on virtual time: what differs, differs
        let p = if mean == 0.0 { 1.0 } else { 0.0 };
        let (low, high) = (mean, mean);
        return Some(Estimate { mean, low, high, p });
    }
    let student = StudentsT::new(0.0, 1.0, (kept.len() - 1) as f64).ok()?;
    let p = 2.0 * student.sf((mean / error).abs());
    let reach = student.inverse_cdf(0.975) * error;
    Some(Estimate {
        mean,
        low: mean - reach,
        high: mean + reach,
        p: p.min(1.0),
    })
}

/// The median slope between any two points of one series that are no farther apart than `within`, over all series; none
/// where no two are.
pub(crate) fn slope(series: &[Vec<(f64, f64)>], within: f64) -> Option<f64> {
    let mut slopes = Vec::new();
    for points in series {
        for (index, (t, x)) in points.iter().enumerate() {
            let later = points[index + 1..].iter();
            let later = later.filter(|(later, _)| later != t && (later - t).abs() <= within);
            slopes.extend(later.map(|(later, y)| (y - x) / (later - t)));
        }
    }
    median(&mut slopes)
}

/// The middle value, or the mean of both; none of nothing. `polychip_profile::median` gives a measured value instead.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// For each probability the smallest share of false discoveries at which it counts as one, in the order given.
pub(crate) fn false_discovery(probabilities: &[f64]) -> Vec<f64> {
    let n = probabilities.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut adjusted = vec![1.0; n];
    let mut least = 1.0_f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        least = least.min(probabilities[index] * n as f64 / (rank + 1) as f64);
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn halving_the_interval_needs_four_times_the_samples() {
        let (mean, p) = (0.01, 0.2);
        let (low, high) = (mean - 0.04, mean + 0.04);
        let estimate = Estimate { mean, low, high, p };
        assert!(close(estimate.differences_for(6, 0.04), 6.0));
        assert!(close(estimate.differences_for(6, 0.02), 24.0));
    }

    #[test]
    fn trimmed_mean_matches_the_formula() {
        // ten values: two are cut at each end, the winsorized ones are 3,3,3,4,5,6,7,8,8,8
        let values = [10.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 90.0];
        let found = estimate(&values).unwrap();
        assert!(close(found.mean, 5.5), "{found:?}");
        let squares = 2.0 * (3.0 * 2.5_f64.powi(2) + 1.5_f64.powi(2) + 0.5_f64.powi(2));
        let error = (squares / 9.0).sqrt() / (0.6 * 10.0_f64.sqrt());
        // Student's 97.5 % quantile of five degrees of freedom
        assert!((found.high - 5.5 - 2.570_582 * error).abs() < 1e-5, "{found:?}");
        assert!(close(found.low + found.high, 11.0));
        assert!(found.p < 0.01);
        assert_eq!(estimate(&values[..5]), None);
    }

    #[test]
    fn single_outlier_has_no_effect() {
        let calm: Vec<f64> = (0..10).map(|at| f64::from(at) * 0.01).collect();
        let mut wild = calm.clone();
        wild[9] = 1e6;
        assert_eq!(estimate(&calm), estimate(&wild));
    }

    #[test]
    fn values_without_spread_are_certain() {
        assert_eq!(estimate(&[0.0; 8]).unwrap().p, 1.0);
        assert!(estimate(&[0.05; 8]).unwrap().p < 1e-9);
    }

    #[test]
    fn slope_ignores_outliers_and_steps_between_series() {
        let line = |from: f64| -> Vec<(f64, f64)> {
            (0..9)
                .map(|t| (f64::from(t), from + 0.5 * f64::from(t)))
                .collect()
        };
        let mut first = line(0.0);
        first[4].1 = 1e3;
        assert!(close(slope(&[first, line(100.0)], 100.0).unwrap(), 0.5));
        assert_eq!(slope(&[vec![(1.0, 2.0), (1.0, 3.0)]], 100.0), None);
        // what lies between two nights is no drift
        let nights = vec![(0.0, 0.0), (1.0, 0.5), (100.0, 9.0), (101.0, 9.5)];
        assert!(close(slope(&[nights], 50.0).unwrap(), 0.5));
    }

    #[test]
    fn false_discovery_adjustment_matches_the_paper() {
        // the example of Benjamini and Hochberg (1995), table 1: at 5 % the first four count
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let adjusted = false_discovery(&p);
        assert_eq!(adjusted.iter().filter(|q| **q <= 0.05).count(), 4);
        assert!(close(adjusted[0], 0.0015) && close(adjusted[14], 1.0));
        // the order does not matter, and none of nothing
        let reversed: Vec<f64> = p.iter().rev().copied().collect();
        let mut back = false_discovery(&reversed);
        back.reverse();
        assert_eq!(adjusted, back);
        assert!(false_discovery(&[]).is_empty());
    }
}
