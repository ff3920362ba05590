//! Fits two factors to the times of small networks by least squares of relative errors. Both are
//! pulled toward the single factor that fits all networks best.

use polychip_partitioner::Time;

use crate::cost_model::Calibration;

/// Stated and measured time of a network, without the launch, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observed {
    /// Stated time of nodes that compute.
    pub(super) compute: f64,
    /// Stated time of all other nodes.
    pub(super) traffic: f64,
    /// Measured time.
    pub(super) took: f64,
}

/// Weight, per network, of the pull of each factor toward the common one. A few noisy networks do not show well how the two
/// factors differ.
const PRIOR: f64 = 0.05;
/// Largest ratio between a factor and the common one.
const SPREAD: f64 = 4.0;

/// The factors that fit best; `None` without usable observations.
pub(super) fn fit(observed: &[Observed], launch: Time) -> Option<Calibration> {
    let usable = |one: &&Observed| one.took > 0.0 && one.compute + one.traffic > 0.0;
    let usable: Vec<&Observed> = observed.iter().filter(usable).collect();
    if usable.is_empty() {
        return None;
    }
    let count = usable.len() as f64;
    let logs = usable
        .iter()
        .map(|one| (one.took / (one.compute + one.traffic)).ln());
    let common = (logs.sum::<f64>() / count).exp();
    // in units of the common factor: (a·compute + b·traffic − took)² over took², and PRIOR·(a − 1)², PRIOR·(b − 1)²
    let prior = PRIOR * count;
    let (mut aa, mut ab, mut bb) = (prior, 0.0, prior);
    let (mut a_took, mut b_took) = (prior, prior);
    for one in usable {
        let (compute, traffic) = (common * one.compute / one.took, common * one.traffic / one.took);
        aa += compute * compute;
        ab += compute * traffic;
        bb += traffic * traffic;
        a_took += compute;
        b_took += traffic;
    }
    let determinant = aa * bb - ab * ab;
    let within = |factor: f64| common * factor.clamp(1.0 / SPREAD, SPREAD);
    Some(Calibration {
        compute: within((a_took * bb - b_took * ab) / determinant),
        traffic: within((b_took * aa - a_took * ab) / determinant),
        launch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(compute: f64, traffic: f64, took: f64) -> Observed {
        Observed {
            compute,
            traffic,
            took,
        }
    }

    fn factors(observed: &[Observed]) -> (f64, f64) {
        let fitted = fit(observed, Time::ZERO).unwrap();
        (fitted.compute, fitted.traffic)
    }

    #[test]
    fn common_factor_is_found() {
        let of = |compute: f64, traffic: f64| observed(compute, traffic, 0.25 * (compute + traffic));
        let (compute, traffic) = factors(&[of(900.0, 100.0), of(400.0, 600.0), of(10.0, 90.0)]);
        assert!((compute - 0.25).abs() < 1e-9 && (traffic - 0.25).abs() < 1e-9);
        let (compute, traffic) = factors(&[of(900.0, 0.0)]);
        assert!((compute - 0.25).abs() < 1e-9 && (traffic - 0.25).abs() < 1e-9);
    }

    #[test]
    fn two_factors_are_separated_by_different_networks() {
        let of = |compute: f64, traffic: f64| observed(compute, traffic, 0.5 * compute + 2.0 * traffic);
        let (compute, traffic) = factors(&[of(900.0, 100.0), of(500.0, 500.0), of(100.0, 900.0)]);
        assert!((0.45..0.65).contains(&compute), "{compute}");
        assert!((1.6..2.1).contains(&traffic), "{traffic}");
    }

    #[test]
    fn factors_stay_near_the_common_one() {
        let (compute, traffic) = factors(&[observed(1_000.0, 1.0, 100.0), observed(1.0, 1_000.0, 100_000.0)]);
        assert!(compute > 0.0 && traffic / compute <= SPREAD * SPREAD + 1e-9);
        assert_eq!(fit(&[observed(1.0, 1.0, 0.0)], Time::ZERO), None);
        assert_eq!(fit(&[], Time::ZERO), None);
    }
}
