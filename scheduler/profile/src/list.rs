//! Summaries of each part, for people and programs that inspect a profile.
//!
//! Invariant: every line names the source of its measurements.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::cadence::Cadence;
use crate::conditions::Conditions;
use crate::predict::words;
use crate::record::{BatchRecord, PartRecord, ProfileFile};
use crate::statistics::{Interval, Measured, MeasuredEnergy, figures};

/// A summary of a part on a device at an operating point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartSummary {
    /// Identity of the device: plugin, build, device, driver.
    pub device: String,
    /// The policy's settings for the device; empty for the defaults.
    pub operating_point: String,
    /// Structure of the part.
    pub fingerprint: String,
    /// Its content; empty if not recorded.
    pub part: String,
    /// Whether the figures are an emulated device's.
    pub emulated: bool,
    /// Number of stored measurements.
    pub samples: u64,
    /// Number of their batches.
    pub batches: u64,
    /// Number of measurements behind the figures: those that a plan uses under unknown current
    /// conditions.
    pub used_samples: u64,
    /// Number of their batches.
    pub used_batches: u64,
    /// The cadence of the runs: parts measured at several cadences have a line for each.
    pub cadence: Cadence,
    /// Conditions of these measurements.
    pub conditions: String,
    /// Tenth percentile of the time, in nanoseconds.
    pub p10_ns: u64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// Ninetieth percentile, in nanoseconds.
    pub p90_ns: u64,
    /// 95 % confidence interval of the median.
    pub interval: Option<Interval>,
    /// Energy of a run, if measured.
    pub energy: Option<MeasuredEnergy>,
    /// When the newest was recorded, in microseconds since 1970; 0 if unknown.
    pub newest_us: u64,
    /// Conditions of each stored batch, sorted, without repetition.
    pub all_conditions: Vec<String>,
    /// Builds and files of the measurements.
    pub sources: Vec<String>,
}

/// What is known of each part, by device, operating point and time, the longest first.
pub(crate) fn parts(file: &ProfileFile) -> Vec<PartSummary> {
    let contents = file.contents.iter();
    let words: BTreeMap<&str, String> = contents
        .map(|content| (content.fingerprint.as_str(), words(&content.content)))
        .collect();
    let known = file.parts.iter().flat_map(|part| {
        let words = words.get(part.fingerprint.as_str()).cloned().unwrap_or_default();
        let cadences: BTreeSet<Cadence> = part.batches.iter().map(BatchRecord::cadence).collect();
        cadences
            .into_iter()
            .filter_map(move |cadence| summary(part, words.clone(), cadence))
    });
    let mut parts: Vec<PartSummary> = known.collect();
    parts.sort_by(|a, b| {
        let by = |part: &PartSummary| (part.device.clone(), part.operating_point.clone());
        by(a)
            .cmp(&by(b))
            .then(b.p50_ns.cmp(&a.p50_ns))
            .then(a.fingerprint.cmp(&b.fingerprint))
            .then(a.cadence.cmp(&b.cadence))
    });
    parts
}

fn summary(part: &PartRecord, words: String, cadence: Cadence) -> Option<PartSummary> {
    let own = || part.batches.iter().filter(|batch| batch.cadence() == cadence);
    let batches: Vec<Measured> = own().map(BatchRecord::measured).collect();
    let figures = figures(&Conditions::default(), &batches)?;
    let sources: BTreeSet<String> = own().map(source).collect();
    let all_conditions: BTreeSet<&String> = own().map(|batch| &batch.conditions).collect();
    let kept: usize = batches.iter().map(|batch| batch.times_ns.len()).sum();
    Some(PartSummary {
        device: part.device.clone(),
        operating_point: part.operating_point.clone(),
        fingerprint: part.fingerprint.clone(),
        part: words,
        emulated: part.emulated,
        samples: kept as u64,
        batches: batches.len() as u64,
        used_samples: figures.samples as u64,
        used_batches: figures.batches as u64,
        cadence,
        conditions: figures.conditions,
        p10_ns: figures.p10_ns,
        p50_ns: figures.p50_ns,
        p90_ns: figures.p90_ns,
        interval: figures.interval,
        energy: figures.energy,
        newest_us: figures.newest_us,
        all_conditions: all_conditions.into_iter().cloned().collect(),
        sources: sources.into_iter().collect(),
    })
}

fn source(batch: &BatchRecord) -> String {
    let mut words = format!("by {}", batch.build);
    if !batch.source.is_empty() {
        words.push_str(&format!(" from {}", batch.source));
    }
    words
}
