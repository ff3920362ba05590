//! The measured power of a device, over all parts with a known energy and time.
//!
//! Invariant: the mean, in which each part is weighted by its time, lies between the minimum and
//! the maximum.
//!
//! Not here: the power of unmeasured devices (the scheduler's power model).

use std::collections::BTreeMap;

use crate::conditions::Conditions;
use crate::record::{BatchRecord, ProfileFile};
use crate::statistics::{Measured, figures};

/// Power of a device above idle while it ran measured parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawnPower {
    /// Total energy over total time, in milliwatts.
    pub mean_mw: u64,
    /// Lowest power of a part, in milliwatts.
    pub least_mw: u64,
    /// Highest power of a part, in milliwatts.
    pub most_mw: u64,
    /// Number of parts.
    pub parts: usize,
}

/// Joules and time of parts so far.
#[derive(Debug, Default)]
struct Sum {
    uj: u128,
    ns: u128,
    powers: Vec<u64>,
}

/// The powers of devices, by identity and operating point.
pub(crate) fn drawn(file: &ProfileFile) -> BTreeMap<(String, String), DrawnPower> {
    let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for part in &file.parts {
        let batches: Vec<Measured> = part.batches.iter().map(BatchRecord::measured).collect();
        let Some(found) = figures(&Conditions::default(), &batches) else {
            continue;
        };
        let (Some(energy), true) = (found.energy, found.p50_ns > 0) else {
            continue;
        };
        let sum = sums
            .entry((part.device.clone(), part.operating_point.clone()))
            .or_default();
        sum.uj += u128::from(energy.energy_uj);
        sum.ns += u128::from(found.p50_ns);
        sum.powers
            .push(milliwatts(u128::from(energy.energy_uj), u128::from(found.p50_ns)));
    }
    let known = sums.into_iter().filter_map(|(key, sum)| {
        let mean_mw = milliwatts(sum.uj, sum.ns);
        let drawn = DrawnPower {
            mean_mw,
            least_mw: (*sum.powers.iter().min()?).min(mean_mw),
            most_mw: (*sum.powers.iter().max()?).max(mean_mw),
            parts: sum.powers.len(),
        };
        (mean_mw > 0).then_some((key, drawn))
    });
    known.collect()
}

/// A microjoule in a nanosecond is a kilowatt.
fn milliwatts(uj: u128, ns: u128) -> u64 {
    u64::try_from((uj * 1_000_000).checked_div(ns).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use polychip_partitioner::Time;

    use super::*;
    use crate::{Measurement, PartKey, Profile};

    #[test]
    fn parts_are_weighted_by_time() {
        let profile = Profile::in_memory();
        let record = |structure: u8, point: &str, ns: u64, energy_uj: Option<u64>| {
            let key = PartKey {
                device: "cpu",
                fingerprint: &[structure; 32],
                operating_point: point,
            };
            let measurement = Measurement {
                time: Time::from_nanoseconds(ns),
                energy_uj,
            };
            profile.record(key, false, &[measurement]).unwrap();
        };
        // 10 W for 3 ms, 2 W for 1 ms, and what has no energy
        record(1, "", 3_000_000, Some(30_000));
        record(2, "", 1_000_000, Some(2_000));
        record(3, "", 9_000_000, None);
        record(1, "threads=1", 1_000_000, Some(4_000));
        let found = drawn(&profile.export().unwrap());
        let of = |point: &str| found.get(&("cpu".to_owned(), point.to_owned())).copied();
        let expected = DrawnPower {
            mean_mw: 8_000,
            least_mw: 2_000,
            most_mw: 10_000,
            parts: 2,
        };
        assert_eq!(of(""), Some(expected));
        assert_eq!(of("threads=1").unwrap().mean_mw, 4_000);
        assert_eq!(found.len(), 2);
    }
}
