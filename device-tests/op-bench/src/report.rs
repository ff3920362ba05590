//! The figures as a table and as JSON: sorted by how far the prediction is off, the worst first.
//!
//! Invariant: a ratio is predicted over measured; how far it is off is the larger of it and its inverse.
#![allow(clippy::print_stdout, clippy::print_stderr)] // it is what this program is for

use std::fmt;
use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::measure::{Conditions, Figures, Row};

/// All figures of a call.
#[derive(Serialize)]
pub(crate) struct Report {
    threads: u32,
    /// The figure that a prediction is compared with.
    judged_by: &'static str,
    cases: usize,
    /// Predicted over measured: how far the median case is off, and the worst.
    median_off: f64,
    worst_off: f64,
    /// Cases that are off by more than twice and five times.
    beyond_2: usize,
    beyond_5: usize,
    rows: Vec<Row>,
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Says on a terminal which case is running; nothing where it was the last.
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

impl Report {
    /// Sorts the rows and sums them up.
    pub(crate) fn new(conditions: &Conditions, mut rows: Vec<Row>) -> Report {
        let busy = conditions.busy;
        let key = |row: &Row| row.figures.as_ref().map_or(f64::INFINITY, |f| off(f, busy));
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
        let off: Vec<f64> = rows
            .iter()
            .filter_map(|row| row.figures.as_ref().ok())
            .map(|figures| off(figures, busy))
            .collect();
        Report {
            threads: conditions.threads,
            judged_by: if busy {
                "least processor time of a run"
            } else {
                "median run"
            },
            cases: off.len(),
            // sorted already, the worst first
            median_off: off.get(off.len() / 2).copied().unwrap_or(f64::NAN),
            worst_off: off.first().copied().unwrap_or(f64::NAN),
            beyond_2: off.iter().filter(|&&off| off > 2.0).count(),
            beyond_5: off.iter().filter(|&&off| off > 5.0).count(),
            rows,
        }
    }

    /// Whether a case has no figures.
    pub(crate) fn failed(&self) -> bool {
        self.rows.iter().any(|row| row.figures.is_err())
    }

    /// Writes the figures as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_vec_pretty(self)?).with_context(|| path.display().to_string())
    }
}

fn measured(figures: &Figures, busy: bool) -> u64 {
    if busy { figures.least_ns } else { figures.median_ns }
}

fn ratio(figures: &Figures, busy: bool) -> f64 {
    figures.predicted_ns.max(1) as f64 / measured(figures, busy).max(1) as f64
}

fn off(figures: &Figures, busy: bool) -> f64 {
    let ratio = ratio(figures, busy);
    ratio.max(1.0 / ratio)
}

/// Nanoseconds with a unit that leaves three figures.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// What the CPU computes a model with: its dearest kinds of steps, those of the reference in capitals.
fn path(figures: &Figures) -> String {
    let mut names: Vec<String> = Vec::new();
    for step in &figures.steps {
        let name = if step.reference {
            format!("REFERENCE {}", step.class)
        } else {
            step.class.clone()
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy = self.judged_by == "least processor time of a run";
        let peers = self
            .rows
            .iter()
            .any(|row| row.figures.as_ref().is_ok_and(|f| f.peer_ns.is_some()));
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut header = vec!["case", "predicted", "measured", "ratio"];
        if peers {
            header.extend(["peer", "ours/peer"]);
        }
        header.push("computed by");
        table.set_header(header);
        for row in &self.rows {
            let Ok(figures) = &row.figures else { continue };
            let mut cells = vec![
                row.name.clone(),
                time(figures.predicted_ns),
                time(measured(figures, busy)),
                format!("{:.2}", ratio(figures, busy)),
            ];
            if peers {
                let peer = figures.peer_ns;
                cells.push(peer.map_or_else(|| "-".to_owned(), time));
                cells.push(peer.map_or_else(
                    || "-".to_owned(),
                    |peer| format!("{:.2}", measured(figures, busy) as f64 / peer.max(1) as f64),
                ));
            }
            cells.push(path(figures));
            table.add_row(cells);
        }
        for column in 1..if peers { 6 } else { 4 } {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(f, "{table}")?;
        for row in &self.rows {
            if let Err(words) = &row.figures {
                writeln!(f, "FAILED {}: {words}", row.name)?;
            }
        }
        write!(
            f,
            "{} cases, predicted without a profile over {}: median off by {:.2}, worst by {:.1}; {} beyond 2, {} beyond 5",
            self.cases, self.judged_by, self.median_off, self.worst_off, self.beyond_2, self.beyond_5
        )
    }
}
