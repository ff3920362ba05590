//! Pairs batches of two sides into pairs, one of each side.
//!
//! Invariants:
//! 1. A batch is in at most one pair, and both batches of a pair come from the same board.
//! 2. Pairs do not overlap in time: all of BASE before all of NEW is one pair, however many batches there are.

use std::collections::BTreeMap;

use polychip_farm_record::Record;

use super::comparable::{APART_S, apart, middle_s, unfit};
use crate::batch::batch_median;
use crate::statistics;

/// One record that has times.
#[derive(Debug, Clone, Copy)]
struct Batch<'a> {
    record: &'a Record,
    is_new: bool,
    at_s: f64,
    /// Logarithm of the median of its times.
    log: f64,
}

/// Differences of the pairs, and batches that are in none.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Logarithm of NEW less that of BASE, drift taken off.
    pub(super) differences: Vec<f64>,
    left_out: BTreeMap<&'static str, usize>,
}

impl Rounds {
    pub(super) fn of(base: &[&Record], new: &[&Record]) -> Rounds {
        let mut rounds = Rounds::default();
        let mut places: BTreeMap<&str, Vec<Batch<'_>>> = BTreeMap::new();
        let sides = base.iter().map(|record| (*record, false));
        for (record, is_new) in sides.chain(new.iter().map(|record| (*record, true))) {
            let Some(median) = batch_median(record) else {
                continue;
            };
            if let Some(why) = unfit(record) {
                rounds.leave(why, 1);
                continue;
            }
            let at_s = middle_s(record);
            let log = median.max(1.0).ln();
            let batch = Batch {
                record,
                is_new,
                at_s,
                log,
            };
            places.entry(&record.place.name).or_default().push(batch);
        }
        for batches in places.values_mut() {
            batches.sort_by(|a, b| {
                a.at_s
                    .total_cmp(&b.at_s)
                    .then(a.is_new.cmp(&b.is_new))
                    .then(a.record.attempt.cmp(&b.record.attempt))
            });
            let drift = drift(batches);
            rounds.pair(batches, drift);
        }
        rounds
    }

    /// Makes pairs of neighbours in time of different sides.
    fn pair(&mut self, batches: &[Batch<'_>], drift: f64) {
        let mut waiting: Option<Batch<'_>> = None;
        for batch in batches {
            let Some(other) = waiting.replace(*batch) else {
                continue;
            };
            if other.is_new == batch.is_new {
                self.leave("no adjacent batch of the other side", 1);
                continue;
            }
            if let Some(why) = apart(other.record, batch.record) {
                // the later one may go with the next
                self.leave(why, 1);
                continue;
            }
            waiting = None;
            let (base, new) = if batch.is_new {
                (other, *batch)
            } else {
                (*batch, other)
            };
            let drifted = drift * (new.at_s - base.at_s);
            self.differences.push(new.log - base.log - drifted);
        }
        if waiting.is_some() {
            self.leave("no adjacent batch of the other side", 1);
        }
    }

    fn leave(&mut self, why: &'static str, batches: usize) {
        *self.left_out.entry(why).or_default() += batches;
    }

    /// Batches that are in no pair, by reason.
    pub(super) fn left_out(&self) -> Vec<String> {
        let lines = self.left_out.iter();
        lines
            .map(|(why, batches)| match batches {
                1 => format!("1 batch: {why}"),
                batches => format!("{batches} batches: {why}"),
            })
            .collect()
    }
}

/// How much the logarithm grows in a second, by batches of the same side that are as near as those of a pair may be.
fn drift(batches: &[Batch<'_>]) -> f64 {
    let side = |is_new: bool| -> Vec<(f64, f64)> {
        let batches = batches.iter().filter(|batch| batch.is_new == is_new);
        batches.map(|batch| (batch.at_s, batch.log)).collect()
    };
    statistics::slope(&[side(false), side(true)], APART_S).unwrap_or(0.0)
}
