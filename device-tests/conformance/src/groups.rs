//! The groups of cases, and their selection.
//!
//! Invariant: the list of cases is the same for every plugin; missing features are found by calling the plugin.

mod buffers;
mod compile;
mod concurrency;
mod deny;
mod destroy;
mod discovery;
mod errors;
mod fences;
mod leaks;
mod support;
mod telemetry;

use crate::case::Case;
use crate::ops;

/// Groups and what they ask, in the order in which they run.
pub const GROUPS: &[(&str, &str)] = &[
    (
        "discovery",
        "the export, contract versions, and plugin and device information",
    ),
    ("support", "answers have reasons, repeat, and are true"),
    (
        "compile",
        "blobs through memory and bytes; truncated, corrupted and foreign bytes are refused",
    ),
    (
        "buffers",
        "memory created, imported and exported; sizes, ranges, aliases",
    ),
    (
        "fences",
        "completion of runs: waits, order, signals, timing, actual shapes",
    ),
    (
        "telemetry",
        "sensors, estimates and operating points are plausible",
    ),
    (
        "deny",
        "impossible requests are refused and the device stays usable: memory, kinds, cancel, reset",
    ),
    ("destroy", "every destruction order that the contract allows"),
    ("concurrency", "concurrent threads, instances and runs"),
    ("leaks", "memory and descriptors stay bounded over many cycles"),
    (
        "errors",
        "wrong arguments and garbage graphs are errors, each in its own process",
    ),
    (
        "ops",
        "each op with each element type and shape class against the scalar reference",
    ),
];

/// Every case.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    discovery::cases(&mut cases);
    support::cases(&mut cases);
    compile::cases(&mut cases);
    buffers::cases(&mut cases);
    fences::cases(&mut cases);
    telemetry::cases(&mut cases);
    deny::cases(&mut cases);
    destroy::cases(&mut cases);
    concurrency::cases(&mut cases);
    leaks::cases(&mut cases);
    errors::cases(&mut cases);
    ops::cases(&mut cases);
    cases
}

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Tags of which a case has one; empty for all.
    pub tags: Vec<String>,
    /// Parts of names of which a case has one; empty for all.
    pub filters: Vec<String>,
    /// Run at most this many cases per group, spread evenly; 0 for all.
    pub sample: usize,
}

impl Selection {
    /// The selected cases, in the order of the whole list.
    #[must_use]
    pub fn of(&self, all: Vec<Case>) -> Vec<Case> {
        let wanted = |case: &Case| {
            (self.tags.is_empty() || self.tags.iter().any(|tag| case.tags.iter().any(|has| has == tag)))
                && (self.filters.is_empty()
                    || self.filters.iter().any(|part| case.name.contains(part.as_str())))
        };
        let chosen: Vec<Case> = all.into_iter().filter(wanted).collect();
        if self.sample == 0 {
            return chosen;
        }
        let mut kept = Vec::new();
        for (group, _) in GROUPS {
            let members: Vec<&Case> = chosen
                .iter()
                .filter(|case| case.tags.first() == Some(group))
                .collect();
            let step = members.len().div_ceil(self.sample).max(1);
            kept.extend(members.into_iter().step_by(step).cloned());
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_groups_are_listed() {
        let cases = cases();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            let group = case.tags.first().unwrap();
            assert!(GROUPS.iter().any(|(listed, _)| listed == group), "{case:?}");
            assert!(case.name.starts_with(&format!("{group}/")), "{case:?}");
        }
        for (group, _) in GROUPS {
            assert!(
                cases
                    .iter()
                    .any(|case| case.tags[0] == *group && case.tags.contains(&"basic")),
                "{group} has no basic case"
            );
        }
    }

    #[test]
    fn guide_lists_each_tag_with_its_case_count() {
        let guide = include_str!("../../../docs/conformance.md");
        let cases = cases();
        for tag in GROUPS.iter().map(|(group, _)| *group).chain(["basic"]) {
            let count = cases.iter().filter(|case| case.tags.contains(&tag)).count();
            let row = format!("| `{tag}` | {count} |");
            assert!(guide.contains(&row), "docs/conformance.md lacks {row}");
        }
    }

    #[test]
    fn a_selection_keeps_tags_and_names() {
        let some = |selection: &Selection| {
            selection
                .of(cases())
                .into_iter()
                .map(|case| case.name)
                .collect::<Vec<_>>()
        };
        let basic = some(&Selection {
            tags: vec!["basic".into()],
            ..Selection::default()
        });
        assert!(basic.iter().any(|name| name.starts_with("ops/Relu/")));
        assert!(!basic.iter().any(|name| name.starts_with("ops/Conv/")));
        let conv = some(&Selection {
            filters: vec!["ops/Conv/".into()],
            ..Selection::default()
        });
        assert!(conv.len() > 20 && conv.iter().all(|name| name.starts_with("ops/Conv/")));
        let sample = some(&Selection {
            tags: vec!["ops".into()],
            sample: 50,
            ..Selection::default()
        });
        assert!(sample.len() <= 50 && sample.len() > 25);
    }
}
