//! The figures as a table in Markdown and as JSON.
//!
//! Invariants:
//! 1. A ratio to ONNX Runtime is ours over its, of medians of one interleaved run; the second is of the shortest runs.
//! 2. A prediction's error factor is the larger of predicted over measured and its inverse.
#![allow(clippy::print_stdout)] // it is what this program is for

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::turns::{Conditions, Figures, Row};

/// Cases that take us less are not judged: what a call costs is most of them.
const JUDGED_NS: u64 = 30_000;

/// All figures of a call.
#[derive(Serialize)]
pub(crate) struct Report {
    threads: Vec<u32>,
    rounds: usize,
    predict: bool,
    busy: bool,
    rows: Vec<Row>,
}

/// Prints a line.
pub(crate) fn line(text: &str) {
    println!("{text}");
}

impl Figures {
    fn ratio(&self) -> Option<f64> {
        let peer = self.peer?;
        Some(self.ours.median_ns as f64 / peer.median_ns.max(1) as f64)
    }

    fn least_ratio(&self) -> Option<f64> {
        let peer = self.peer?;
        Some(self.ours.least_ns as f64 / peer.least_ns.max(1) as f64)
    }

    /// The time that a prediction is held against.
    fn measured(&self, busy: bool) -> u64 {
        if busy {
            self.least_spent_ns
        } else {
            self.own_median_ns
        }
    }

    fn off(&self, busy: bool) -> f64 {
        let ratio = self.predicted_ns.max(1) as f64 / self.measured(busy).max(1) as f64;
        ratio.max(1.0 / ratio)
    }
}

impl Row {
    fn figures(&self) -> &[Figures] {
        self.figures.as_deref().unwrap_or(&[])
    }

    fn on_reference(&self) -> bool {
        self.steps.iter().any(|step| step.reference)
    }

