//! Results of a campaign: counts, classes of differences with examples, compared ops.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::known::Side;
use crate::verdict::What;

/// A graph that differs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) index: usize,
    /// Ops of the smallest part, in order.
    pub(crate) ops: String,
    pub(crate) what: What,
    /// Whether it differs over several devices and not on the CPU alone.
    pub(crate) split: bool,
    pub(crate) referee: Side,
    pub(crate) extreme: bool,
    /// Whether ONNX Runtime with its optimisations says what we say.
    pub(crate) optimised_agrees: bool,
    /// Why ONNX's checker refuses the model.
    pub(crate) invalid: Option<String>,
    pub(crate) words: String,
    pub(crate) text: String,
    /// Why it is known.
    pub(crate) known: Option<String>,
}

/// Counts of a campaign.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) graphs: usize,
    pub(crate) equal: usize,
    pub(crate) differ: usize,
    pub(crate) refused: usize,
    /// Graphs that nothing was drawn for, or that ONNX Runtime refuses as a whole.
    pub(crate) peer_refused: usize,
    pub(crate) peer_died: usize,
    /// Graphs that were run over several parts, too.
    pub(crate) split: usize,
    pub(crate) findings: Vec<Finding>,
    /// Wrong values that were planted into answers.
    pub(crate) planted: usize,
    /// Those that a class excuses.
    pub(crate) excused: Vec<Finding>,
    /// Nodes of each op in graphs that both ran.
    pub(crate) ops: BTreeMap<String, usize>,
    /// Ops that ONNX Runtime refused as drawn, with its words.
    pub(crate) peer_refuses: BTreeMap<String, String>,
}

impl Report {
    /// Differences that nobody has explained.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.known.is_none())
    }

    /// Writes all figures as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_vec_pretty(self)?).with_context(|| path.display().to_string())
    }

    /// Planted values, by the class that excuses them.
    fn write_planted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut classes: BTreeMap<&Option<String>, Vec<&Finding>> = BTreeMap::new();
        for finding in &self.excused {
            classes.entry(&finding.known).or_default().push(finding);
        }
        writeln!(
            f,
            "{} wrong values planted, {} excused",
            self.planted,
            self.excused.len()
        )?;
        for (reason, found) in classes {
            let some: Vec<String> = found
                .iter()
                .take(6)
                .map(|finding| {
                    let (index, ops, what) = (finding.index, &finding.ops, finding.what.name());
                    format!("{index} {ops} ({what})")
                })
                .collect();
            let reason = reason.as_deref().unwrap_or_default();
            writeln!(
                f,
                "EXCUSED {} times: {}\n    {reason}",
                found.len(),
                some.join("; ")
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut classes: BTreeMap<(&str, &str, bool, &Option<String>), Vec<&Finding>> = BTreeMap::new();
        for finding in &self.findings {
            classes
                .entry((&finding.ops, finding.what.name(), finding.split, &finding.known))
                .or_default()
                .push(finding);
        }
        let mut classes: Vec<_> = classes.into_iter().collect();
        classes.sort_by_key(|((_, _, _, known), found)| (known.is_none(), found.len()));
        for ((ops, what, split, known), found) in classes {
            let first = found[0];
            let sides = |side| found.iter().filter(|finding| finding.referee == side).count();
            writeln!(
                f,
                "{} {ops}{}: {what}, {} times (graphs {}); the referee sides with us {}, with ONNX Runtime {}, with neither {}, is silent {}",
                if known.is_some() { "known" } else { "UNKNOWN" },
                if split { ", over devices" } else { "" },
                found.len(),
                found
                    .iter()
                    .take(4)
                    .map(|finding| finding.index.to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
                sides(Side::Ours),
                sides(Side::Theirs),
                sides(Side::Neither),
                sides(Side::Silent),
            )?;
            match known {
                Some(reason) => writeln!(f, "    {reason}")?,
                None => {
                    writeln!(f, "    {}", first.words)?;
                    if let Some(invalid) = &first.invalid {
                        writeln!(
                            f,
                            "    ONNX's checker refuses it: {}",
                            invalid.lines().next().unwrap_or_default()
                        )?;
                    }
                }
            }
        }
        if self.planted > 0 {
            self.write_planted(f)?;
        }
        write!(
            f,
            "{} graphs of seed {}: {} equal, {} differ, {} refused by us, {} by ONNX Runtime, which died {} times; {} split over devices; \
             {} ops; {} differences unknown",
            self.graphs,
            self.seed,
            self.equal,
            self.differ,
            self.refused,
            self.peer_refused,
            self.peer_died,
            self.split,
            self.ops.len(),
            self.unknown().count()
        )
    }
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    // a reader that has gone away wants no more
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Says how far the campaign is, where somebody looks.
pub(crate) fn progress(report: &Report, of: usize) {
    let mut to = std::io::stderr().lock();
    if to.is_terminal() {
        let _ = write!(
            to,
            "\r\x1b[K{} of {of} graphs, {} differ, {} refused",
            report.graphs, report.differ, report.refused
        );
        let _ = to.flush();
    }
}

/// Clears the line of [`progress`].
pub(crate) fn done() {
    let mut to = std::io::stderr().lock();
    if to.is_terminal() {
        let _ = write!(to, "\r\x1b[K");
        let _ = to.flush();
    }
}
