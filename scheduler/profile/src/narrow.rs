//! Selects the rows of a profile for a regression model, and scales rows of other cadences.
//!
//! A part without a measurement at the requested cadence uses the one at the nearest cadence,
//! scaled by the ratio of times of the device's parts that were measured at both cadences.
//!
//! Invariants:
//! 1. Figures of other cadences replace only missing ones, and their use is reported.
//! 2. A factor depends only on parts of the same device.

use std::collections::BTreeMap;

use crate::cadence::Cadence;
use crate::conditions::{Conditions, choose};
use crate::record::{BatchRecord, PartRecord, ProfileFile};
use crate::statistics::effective;

/// What was taken of other cadences.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Narrowed {
    /// By the rank of a cadence: how many times as long parts take at the one asked for.
    factors: BTreeMap<u8, f64>,
    /// Some rows are of another cadence.
    pub(crate) is_inherited: bool,
}

impl Narrowed {
    /// How many times as long the device takes at the cadence asked for as at another; none where no part tells.
    pub(crate) fn factor(&self, from: Option<Cadence>) -> Option<f64> {
        self.factors.get(&from.unwrap_or_default().rank()).copied()
    }
}

fn conditions(batch: &BatchRecord, now: &Conditions) -> Conditions {
    let stated = Conditions::read(&batch.conditions);
    Conditions {
        cadence: effective(now.cadence, stated.cadence, &batch.times_ns),
        ..stated
    }
}

impl ProfileFile {
    /// Leaves only the parts of one device, and of each part the batches that are nearest to what holds.
    pub(crate) fn narrow(&mut self, device: &str, now: &Conditions) -> Narrowed {
        self.parts.retain(|part| part.device == device);
        let mut narrowed = Narrowed {
            factors: now
                .cadence
                .map_or_else(BTreeMap::new, |asked| factors(&self.parts, asked, now)),
            is_inherited: false,
        };
        for part in &mut self.parts {
            let batches: Vec<(Conditions, usize)> = part
                .batches
                .iter()
                .map(|batch| (conditions(batch, now), batch.times_ns.len()))
                .collect();
            let choice = choose(now, &batches);
            let mut place = 0..;
            part.batches
                .retain(|_| place.next().is_some_and(|place| choice.places.contains(&place)));
            if choice.of_cadence {
                continue;
            }
            narrowed.is_inherited = true;
            for batch in &mut part.batches {
                let from = Conditions::read(&batch.conditions).cadence;
                let Some(factor) = narrowed.factor(from) else {
                    continue;
                };
                for time in &mut batch.times_ns {
                    // `as` saturates
                    *time = (*time as f64 * factor).round() as u64;
                }
            }
        }
        narrowed
    }

    /// Leaves only what was measured back to back.
    pub(crate) fn keep_back_to_back(&mut self) {
        let is_kept = |batch: &BatchRecord| {
            let cadence = Conditions::read(&batch.conditions).cadence;
            cadence.unwrap_or_default() == Cadence::BackToBack
        };
        for part in &mut self.parts {
            part.batches.retain(is_kept);
        }
        self.parts.retain(|part| !part.batches.is_empty());
    }
}

/// By the rank of each other cadence: the geometric mean of the time at the one asked for over that at it, of all parts that
/// were measured at both.
fn factors(parts: &[PartRecord], asked: Cadence, now: &Conditions) -> BTreeMap<u8, f64> {
    let mut sums: BTreeMap<u8, (f64, f64)> = BTreeMap::new();
    for part in parts {
        let mut times: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
        for batch in &part.batches {
            let cadence = conditions(batch, now).cadence.unwrap_or_default();
            times.entry(cadence.rank()).or_default().extend(&batch.times_ns);
        }
        let medians: BTreeMap<u8, f64> = times
            .into_iter()
            .filter_map(|(rank, mut times)| {
                times.sort_unstable();
                Some((rank, *times.get(times.len() / 2)? as f64))
            })
            .filter(|(_, median)| *median > 0.0)
            .collect();
        let Some(here) = medians.get(&asked.rank()) else {
            continue;
        };
        for (rank, there) in medians.iter().filter(|(rank, _)| **rank != asked.rank()) {
            let (sum, count) = sums.entry(*rank).or_default();
            *sum += (here / there).ln();
            *count += 1.0;
        }
    }
    let mean = |(rank, (sum, count)): (u8, (f64, f64))| (rank, (sum / count).exp());
    sums.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::key::{Measurement, PartKey};
    use polychip_partitioner::Time;

    #[test]
    fn other_cadence_times_are_scaled_by_common_rows() {
        let profile = Profile::in_memory();
        let record = |part: u8, us: u64, cadence: &str| {
            let key = PartKey {
                device: "gpu:0",
                fingerprint: &[part; 32],
                operating_point: "",
            };
            let times = [Measurement {
                time: Time::from_nanoseconds(us * 1_000),
                energy_uj: None,
            }; 7];
            let conditions = Conditions::read(&format!("cadence={cadence}"));
            profile.record_under(key, false, &times, &conditions).unwrap();
        };
        record(1, 100, "back-to-back");
        record(1, 400, "56..112ms");
        record(2, 50, "back-to-back");
        let mut file = profile.export().unwrap();
        let now = Conditions::read("cadence=56..112ms");
        let narrowed = file.narrow("gpu:0", &now);
        assert!(narrowed.is_inherited);
        assert_eq!(
            narrowed.factor(Some(Cadence::BackToBack)).map(f64::round),
            Some(4.0)
        );
        let times: Vec<u64> = file
            .parts
            .iter()
            .map(|part| part.batches[0].times_ns[0])
            .collect();
        assert_eq!(times, [400_000, 200_000]);
        let mut file = profile.export().unwrap();
        let narrowed = file.narrow("gpu:0", &Conditions::read("cadence=back-to-back"));
        assert!(!narrowed.is_inherited);
        let times: Vec<u64> = file
            .parts
            .iter()
            .map(|part| part.batches[0].times_ns[0])
            .collect();
        assert_eq!(times, [100_000, 50_000]);
    }
}
