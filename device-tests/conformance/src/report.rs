//! Results of a run: rows per device, coverage per op, and whether the plugin conforms.
//!
//! Invariant: a known failure that passes counts as a failure.

mod junit;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::child::FoundDevice;
use crate::verdict::Verdict;

/// A result against what was expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should be.
    Good,
    /// It fails, which is known.
    KnownFailure,
    /// It fails.
    Failure,
    /// It is known to fail, and does not.
    UnexpectedPass,
}

impl Outcome {
    /// What a verdict is, given why the case is known to fail.
    #[must_use]
    pub fn of(verdict: &Verdict, known: Option<&str>) -> Outcome {
        match (verdict, known) {
            (Verdict::Failed(_), Some(_)) => Outcome::KnownFailure,
            (Verdict::Failed(_), None) => Outcome::Failure,
            (Verdict::Passed, Some(_)) => Outcome::UnexpectedPass,
            _ => Outcome::Good,
        }
    }

    /// Whether the plugin fails the suite for it.
    #[must_use]
    pub fn is_bad(self) -> bool {
        matches!(self, Outcome::Failure | Outcome::UnexpectedPass)
    }
}

/// One case on one device.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the case.
    pub case: String,
    /// Its group.
    pub group: String,
    /// Op, types and shapes of a case of `ops` that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Against what was expected.
    pub judged: Outcome,
    /// Why it is known to fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

impl Row {
    /// What came of it in words, behind the op and its shapes where it failed.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.graph {
            Some(graph) => format!("{graph}: {}", self.verdict.detail()),
            None => self.verdict.detail().to_owned(),
        }
    }
}

/// Cases by what came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Passed.
    pub passed: usize,
    /// Refused with a reason.
    pub refused: usize,
    /// Not offered.
    pub skipped: usize,
    /// Failed.
    pub failed: usize,
}

impl Count {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Refused(_) => self.refused += 1,
            Verdict::Skipped(_) => self.skipped += 1,
            Verdict::Failed(_) => self.failed += 1,
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> usize {
        self.passed + self.refused + self.skipped + self.failed
    }
}

/// A device and its rows.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceReport {
    /// `plugin:index`.
    pub name: String,
    /// What it says it is.
    pub device: FoundDevice,
    /// Cases in the order in which they ran.
    pub rows: Vec<Row>,
}

impl DeviceReport {
    /// Cases by group.
    #[must_use]
    pub fn groups(&self) -> BTreeMap<&str, Count> {
        let mut groups: BTreeMap<&str, Count> = BTreeMap::new();
        for row in &self.rows {
            groups.entry(&row.group).or_default().add(&row.verdict);
        }
        groups
    }

    /// Cases of the ops group by op.
    #[must_use]
    pub fn ops(&self) -> BTreeMap<&str, Count> {
        let mut ops: BTreeMap<&str, Count> = BTreeMap::new();
        for row in &self.rows {
            if let Some(op) = row
                .case
                .strip_prefix("ops/")
                .and_then(|rest| rest.split('/').next())
            {
                ops.entry(op).or_default().add(&row.verdict);
            }
        }
        ops
    }

    /// Rows for which the plugin fails the suite.
    pub fn bad(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.judged.is_bad())
    }

    /// The row of a case.
    #[must_use]
    pub fn row(&self, case: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case)
    }
}

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Its build id.
    pub build_id: String,
    /// Its library.
    pub library: String,
    /// How long the run took, in milliseconds.
    pub ms: u64,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
}

impl Report {
    /// Whether the plugin does what the contract says, but for what is known.
    #[must_use]
    pub fn conforms(&self) -> bool {
        self.devices.iter().all(|device| device.bad().next().is_none())
    }

    /// Every case by what came of it.
    #[must_use]
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        for row in self.devices.iter().flat_map(|device| &device.rows) {
            count.add(&row.verdict);
        }
        count
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report() -> Report {
        let row = |case: &str, verdict: Verdict, known: Option<&str>| Row {
            case: case.into(),
            group: case.split('/').next().unwrap().into(),
            graph: matches!(verdict, Verdict::Failed(_))
                .then(|| crate::ops::asked(case))
                .flatten(),
            judged: Outcome::of(&verdict, known),
            verdict,
            known: known.map(str::to_owned),
            ms: 3,
        };
        Report {
            plugin: "toy".into(),
            version: "1".into(),
            build_id: "b".into(),
            library: "libtoy.so".into(),
            ms: 9,
            devices: vec![DeviceReport {
                name: "toy:0".into(),
                device: FoundDevice {
                    name: "Toy".into(),
                    vendor: "us".into(),
                    soc: String::new(),
                    driver: "1".into(),
                    emulated: true,
                },
                rows: vec![
                    row("ops/Relu/unary-odd/f32", Verdict::Passed, None),
                    row(
                        "ops/Relu/unary-odd/f16",
                        Verdict::Refused("dtype: f16".into()),
                        None,
                    ),
                    row(
                        "ops/Add/same/f32",
                        Verdict::Failed("element 3 is <2>".into()),
                        None,
                    ),
                    row("fences/timing", Verdict::Skipped("not offered".into()), None),
                    row(
                        "leaks/runs",
                        Verdict::Failed("grows".into()),
                        Some("driver 3 leaks"),
                    ),
                    row("destroy/x", Verdict::Passed, Some("crashed once")),
                ],
            }],
        }
    }

    #[test]
    fn failures_and_unexpected_passes_are_bad() {
        let report = report();
        assert!(!report.conforms());
        let bad: Vec<&str> = report.devices[0].bad().map(|row| row.case.as_str()).collect();
        assert_eq!(bad, ["ops/Add/same/f32", "destroy/x"]);
        assert_eq!(
            report.count(),
            Count {
                passed: 2,
                refused: 1,
                skipped: 1,
                failed: 2
            }
        );
        assert_eq!(report.devices[0].ops()["Relu"].all(), 2);
    }

    #[test]
    fn report_is_readable_as_text_and_json() {
        let report = report();
        let text = report.text();
        for words in [
            "toy:0",
            "emulated",
            "element 3 is <2>",
            "driver 3 leaks",
            "refused, by reason: dtype 1",
            "passes unexpectedly",
            "does not conform",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let xml = report.junit().unwrap();
        assert!(
            xml.contains("element 3 is &lt;2&gt;") && xml.contains("<skipped"),
            "{xml}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["devices"][0]["rows"][1]["outcome"], "refused");
        assert_eq!(json["devices"][0]["rows"][1]["detail"], "dtype: f16");
        assert_eq!(json["devices"][0]["rows"][5]["judged"], "unexpected_pass");
    }
}
