//! Compares two profiles: slower and faster parts.
//!
//! Invariants:
//! 1. A difference is reported only if the intervals of the two medians do not overlap: variation
//!    within each profile is not a difference.
//! 2. Parts are compared on the same device, operating point and cadence; another build of a plugin
//!    is the same device, because the comparison is meant for that.

use std::collections::BTreeMap;
use std::fmt;

use polychip_partitioner::Time;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cadence::Cadence;
use crate::predict;
use crate::record::{PartRecord, ProfileFile};
use crate::statistics::{Interval, median_interval};

/// A part with another time than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// Device without the build of its plugin.
    pub device: String,
    /// Operating point; empty for the default.
    pub operating_point: String,
    /// The cadence of the runs.
    pub cadence: Cadence,
    /// Structure of the part.
    pub fingerprint: String,
    /// Its content; empty if not recorded.
    pub part: String,
    /// Median before, in nanoseconds.
    pub before_ns: u64,
    /// Median now, in nanoseconds.
    pub now_ns: u64,
    /// Change of the time, in millionths of the earlier one; negative if faster.
    pub longer_ppm: i64,
    /// Interval of the earlier median.
    pub before: Interval,
    /// Interval of the current median.
    pub now: Interval,
}

/// The differences between two profiles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProfileDiff {
    /// Slower parts, largest change first.
    pub slower: Vec<Change>,
    /// Faster parts, largest change first.
    pub faster: Vec<Change>,
    /// Parts in both profiles whose intervals overlap.
    pub same: u64,
    /// Parts in both profiles with fewer than six measurements in one of them.
    pub unsure: u64,
    /// Parts only in the first.
    pub removed: u64,
    /// Parts only in the second.
    pub added: u64,
}

/// Device without build, operating point, fingerprint, cadence.
type Key = (String, String, String, Cadence);

impl ProfileDiff {
    /// Compares two profiles.
    #[must_use]
    pub fn of(before: &ProfileFile, now: &ProfileFile) -> ProfileDiff {
        let (old, new) = (times(before), times(now));
        let words = |fingerprint: &str| {
            let mut contents = now.contents.iter().chain(&before.contents);
            let found = contents.find(|content| content.fingerprint == fingerprint);
            found.map_or_else(String::new, |content| predict::words(&content.content))
        };
        let mut diff = ProfileDiff {
            removed: old.keys().filter(|key| !new.contains_key(*key)).count() as u64,
            ..ProfileDiff::default()
        };
        for (key, now) in new {
            let Some(before) = old.get(&key) else {
                diff.added += 1;
                continue;
            };
            let (Some(was), Some(is)) = (median_interval(before), median_interval(&now)) else {
                diff.unsure += 1;
                continue;
            };
            if !was.is_below(&is) && !is.is_below(&was) {
                diff.same += 1;
                continue;
            }
            let (before_ns, now_ns) = (before[before.len() / 2], now[now.len() / 2]);
            let (device, operating_point, fingerprint, cadence) = key;
            let longer = (now_ns as f64 / before_ns.max(1) as f64 - 1.0) * 1e6;
            let change = Change {
                part: words(&fingerprint),
                device,
                operating_point,
                cadence,
                fingerprint,
                before_ns,
                now_ns,
                longer_ppm: longer.round() as i64,
                before: was,
                now: is,
            };
            if was.is_below(&is) {
                diff.slower.push(change);
            } else {
                diff.faster.push(change);
            }
        }
        diff.slower
            .sort_by_key(|change| std::cmp::Reverse(change.longer_ppm));
        diff.faster.sort_by_key(|change| change.longer_ppm);
        diff
    }
}

/// Sorted times of each part.
fn times(file: &ProfileFile) -> BTreeMap<Key, Vec<u64>> {
    let mut all: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    for part in &file.parts {
        for batch in &part.batches {
            let key = (
                device(part),
                part.operating_point.clone(),
                part.fingerprint.clone(),
                batch.cadence(),
            );
            all.entry(key).or_default().extend(&batch.times_ns);
        }
    }
    all.retain(|_, times| !times.is_empty());
    all.values_mut().for_each(|times| times.sort_unstable());
    all
}

/// `name|version|build|vendor|name|soc|driver` without version and build.
fn device(part: &PartRecord) -> String {
    let fields: Vec<&str> = part.device.split('|').collect();
    match fields[..] {
        [name, _version, _build, ref rest @ ..] => [&[name], rest].concat().join("|"),
        _ => part.device.clone(),
    }
}

impl fmt::Display for ProfileDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ns: u64| Time::from_nanoseconds(ns).to_string();
        for (word, changes) in [("slower", &self.slower), ("faster", &self.faster)] {
            for change in changes {
                let Change { before, now, .. } = change;
                let part = match change.part.as_str() {
                    "" => &change.fingerprint[..12],
                    words => words,
                };
                let name = change.device.split('|').next().unwrap_or_default();
                writeln!(
                    f,
                    "{word} by {:.1} %: {part} on {name}{}{}{}: {} ({} to {}) before, {} ({} to {}) now",
                    change.longer_ppm.unsigned_abs() as f64 / 1e4,
                    if change.operating_point.is_empty() {
                        ""
                    } else {
                        " "
                    },
                    change.operating_point,
                    match change.cadence {
                        Cadence::BackToBack => String::new(),
                        cadence => format!(" at cadence {cadence}"),
                    },
                    time(change.before_ns),
                    time(before.low_ns),
                    time(before.high_ns),
                    time(change.now_ns),
                    time(now.low_ns),
                    time(now.high_ns),
                )?;
            }
        }
        write!(
            f,
            "{} slower, {} faster, {} the same within their intervals, {} with too few measurements, {} only before, \
             {} only now",
            self.slower.len(),
            self.faster.len(),
            self.same,
            self.unsure,
            self.removed,
            self.added
        )
    }
}
