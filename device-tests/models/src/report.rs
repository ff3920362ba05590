//! The figures as a table in Markdown and as JSON.
//!
//! Invariant: a ratio is ours over ONNX Runtime's, from medians of one interleaved run.
#![allow(clippy::print_stdout, clippy::print_stderr)] // it is what this program is for

use std::fmt;
use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::versus::{Conditions, Outcome, Pair};

/// A model's row.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

/// All figures of a call.
#[derive(Serialize)]
pub(crate) struct Report {
    threads: u32,
    devices: Vec<String>,
    rows: Vec<Row>,
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Says on a terminal which model is running; nothing where it was the last.
pub(crate) fn progress(index: usize, all: usize, name: &str) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    if all == 0 {
        eprint!("\r\x1b[K");
    } else {
        eprint!("\r\x1b[K{index} of {all}: {name}");
    }
}

/// Distance from the peer's outputs, over the largest value of each, beyond which an answer is another one. Sums of
/// thousands of products in another order come to this.
const TOLERANCE: f64 = 1e-4;
/// The same for models in 16-bit floats or in bytes, which round at every op.
const COARSE: f64 = 2e-3;

impl Pair {
    fn ratio(&self) -> f64 {
        self.ours.median_ns as f64 / self.peer.median_ns.max(1) as f64
    }

    fn memory(&self) -> f64 {
        self.ours.peak_bytes as f64 / self.peer.peak_bytes.max(1) as f64
    }

    fn deviation(&self) -> f64 {
        self.outputs
            .iter()
            .fold(0.0, |most, output| most.max(output.deviation))
    }

    /// Why the outputs are other ones than the peer's.
    fn wrong(&self) -> Option<String> {
        let differs = self.outputs.iter().find_map(|output| {
            let words = output.differs.as_ref()?;
            Some(format!("{}: {words}", output.output))
        });
        differs.or_else(|| (self.deviation() > COARSE).then(|| format!("apart {:.1e}", self.deviation())))
    }
}

fn geomean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

impl Report {
    pub(crate) fn new(conditions: &Conditions, rows: Vec<Row>) -> Report {
        Report {
            threads: conditions.threads,
            devices: conditions.devices.clone(),
            rows,
        }
    }

    fn pairs(&self) -> impl Iterator<Item = &Pair> + Clone {
        self.rows.iter().filter_map(|row| match &row.outcome {
            Outcome::Ran(pair) => Some(pair),
            _ => None,
        })
    }

    /// Whether a model that the peer runs is refused, or gives other answers.
    pub(crate) fn failed(&self) -> bool {
        self.pairs().any(|pair| pair.wrong().is_some())
            || self
                .rows
                .iter()
                .any(|row| matches!(row.outcome, Outcome::WeRefuse(_)))
    }

    /// Writes the figures as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_vec_pretty(self)?).with_context(|| path.display().to_string())
    }
}

fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    let digits = if ms < 1.0 { 3 } else { 1 + usize::from(ms < 100.0) };
    format!("{ms:.digits$}")
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / 1e6)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "model",
            "ms",
            "ONNX Runtime",
            "ratio",
            "MB",
            "ONNX Runtime",
            "ratio",
            "load ms",
            "ONNX Runtime",
            "apart",
            "",
        ]);
        let mut reasons = Vec::new();
        let is_here = |row: &&Row| !matches!(row.outcome, Outcome::Missing);
        for row in self.rows.iter().filter(is_here) {
            let mut cells = vec![row.name.clone()];
            match &row.outcome {
                Outcome::Ran(pair) => {
                    cells.extend([
                        milliseconds(pair.ours.median_ns),
                        milliseconds(pair.peer.median_ns),
                        format!("{:.2}", pair.ratio()),
                        megabytes(pair.ours.peak_bytes),
                        megabytes(pair.peer.peak_bytes),
                        format!("{:.2}", pair.memory()),
                        milliseconds(pair.ours.load_ns),
                        milliseconds(pair.peer.load_ns),
                        format!("{:.0e}", pair.deviation()),
                    ]);
                    match pair.wrong() {
                        Some(words) => {
                            cells.push("WRONG".to_owned());
                            reasons.push(format!("{}: {words}", row.name));
                        }
                        None => cells.push(String::new()),
                    }
                    if !pair.reference.is_empty() {
                        let steps = pair.reference.join(", ");
                        reasons.push(format!("{}: computed by the scalar reference: {steps}", row.name));
                    }
                }
                other => {
                    let (verdict, words) = match other {
                        Outcome::PeerRefuses(words) => ("ONNX Runtime refuses", words.as_str()),
                        Outcome::WeRefuse(words) => ("REFUSED", words.as_str()),
                        Outcome::Ran(_) | Outcome::Missing => {
                            unreachable!("invariant: rows that are here, and did not run")
                        }
                    };
                    cells.extend(std::iter::repeat_n(String::new(), 9));
                    cells.push(verdict.to_owned());
                    let words: Vec<&str> = words.split_whitespace().collect();
                    reasons.push(format!("{}: {}", row.name, words.join(" ")));
                }
            }
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1).take(9) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}\n")?;
        let missing = self.rows.len() - self.rows.iter().filter(is_here).count();
        if missing > 0 {
            reasons.push(format!(
                "{missing} models are missing: fetch them with `cargo xtask trained --fetch`, tabular ones with `--tabular`"
            ));
        }
        for reason in &reasons {
            writeln!(f, "- {reason}")?;
        }
        if !reasons.is_empty() {
            writeln!(f)?;
        }
        let ratios = self.pairs().map(Pair::ratio);
        let count = |beyond: f64| ratios.clone().filter(|&ratio| ratio > beyond).count();
        let far = self.pairs().filter(|pair| pair.deviation() > TOLERANCE).count();
        let scalar = self.pairs().filter(|pair| !pair.reference.is_empty()).count();
        write!(
            f,
            "{} of {} available models ran, {} threads: geometric mean time ratio {:.2}, {} above 1.3, {} above 2, {} above 5; \
             peak memory ratio {:.2}, load time ratio {:.2}; {far} outputs differ by more than {TOLERANCE:.0e}; {scalar} models \
             use the scalar reference.",
            ratios.clone().count(),
            self.rows.iter().filter(is_here).count(),
            self.threads,
            geomean(ratios.clone()),
            count(1.3),
            count(2.0),
            count(5.0),
            geomean(self.pairs().map(Pair::memory)),
            geomean(
                self.pairs()
                    .map(|pair| pair.ours.load_ns as f64 / pair.peer.load_ns.max(1) as f64)
            ),
        )
    }
}
