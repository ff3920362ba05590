//! The last result of each test program on each processor, stored in `target/arm/results.json`.
//!
//! Invariant: only complete runs are stored, with their build and number of cases; a different build or number reruns
//! the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::emulator::End;

/// What was tried: a result holds for no other.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    /// When the program, and what its tests load, was built last, in nanoseconds since 1970.
    pub(super) built_ns: u64,
    /// Cases of each property test.
    pub(super) cases: u32,
    /// Of the ONNX backend suite each Nth case.
    pub(super) every: usize,
    /// Whether tests could start programs of ours.
    pub(super) starts: bool,
}

/// How a program of tests ended last.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Last {
    trial: Trial,
    passed: bool,
    ran: usize,
    skipped: usize,
    seconds: u64,
    /// The commit that was checked out.
    commit: String,
    /// The end in words.
    words: String,
}

impl Last {
    /// Beside tests that the program skipped, so many were skipped by name.
    pub(super) fn new(trial: Trial, end: &End, by_name: usize, commit: &str) -> Last {
        let (ran, skipped) = end.counts();
        Last {
            trial,
            passed: !end.is_failure(),
            ran,
            skipped: skipped + by_name,
            seconds: end.took().as_secs(),
            commit: commit.to_owned(),
            words: end.to_string(),
        }
    }

    /// Whether this says all that another run of the same would.
    pub(super) fn holds(&self, trial: &Trial) -> bool {
        self.passed && self.trial == *trial
    }
}

/// Results by processor and program, in their file.
pub(super) struct Results {
    file: PathBuf,
    by_cpu: BTreeMap<String, BTreeMap<String, Last>>,
}

impl Results {
    /// Those of earlier runs.
    pub(super) fn read(file: PathBuf) -> Result<Results> {
        let by_cpu = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{} (remove the file to run all again)", file.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        Ok(Results { file, by_cpu })
    }

    pub(super) fn of(&self, cpu: &str, program: &str) -> Option<&Last> {
        self.by_cpu.get(cpu)?.get(program)
    }

    /// The longest that a program took on any processor, in seconds; nothing for one that is not known.
    pub(super) fn seconds(&self, program: &str) -> u64 {
        let all = self.by_cpu.values().filter_map(|programs| programs.get(program));
        all.map(|last| last.seconds).max().unwrap_or(0)
    }

    /// Keeps a result, at once: what ends this command loses none.
    pub(super) fn keep(&mut self, cpu: &str, program: &str, last: Last) -> Result<()> {
        self.by_cpu
            .entry(cpu.to_owned())
            .or_default()
            .insert(program.to_owned(), last);
        let text = serde_json::to_string_pretty(&self.by_cpu)?;
        let beside = self.file.with_extension("json.new");
        std::fs::write(&beside, text + "\n").with_context(|| beside.display().to_string())?;
        std::fs::rename(&beside, &self.file).with_context(|| self.file.display().to_string())
    }

    /// All that is known, a line for each program and processor, and sums in Markdown.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for (cpu, programs) in &self.by_cpu {
            let _ = writeln!(text, "{cpu}");
            for (program, last) in programs {
                let _ = writeln!(text, "  {program} ({}): {}", last.commit, last.words);
            }
        }
        text += "\n| processor (emulated) | programs | tests run | skipped | failed programs | hours |\n|---|---|---|---|---|---|\n";
        for (cpu, programs) in &self.by_cpu {
            let all = programs.values();
            let sum = |of: fn(&Last) -> usize| all.clone().map(of).sum::<usize>();
            let failed: Vec<&str> = programs
                .iter()
                .filter_map(|(name, last)| (!last.passed).then_some(name.as_str()))
                .collect();
            let seconds: u64 = all.clone().map(|last| last.seconds).sum();
            let _ = writeln!(
                text,
                "| {cpu} | {} | {} | {} | {} | {:.1} |",
                programs.len(),
                sum(|last| last.ran),
                sum(|last| last.skipped),
                if failed.is_empty() {
                    "none".to_owned()
                } else {
                    failed.join(", ")
                },
                seconds as f64 / 3_600.0
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tally::Tally;

    fn trial() -> Trial {
        Trial {
            built_ns: 7,
            cases: 64,
            every: 1,
            starts: true,
        }
    }

    fn tally(ran: usize) -> Tally {
        Tally::of(&format!(
            "test result: ok. {ran} passed; 0 failed; 2 ignored; 0 measured\n"
        ))
    }

    #[test]
    fn results_persist_for_the_same_program_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        let mut results = Results::read(file.clone()).unwrap();
        let passed = End::Passed(tally(5), Duration::from_secs(7_200));
        let failed = End::Failed(tally(3), Duration::from_secs(1), "a::b".to_owned());
        results
            .keep("max", "polychip-ops", Last::new(trial(), &passed, 1, "abc"))
            .unwrap();
        results
            .keep("max", "polychip-graph", Last::new(trial(), &failed, 0, "abc"))
            .unwrap();

        let again = Results::read(file.clone()).unwrap();
        let ops = again.of("max", "polychip-ops").unwrap();
        assert!(ops.holds(&trial()));
        for other in [
            Trial {
                built_ns: 8,
                ..trial()
            },
            Trial { cases: 4, ..trial() },
            Trial { every: 5, ..trial() },
            Trial {
                starts: false,
                ..trial()
            },
        ] {
            assert!(!ops.holds(&other));
        }
        assert!(!again.of("max", "polychip-graph").unwrap().holds(&trial()));
        assert!(again.of("cortex-a53", "polychip-ops").is_none());
        let table = again.table();
        assert!(
            table.contains("| max | 2 | 8 | 5 | polychip-graph | 2.0 |"),
            "{table}"
        );
        assert!(table.contains("polychip-graph (abc): FAILED"), "{table}");

        std::fs::write(&file, "{").unwrap();
        let error = Results::read(file).err().unwrap();
        assert!(format!("{error:#}").contains("remove the file to run all again"));
    }
}
