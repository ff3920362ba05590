//! Statistics of single measurements: percentiles, and a distribution-free interval of the median.
//!
//! The interval is that of order statistics (David and Nagaraja, Order Statistics, 3rd edition,
//! section 7.1): the median of any distribution lies between the l-th smallest and the l-th largest
//! of n independent values with the probability that n throws of a fair coin show between l and n -
//! l heads. Times of neighbouring runs are not quite independent, so the interval is somewhat too
//! narrow on a machine whose speed drifts.
//!
//! Invariant: percentiles and ends of intervals are measured values; none is interpolated.

use std::cmp::Ordering;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::cadence::Cadence;
use crate::conditions::{self, Conditions, choose};

/// Chance, in both tails together, that the median is outside of the interval.
const OUTSIDE: f64 = 0.05;

/// A confidence interval of a median.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Interval {
    /// Lower end, in nanoseconds.
    pub low_ns: u64,
    /// Upper end, in nanoseconds.
    pub high_ns: u64,
}

impl Interval {
    /// Half of the width relative to the middle.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        let (low, high) = (self.low_ns as f64, self.high_ns as f64);
        (high - low) / (high + low).max(1.0)
    }

    /// Whether this lies entirely below the other.
    #[must_use]
    pub fn is_below(&self, other: &Interval) -> bool {
        self.high_ns < other.low_ns
    }
}

/// The median, sorting the values by `order`: of an even number of values the larger of the two in
/// the middle; `None` for no values.
///
/// ```
/// assert_eq!(polychip_profile::median(&mut [4, 1, 3, 2], u64::cmp), Some(3));
/// assert_eq!(polychip_profile::median(&mut [], f64::total_cmp), None);
/// ```
pub fn median<T: Copy>(values: &mut [T], order: impl Fn(&T, &T) -> Ordering) -> Option<T> {
    values.sort_unstable_by(order);
    values.get(values.len() / 2).copied()
}

/// The percentile of sorted values by nearest rank: the least value that at least `percent` in a hundred do not exceed;
/// the least of all for 0, `None` for no values.
///
/// ```
/// use polychip_profile::percentile;
///
/// assert_eq!([0, 50, 51, 100].map(|percent| percentile(&[1, 2, 3, 4], percent)), [1, 2, 3, 4].map(Some));
/// assert_eq!(percentile::<u64>(&[], 50), None);
/// ```
#[must_use]
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// The interval that holds the median with a confidence of at least 95 %, from sorted values in
/// nanoseconds; `None` for fewer than six values.
///
/// ```
/// let interval = polychip_profile::median_interval(&[1, 2, 3, 4, 5, 9]).unwrap();
/// assert_eq!((interval.low_ns, interval.high_ns), (1, 9));
/// ```
#[must_use]
pub fn median_interval(sorted: &[u64]) -> Option<Interval> {
    let n = sorted.len();
    // the probability of no head in n throws, as a logarithm, because 2^-n underflows for large n
    let mut term = -(n as f64) * std::f64::consts::LN_2;
    let (mut tail, mut rank) = (0.0, 0);
    // the largest number of heads such that this many or fewer are unlikely
    for heads in 0..n / 2 {
        tail += 2.0 * term.exp();
        if tail > OUTSIDE {
            break;
        }
        rank = heads + 1;
        term += ((n - heads) as f64).ln() - ((heads + 1) as f64).ln();
    }
    let low = rank.checked_sub(1)?;
    Some(Interval {
        low_ns: sorted[low],
        high_ns: sorted[n - 1 - low],
    })
}

/// Factor by which the time of another cadence may be off in either direction: ResNet-50 on an H100 takes up to 4.2 times as
/// long at 10 to 30 frames a second as back to back.
const OTHER_CADENCE: u64 = 4;

/// A batch of measurements of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) conditions: Conditions,
    pub(crate) recorded_us: u64,
    pub(crate) times_ns: Vec<u64>,
    /// Energies of the measurements that have one.
    pub(crate) energies_uj: Vec<u64>,
    pub(crate) sensor: String,
    pub(crate) energy_interval_uj: Option<[u64; 2]>,
}

impl Measured {
    /// Its conditions, as seen by a plan for the cadence of `now`. Back-to-back runs that take longer than the plan's period
    /// count as runs at that period, at which the device would be busy all the time.
    pub(crate) fn conditions_for(&self, now: &Conditions) -> Conditions {
        let cadence = effective(now.cadence, self.conditions.cadence, &self.times_ns);
        Conditions {
            cadence,
            ..self.conditions.clone()
        }
    }
}

/// The cadence that runs of these times count for, if a cadence is requested.
pub(crate) fn effective(
    asked: Option<Cadence>,
    stated: Option<Cadence>,
    times_ns: &[u64],
) -> Option<Cadence> {
    if stated.unwrap_or_default() != Cadence::BackToBack {
        return stated;
    }
    let asked = asked.filter(|asked| *asked != Cadence::BackToBack);
    let is_busy = |asked: &Cadence| {
        median(&mut times_ns.to_vec(), u64::cmp).is_some_and(|median| {
            let took = Duration::from_nanos(median);
            let gap = asked.shortest_period().saturating_sub(took);
            Cadence::of_run(gap, took) == Cadence::BackToBack
        })
    };
    asked.filter(is_busy).or(stated)
}

