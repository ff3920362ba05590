//! Slowdowns that need no statistics: every single run of NEW takes a multiple of BASE's time.
//!
//! Noise and load make runs longer, never shorter, and among many runs some are hardly disturbed. Where the fastest run of
//! NEW still takes more than twice as long as half of BASE's runs, beyond what the load by other programs explains, it
//! is slower, however few the pairs are.

use polychip_farm_record::{Record, State};

use super::comparable::{apart_in_place, throttled};
use crate::batch::{batch_median, measured};
use crate::statistics;

/// Smallest factor between BASE's median and NEW's fastest run.
const FACTOR: f64 = 2.0;
/// Fewest runs of either side: of fewer, all may have been disturbed.
const FEWEST: usize = 10;
/// Smallest factor in every one of at least [`ROUNDS`] pairs: more than chips' clock modes differ by (a fifth).
const FACTOR_OF_ROUNDS: f64 = 1.25;
/// Fewest pairs that all have to agree on it.
const ROUNDS: usize = 3;

/// Why an item is slower beyond doubt; none where pairs have to decide.
pub(super) fn beyond_doubt(base: &[&Record], new: &[&Record], differences: &[f64]) -> Option<String> {
    if differences.len() >= ROUNDS {
        let least = differences.iter().copied().fold(f64::INFINITY, f64::min).exp();
        if least >= FACTOR_OF_ROUNDS {
            return Some(format!(
                "in each of {} pairs it took at least {least:.2} times as long",
                differences.len()
            ));
        }
    }
    let mut places: Vec<&str> = new.iter().map(|record| record.place.name.as_str()).collect();
    places.sort_unstable();
    places.dedup();
    let mut found: Option<f64> = None;
    for place in places {
        // where boards disagree, it is not beyond doubt
        match factor(base, new, place) {
            None => {}
            Some(factor) if factor >= 1.0 => found = Some(found.map_or(factor, |least| least.min(factor))),
            Some(_) => return None,
        }
    }
    let factor = found? * FACTOR;
    Some(format!(
        "each run takes at least {factor:.1} times as long as BASE's median, after allowing for other programs"
    ))
}

/// By how much NEW's fastest run on a board is above the factor that needs no pairs; none where the board's batches
/// cannot be compared so.
fn factor(base: &[&Record], new: &[&Record], place: &str) -> Option<f64> {
    let of_place = |records: &[&'_ Record]| -> Vec<usize> {
        let here = records.iter().enumerate();
        let here = here.filter(|(_, record)| {
            record.place.name == place && batch_median(record).is_some() && !throttled(record)
        });
        here.map(|(at, _)| at).collect()
    };
    let base: Vec<&Record> = of_place(base).into_iter().map(|at| base[at]).collect();
    let new: Vec<&Record> = of_place(new).into_iter().map(|at| new[at]).collect();
    let comparable = base
        .iter()
        .all(|one| new.iter().all(|other| apart_in_place(one, other).is_none()));
    if !comparable {
        return None;
    }
    let runs = |records: &[&Record]| -> usize {
        let figures = records.iter().filter_map(|record| measured(record));
        figures.map(|figures| figures.samples_ns.len()).sum()
    };
    if runs(&base) < FEWEST || runs(&new) < FEWEST {
        return None;
    }
    let mut medians: Vec<f64> = base.iter().filter_map(|record| batch_median(record)).collect();
    let median = statistics::median(&mut medians)?;
    let fastest = new
        .iter()
        .filter_map(|record| Some((fastest(record)?, load(record))))
        // of what others leave of the processors
        .map(|(time, load)| time * (1.0 - load))
        .min_by(f64::total_cmp)?;
    Some(fastest / median.max(1.0) / FACTOR)
}

fn fastest(record: &Record) -> Option<f64> {
    let fastest = measured(record)?.samples_ns.iter().min()?;
    Some(*fastest as f64)
}

/// Share of the processors that other programs used before or during a measurement, at most nine tenths.
fn load(record: &Record) -> f64 {
    let of = |state: &State| state.load_by_others_millis.unwrap_or(0);
    f64::from(of(&record.before).max(of(&record.after)).min(900)) / 1_000.0
}
