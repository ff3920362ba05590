//! Results of all mutants.
//!
//! Invariant: a finding names model and seed, so that `polychip-mutants one MODEL SEED` makes it again.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::serve::{Answer, Ask, Outcome};

/// How many mutants of a kind are kept as examples.
const EXAMPLES: usize = 20;

/// A mutant that did what none may.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    words: String,
    model: PathBuf,
    seed: u64,
}

impl Finding {
    pub(crate) fn new(ask: &Ask, words: String) -> Finding {
        Finding {
            words,
            model: ask.model.clone(),
            seed: ask.seed,
        }
    }
}

/// Counts and findings.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    tried: u64,
    ran: u64,
    large: u64,
    long: u64,
    /// By kind of error.
    refused: BTreeMap<String, u64>,
    /// What ended in an error of a device although the model is bad, some of each.
    of_device: Vec<Finding>,
    longest_ms: u64,
    largest_peak_bytes: u64,
    findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn found(&mut self, finding: Finding) {
        self.tried += 1;
        self.findings.push(finding);
    }

    pub(crate) fn add(&mut self, ask: &Ask, answer: Answer) {
        self.tried += 1;
        self.longest_ms = self.longest_ms.max(answer.ms);
        self.largest_peak_bytes = self.largest_peak_bytes.max(answer.peak_bytes);
        match answer.result {
            Outcome::Ran => self.ran += 1,
            Outcome::Large => self.large += 1,
            Outcome::Long => self.long += 1,
            Outcome::Refused(kind, words) => {
                let of_device = kind.starts_with("Device") || kind == "none";
                *self.refused.entry(kind).or_default() += 1;
                if of_device && self.of_device.len() < EXAMPLES {
                    self.of_device.push(Finding::new(ask, words));
                }
            }
            Outcome::Panicked(words) => self.findings.push(Finding::new(ask, format!("panics: {words}"))),
        }
    }

    pub(crate) fn sorted(mut self) -> Report {
        self.findings.sort();
        self.of_device.sort();
        self
    }

    /// Whether every mutant ran or was refused, in time and memory.
    #[must_use]
    pub fn clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, title: &str, all: &[Finding]| {
            if !all.is_empty() {
                writeln!(f, "{title}:")?;
            }
            for finding in all {
                writeln!(
                    f,
                    "  one {} {}: {}",
                    finding.model.display(),
                    finding.seed,
                    finding.words
                )?;
            }
            Ok::<_, fmt::Error>(())
        };
        list(f, "errors of a device, some of them", &self.of_device)?;
        list(f, "findings", &self.findings)?;
        let refused: Vec<String> = self
            .refused
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        write!(
            f,
            "{} mutants: {} ran, {} ran too long for a run, {} have large inputs, refused: {}; longest {} ms, \
             largest peak {} MiB; {} findings",
            self.tried,
            self.ran,
            self.long,
            self.large,
            refused.join(", "),
            self.longest_ms,
            self.largest_peak_bytes >> 20,
            self.findings.len()
        )
    }
}