/// The energy of a run, with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MeasuredEnergy {
    /// Median of the stored energies in microjoules.
    pub energy_uj: u64,
    /// The sensor; empty if unknown.
    pub sensor: String,
    /// 95 % confidence interval in microjoules, if measured.
    pub interval_uj: Option<[u64; 2]>,
}

/// Statistics of the selected batches of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Chosen measurements, and their percentiles in nanoseconds.
    pub(crate) samples: usize,
    pub(crate) p10_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    /// Rounded up to a measured time: the longest if there are fewer than a hundred.
    pub(crate) p99_ns: u64,
    pub(crate) interval: Option<Interval>,
    /// Median energy of the batches selected among those with energies.
    pub(crate) energy: Option<MeasuredEnergy>,
    pub(crate) newest_us: u64,
    pub(crate) batches: usize,
    pub(crate) conditions: String,
    pub(crate) agrees: bool,
    /// The cadence of the batches; `None` if they state none.
    pub(crate) cadence: Option<Cadence>,
    /// Whether it differs from the requested one, which widens the interval.
    pub(crate) inherited: bool,
}

/// Statistics of the batches whose conditions are nearest to `now`; `None` without measurements.
pub(crate) fn figures(now: &Conditions, all: &[Measured]) -> Option<Figures> {
    let counted = |count: &dyn Fn(&Measured) -> usize| -> Vec<(Conditions, usize)> {
        all.iter()
            .filter(|batch| count(batch) > 0)
            .map(|batch| (batch.conditions_for(now), count(batch)))
            .collect()
    };
    let timed: Vec<&Measured> = all.iter().filter(|batch| !batch.times_ns.is_empty()).collect();
    let choice = choose(now, &counted(&|batch| batch.times_ns.len()));
    let chosen: Vec<&Measured> = choice.places.iter().map(|place| timed[*place]).collect();
    let mut times: Vec<u64> = chosen
        .iter()
        .flat_map(|batch| batch.times_ns.iter().copied())
        .collect();
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    let at = |permille: usize| times[last * permille / 1000];
    let with_energy: Vec<&Measured> = all.iter().filter(|batch| !batch.energies_uj.is_empty()).collect();
    let of_energy = choose(now, &counted(&|batch| batch.energies_uj.len()));
    let energies = of_energy.places.iter().map(|place| with_energy[*place]);
    let mut energies: Vec<(u64, &Measured)> = energies
        .flat_map(|batch| batch.energies_uj.iter().map(move |energy| (*energy, batch)))
        .collect();
    energies.sort_by_key(|(energy, _)| *energy);
    let energy = energies
        .get(energies.len() / 2)
        .map(|(energy, batch)| MeasuredEnergy {
            energy_uj: *energy,
            sensor: batch.sensor.clone(),
            interval_uj: batch.energy_interval_uj,
        });
    let inherited = !choice.of_cadence;
    let interval = if inherited {
        Some(Interval {
            low_ns: at(100) / OTHER_CADENCE,
            high_ns: at(900).saturating_mul(OTHER_CADENCE),
        })
    } else {
        median_interval(&times)
    };
    Some(Figures {
        samples: times.len(),
        p10_ns: at(100),
        p50_ns: at(500),
        p90_ns: at(900),
        p99_ns: times[(last * 990).div_ceil(1_000)],
        interval,
        energy,
        newest_us: chosen.iter().map(|batch| batch.recorded_us).max().unwrap_or(0),
        batches: chosen.len(),
        conditions: conditions::together(chosen.iter().map(|batch| &batch.conditions)),
        agrees: choice.agrees,
        cadence: chosen.first().and_then(|batch| batch.conditions.cadence),
        inherited,
    })
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// Ranks counted from one, as tables print them.
    fn ranks(n: u64) -> Option<(u64, u64)> {
        let values: Vec<u64> = (1..=n).collect();
        median_interval(&values).map(|interval| (interval.low_ns, interval.high_ns))
    }

    #[test]
    fn ranks_match_published_tables() {
        // the 2.5 % quantiles of the binomial distribution of n throws, computed in exact fractions
        for (n, low) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (10, 2),
            (20, 6),
            (25, 8),
            (50, 18),
            (100, 40),
            (101, 41),
        ] {
            assert_eq!(ranks(n), Some((low, n + 1 - low)), "{n}");
        }
        for n in 0..6 {
            assert_eq!(ranks(n), None, "{n}");
        }
    }

    #[test]
    fn interval_covers_the_median_as_stated() {
        // a skewed distribution whose median is known: squares of uniform numbers from 0 to 999
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut uniform = || random.next_u64() % 1_000;
        let mut held = 0;
        for _ in 0..2_000 {
            let mut values: Vec<u64> = (0..25).map(|_| uniform().pow(2)).collect();
            values.sort_unstable();
            let interval = median_interval(&values).unwrap();
            held += u32::from(interval.low_ns <= 500 * 500 && 499 * 499 <= interval.high_ns);
        }
        assert!(held >= 1_900, "{held} of 2000");
    }
}
