//! Tests paired log ratios; the result is faster, slower, equal or undecided.

/// Pairs after which an arm that is not faster beyond doubt is dropped.
const MOST: usize = 12;
/// Lower bound of the standard deviation of a log ratio: timers and schedulers are no more exact.
const LEAST_DEVIATION: f64 = 0.01;
/// Log ratio by which an arm must be faster to be worth a change of plan.
const WORTH: f64 = 0.005;
/// Log ratio that decides if all pairs, at least two, exceed it in the same direction.
const OBVIOUS: f64 = 0.25;
/// Log ratio by which a single pair shows that the arm is faster: a third of the time.
const GLARING: f64 = 1.1;
/// Log ratio by which a single pair shows that the arm is slower: 1.5 times as long.
const HOPELESS: f64 = 0.405;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Open,
    Faster,
    Slower,
    Alike,
}

/// The verdict on pairs, and their trimmed mean.
pub(super) fn verdict(pairs: &[f64]) -> (Verdict, f64) {
    let mut sorted = pairs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let trim = sorted.len() / 6;
    let kept = &sorted[trim..sorted.len() - trim];
    let count = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / count.max(1.0);
    if kept.len() < 2 {
        if mean < -GLARING {
            return (Verdict::Faster, mean);
        }
        if mean > HOPELESS {
            return (Verdict::Slower, mean);
        }
        return (Verdict::Open, mean);
    }
    if pairs.iter().all(|&pair| pair < -OBVIOUS) {
        return (Verdict::Faster, mean);
    }
    if pairs.iter().all(|&pair| pair > OBVIOUS) {
        return (Verdict::Slower, mean);
    }
    let squares: f64 = kept.iter().map(|pair| (pair - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt().max(LEAST_DEVIATION);
    let error = wide(kept.len()) * deviation / count.sqrt();
    let verdict = if pairs.len() >= 4 && mean + error < -WORTH {
        Verdict::Faster
    } else if mean - error > 0.0 {
        Verdict::Slower
    } else if pairs.len() >= MOST {
        Verdict::Alike
    } else {
        Verdict::Open
    };
    (verdict, mean)
}

/// Student's two-sided 95 % factor for this many values.
fn wide(count: usize) -> f64 {
    match count {
        0..=2 => 12.7,
        3 => 4.3,
        4 => 3.2,
        5 => 2.8,
        6 => 2.6,
        7 => 2.4,
        8..=9 => 2.3,
        _ => 2.2,
    }
}

/// Maximum number of values of a [`median`].
pub(super) const MEDIAN_OF: usize = 16;

/// The median of at most [`MEDIAN_OF`] values, without allocation, because it is computed after each run.
/// `polychip_profile::median` is the same for values in memory; the governor depends on no other crate.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted = [f64::INFINITY; MEDIAN_OF];
    let mut count = 0;
    for (slot, value) in sorted.iter_mut().zip(values) {
        *slot = value;
        count += 1;
    }
    if count == 0 {
        return 0.0;
    }
    sorted[..count].sort_unstable_by(f64::total_cmp);
    sorted[count / 2]
}

/// Standard deviation of the logarithms of times.
pub(super) fn log_deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let logs = values.map(|value| value.max(1.0).ln());
    let count = logs.clone().count().max(2) as f64;
    let mean = logs.clone().sum::<f64>() / count;
    let squares: f64 = logs.map(|log| (log - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}
