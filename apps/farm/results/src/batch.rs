//! A batch: the measurements of one record.

use std::collections::BTreeSet;

use polychip_farm_record::{Measured, Outcome, Record};

use crate::selection::Source;
use crate::statistics;

/// What figures are of, each source once.
pub(crate) fn sources<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<Source> {
    let sources: BTreeSet<Source> = records.map(Source::of).collect();
    sources.into_iter().collect()
}

/// Figures of a record that ran.
pub(crate) fn measured(record: &Record) -> Option<&Measured> {
    match &record.outcome {
        Outcome::Measured(measured) => Some(measured),
        _ => None,
    }
}

/// The median of a record's times in nanoseconds; none where nothing was timed.
pub(crate) fn batch_median(record: &Record) -> Option<f64> {
    let times = measured(record)?.samples_ns.iter();
    statistics::median(&mut times.map(|time| *time as f64).collect::<Vec<f64>>())
}