    /// What the CPU computes a model with: its kinds of steps, those of the reference in capitals.
    fn path(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for step in &self.steps {
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
}

fn geomean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

impl Report {
    /// Sorts the rows, the worst first: by the ratio to ONNX Runtime, or by how far predictions are off.
    pub(crate) fn new(conditions: &Conditions, (predict, busy): (bool, bool), mut rows: Vec<Row>) -> Report {
        let predict = predict || conditions.python.is_none();
        let key = |row: &Row| {
            let of = |figures: &Figures| {
                if predict {
                    Some(figures.off(busy))
                } else {
                    figures.ratio()
                }
            };
            let worst = row.figures().iter().filter_map(of).reduce(f64::max);
            worst.unwrap_or(if row.figures.is_err() { f64::INFINITY } else { 0.0 })
        };
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
        Report {
            threads: conditions.threads.clone(),
            rounds: conditions.rounds,
            predict,
            busy,
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

    /// Writes the table as a page.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn page(&self, path: &Path, remark: &str) -> Result<()> {
        let threads: Vec<String> = self.threads.iter().map(u32::to_string).collect();
        let page = format!(
            "# Single ops compared with ONNX Runtime\n\n`cargo xtask ops -- --threads {} --page {}`. {remark}\n\n\
             Polychip and ONNX Runtime alternate, {} rounds each. *ratio*: our median time divided by ONNX Runtime's; below 1 we \
             are faster. *least*: the same for the fastest runs. Each side gets images in the layout in which it is faster (`cl`: \
             channels last). *computed by*: the kernels of our plan; `REFERENCE` means the scalar reference. The worst ratios come \
             first.\n\n{self}\n",
            threads.join(" "),
            path.display(),
            self.rounds,
        );
        std::fs::write(path, page).with_context(|| path.display().to_string())
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec!["case".to_owned()];
        for threads in &self.threads {
            let of = |what: &str| format!("{what}, {threads} thr.");
            header.push(of("ours"));
            if self.rows.iter().flat_map(Row::figures).any(|f| f.peer.is_some()) {
                header.extend([of("ONNX Runtime"), of("ratio"), of("least")]);
            }
            if self.predict {
                header.extend([of("predicted"), of("off")]);
            }
        }
        header.push("computed by".to_owned());
        header
    }

    fn cells(&self, row: &Row, peers: bool) -> Vec<String> {
        let mut cells = vec![row.name.clone()];
        for figures in row.figures() {
            let timed = |ns: u64, last: bool| time(ns) + if last { " cl" } else { "" };
            cells.push(timed(figures.ours.median_ns, figures.ours.channels_last));
            if peers {
                let number =
                    |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
                let peer = figures.peer.map(|peer| timed(peer.median_ns, peer.channels_last));
                cells.extend([
                    peer.unwrap_or_else(|| "-".to_owned()),
                    number(figures.ratio()),
                    number(figures.least_ratio()),
                ]);
            }
            if self.predict {
                cells.push(time(figures.predicted_ns));
                cells.push(format!("{:.2}", figures.off(self.busy)));
            }
        }
        cells.push(row.path());
        cells
    }

    /// A line on the ratios with so many threads.
    fn ratios(&self, threads: u32) -> Option<String> {
        let own = |row: &Row| row.figures().iter().find(|f| f.threads == threads).cloned();
        let judged: Vec<Figures> = self
            .rows
            .iter()
            .filter_map(own)
            .filter(|f| f.peer.is_some())
            .collect();
        if judged.is_empty() {
            return None;
        }
        let of = |f: &dyn Fn(&Figures) -> Option<f64>, long: bool| -> Vec<f64> {
            let long = judged
                .iter()
                .filter(|figures| !long || figures.ours.median_ns >= JUDGED_NS);
            long.filter_map(f).collect()
        };
        let ratios = of(&Figures::ratio, true);
        let count = |beyond: f64| ratios.iter().filter(|&&ratio| ratio > beyond).count();
        Some(format!(
            "{threads} threads, {} cases of at least 30 µs: geometric mean ratio {:.2} (fastest runs {:.2}), {} above 1.5, {} \
             above 2, {} above 5; all {} cases: {:.2}",
            ratios.len(),
            geomean(&ratios),
            geomean(&of(&Figures::least_ratio, true)),
            count(1.5),
            count(2.0),
            count(5.0),
            judged.len(),
            geomean(&of(&Figures::ratio, false)),
        ))
    }

    /// A line on the predictions with so many threads.
    fn predictions(&self, threads: u32) -> String {
        let own = |row: &Row| {
            Some(
                row.figures()
                    .iter()
                    .find(|f| f.threads == threads)?
                    .off(self.busy),
            )
        };
        let mut off: Vec<f64> = self.rows.iter().filter_map(own).collect();
        off.sort_by(|a, b| b.total_cmp(a));
        format!(
            "{threads} threads, {} cases, prediction without a profile relative to the {}: median factor {:.2}, worst {:.1}; \
             {} above 2, {} above 5",
            off.len(),
            if self.busy {
                "minimum processor time of a run"
            } else {
                "median run"
            },
            off.get(off.len() / 2).copied().unwrap_or(f64::NAN),
            off.first().copied().unwrap_or(f64::NAN),
            off.iter().filter(|&&off| off > 2.0).count(),
            off.iter().filter(|&&off| off > 5.0).count()
        )
    }
}

/// Nanoseconds with a unit that leaves three figures.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = self.rows.iter().flat_map(Row::figures).any(|f| f.peer.is_some());
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let header = self.header();
        let columns = header.len();
        table.set_header(header);
        for row in self.rows.iter().filter(|row| row.figures.is_ok()) {
            table.add_row(self.cells(row, peers));
        }
        for column in table.column_iter_mut().skip(1).take(columns - 2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}\n")?;
        for row in &self.rows {
            if let Err(words) = &row.figures {
                writeln!(f, "- FAILED {}: {words}", row.name)?;
            }
        }
        let refused: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.refused.is_some())
            .map(|row| row.name.as_str())
            .collect();
        if !refused.is_empty() {
            writeln!(
                f,
                "- not run by ONNX Runtime ({}): {}",
                refused.len(),
                refused.join(", ")
            )?;
        }
        let slow: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.on_reference())
            .map(|row| row.name.as_str())
            .collect();
        if !slow.is_empty() {
            writeln!(
                f,
                "- on the scalar reference ({}): {}",
                slow.len(),
                slow.join(", ")
            )?;
        }
        for &threads in &self.threads {
            if let Some(words) = self.ratios(threads) {
                writeln!(f, "- {words}.")?;
            }
            if self.predict {
                writeln!(f, "- {}.", self.predictions(threads))?;
            }
        }
        Ok(())
    }
}
