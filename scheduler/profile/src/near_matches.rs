//! Measurements of a part at other settings: reported, but never used as measurements at the
//! current ones.
//!
//! Invariant: a result lists its differences; a row with exactly the requested key is not a result.
//!
//! Not here: figures of the requested row (`database`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use polychip_partitioner::Time;

use crate::key::PartKey;

/// Fields of a device's identity: name, version, build, vendor, device, chip, driver, settings.
const FIELDS: usize = 8;

/// A measurement of the same part at other settings, by another build, or on another chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearMatch {
    /// Measured and requested values that differ: `threads=2` and `threads=1`.
    pub differences: Vec<Difference>,
    /// Median time.
    pub p50: Time,
    /// Number of measurements in the median.
    pub samples: u32,
}

/// One differing setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The measured value.
    pub measured: String,
    /// The requested value.
    pub asked: String,
}

impl fmt::Display for NearMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured: Vec<&str> = self.differences.iter().map(|one| one.measured.as_str()).collect();
        let asked: Vec<&str> = self.differences.iter().map(|one| one.asked.as_str()).collect();
        write!(
            f,
            "measured at {}, not at {}: {} ({} runs)",
            measured.join(", "),
            asked.join(", "),
            self.p50,
            self.samples
        )
    }
}

/// Whether devices differ in their chip only, and in what comes with it: not in what an app sets.
pub(crate) fn is_other_chip(differences: &[Difference]) -> bool {
    let of_chips = ["chip=", "driver=", "build=", "isa="];
    differences.iter().all(|one| {
        of_chips
            .iter()
            .any(|word| one.asked.starts_with(word) || one.measured.starts_with(word))
    })
}

/// In what a row differs from what is asked for; none where they are the same, or of devices of different names.
pub(crate) fn differences(
    device: &str,
    operating_point: &str,
    asked: PartKey<'_>,
) -> Option<Vec<Difference>> {
    let fields = |identity: &str| -> Vec<String> {
        let mut fields: Vec<String> = identity.splitn(FIELDS, '|').map(str::to_owned).collect();
        fields.resize(FIELDS, String::new());
        fields
    };
    let (was, is) = (fields(device), fields(asked.device));
    if was[0] != is[0] {
        return None;
    }
    let mut found = Vec::new();
    let mut differ = |word: &str, fields: &[usize]| {
        let text = |all: &[String]| {
            let known = fields
                .iter()
                .map(|at| all[*at].as_str())
                .filter(|text| !text.is_empty());
            format!("{word}={}", known.collect::<Vec<_>>().join(" "))
        };
        if text(&was) != text(&is) {
            found.push(Difference {
                measured: text(&was),
                asked: text(&is),
            });
        }
    };
    differ("chip", &[3, 4, 5]);
    differ("driver", &[6]);
    differ("build", &[1, 2]);
    found.extend(words(&was[7], &is[7]));
    found.extend(words(operating_point, asked.operating_point));
    (!found.is_empty()).then_some(found)
}

/// Words `key=value` that differ.
fn words(was: &str, is: &str) -> Vec<Difference> {
    let read = |text: &str| -> BTreeMap<String, String> {
        let words = text.split_whitespace();
        let pairs = words.map(|word| word.split_once('=').unwrap_or((word, "yes")));
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let (was, is) = (read(was), read(is));
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let differing = keys.into_iter().filter(|key| was.get(*key) != is.get(*key));
    differing
        .map(|key| {
            let text = |all: &BTreeMap<String, String>| match all.get(key) {
                Some(value) => format!("{key}={value}"),
                None => format!("{key} unset"),
            };
            Difference {
                measured: text(&was),
                asked: text(&is),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: &str = "cpu:0|0.1.0|cpu-1a|AuthenticAMD|EPYC||avx512|isa=avx512 threads=2";

    fn differing(device: &str, operating_point: &str) -> Option<String> {
        let asked = PartKey {
            device: IDENTITY,
            fingerprint: &[7; 32],
            operating_point: "threads=1",
        };
        let found = differences(device, operating_point, asked)?;
        let words = found
            .iter()
            .map(|one| format!("{} / {}", one.measured, one.asked));
        Some(words.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn every_difference_is_named() {
        assert_eq!(differing(IDENTITY, "threads=1"), None);
        assert_eq!(differing(&IDENTITY.replace("cpu:0", "gpu:0"), "threads=1"), None);
        for (device, point, words) in [
            (IDENTITY.to_owned(), "threads=2", "threads=2 / threads=1"),
            (IDENTITY.to_owned(), "", "threads unset / threads=1"),
            (
                IDENTITY.to_owned(),
                "precision=reduced threads=1",
                "precision=reduced / precision unset",
            ),
            (
                IDENTITY.replace("-1a", "-2b"),
                "threads=1",
                "build=0.1.0 cpu-2b / build=0.1.0 cpu-1a",
            ),
            (
                IDENTITY.replace("EPYC", "Xeon"),
                "threads=1",
                "chip=AuthenticAMD Xeon / chip=AuthenticAMD EPYC",
            ),
            (
                IDENTITY.replace("isa=avx512", "isa=avx2"),
                "threads=1",
                "isa=avx2 / isa=avx512",
            ),
            (
                // a file of an older version
                IDENTITY.rsplit_once('|').unwrap().0.to_owned(),
                "threads=1",
                "isa unset / isa=avx512; threads unset / threads=2",
            ),
        ] {
            assert_eq!(differing(&device, point).as_deref(), Some(words), "{device}");
        }
    }
}
