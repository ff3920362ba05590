//! A report as one HTML page.
//!
//! Invariants:
//! 1. The page is self-contained: its own policy forbids scripts, network and other files.
//! 2. The template escapes texts of models, boards and devices.
//! 3. It has at most [`MOST`] bytes: beyond that, cells without a finding lose their details, then all cells, then
//!    items are omitted, which the page reports.

mod chart;

use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Cell, Report, Status};
use crate::compare::{Row, Verdict, time};

/// Most bytes of a page.
const MOST: usize = 1_000_000;

const STYLE: &str = include_str!("page/page.css");

/// Cells whose details are shown.
#[derive(Clone, Copy, PartialEq)]
enum Details {
    All,
    Findings,
    None,
}

/// What of a report is shown.
#[derive(Clone, Copy)]
struct Shown {
    details: Details,
    /// Items, at most.
    items: usize,
}

impl Report {
    /// The page.
    #[must_use]
    pub fn html(&self) -> String {
        let items = self.cells.len().max(1);
        let page = |details, items| self.page(Shown { details, items }).into_string();
        for details in [Details::All, Details::Findings] {
            let page = page(details, items);
            if page.len() <= MOST {
                return page;
            }
        }
        let mut shown = items;
        loop {
            let page = page(Details::None, shown);
            if page.len() <= MOST || shown == 1 {
                return page;
            }
            shown /= 2;
        }
    }

    fn page(&self, shown: Shown) -> Markup {
        let newest = self.snapshots.last();
        let title = newest.map_or("Device farm".to_owned(), |newest| {
            format!("Device farm: {}", newest.name)
        });
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                    title { (title) }
                    link rel="icon" href="data:,";
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#results" { "Skip to the results" }
                    header {
                        h1 { (title) }
                        p { (self.summary()) }
                        nav aria-label="Sections" { ul {
                            @if self.comparison.is_some() { li { a href="#changes" { "Changes" } } }
                            li { a href="#results" { "Results" } }
                            li { a href="#details" { "Details" } }
                            li { a href="#snapshots" { "Snapshots" } }
                        } }
                    }
                    main {
                        @if self.comparison.is_some() { (self.changes(shown)) }
                        (self.matrix(shown))
                        (self.details(shown.details))
                        (self.snapshot_list())
                    }
                    footer { p {
                        "Latencies are medians of batch medians, from submission to outputs; bars are 95 % intervals over the batches "
                        "of a snapshot. Written by polychip " (env!("CARGO_PKG_VERSION")) "."
                    } }
                }
            }
        }
    }

    /// What the comparison found, and what it is not sure of.
    fn changes(&self, shown: Shown) -> Markup {
        let Some(comparison) = &self.comparison else {
            return html! {};
        };
        let is_shown =
            |row: &&Row| row.verdict != Verdict::Same && (row.verdict != Verdict::Unsure || row.suspicious);
        let mut rows: Vec<&Row> = comparison.rows.iter().filter(is_shown).collect();
        rows.sort_by_key(|row| row.verdict);
        let left_out = rows.len().saturating_sub(shown.items);
        rows.truncate(shown.items);
        html! {
            section id="changes" aria-labelledby="changes-title" {
                h2 id="changes-title" { "Changes" }
                p { (comparison.method()) }
                @if comparison.same_build { p { "Both sides are the same build: any finding is due to chance." } }
                @if left_out > 0 { p { (left_out) " changes are not shown; polychip farm compare --json lists them." } }
                @if rows.is_empty() { p { "No change was found." } } @else {
                    div.wide role="group" tabindex="0" aria-label="Table of changes" { table {
                        thead { tr {
                            th scope="col" { "verdict" } th scope="col" { "item" } th scope="col" { "board" }
                            th.figure scope="col" { "median" } th.figure scope="col" { "change, 95 %" }
                            th.figure scope="col" { "pairs" } th scope="col" { "why" }
                        } }
                        tbody { @for row in rows { tr {
                            td { (self.verdict(row)) }
                            td { (row.item) } td { (row.kind) " " (emulated(row.emulated)) }
                            td.figure { (row.medians().unwrap_or_default()) }
                            td.figure { (row.changed().unwrap_or_default()) }
                            td.figure { (row.rounds) }
                            td { @for note in row.notes.iter().chain(&row.left_out) { (note) "; " } }
                        } } }
                    } }
                }
            }
        }
    }

    fn verdict(&self, row: &Row) -> Markup {
        let word = if row.suspicious {
            "suspicious"
        } else {
            row.verdict.word()
        };
        let class = match row.verdict {
            _ if self.is_regression(row) => "verdict bad",
            Verdict::Faster | Verdict::NowRuns => "verdict good",
            _ => "verdict",
        };
        html! { span class=(class) { (word) } }
    }

    /// Items by board types.
    fn matrix(&self, shown: Shown) -> Markup {
        let boards: BTreeSet<(&str, bool)> = self.cells.iter().map(of_board).collect();
        let mut items: BTreeMap<&str, CellsByBoard<'_>> = BTreeMap::new();
        for (at, cell) in self.cells.iter().enumerate() {
            items
                .entry(&cell.item)
                .or_default()
                .insert(of_board(cell), (at, cell));
        }
        let left_out = items.len().saturating_sub(shown.items);
        let items: Vec<_> = items.into_iter().take(shown.items).collect();
        html! {
            section id="results" tabindex="-1" aria-labelledby="results-title" {
                h2 id="results-title" { "Results" }
                @if left_out > 0 { p { (left_out) " items are not shown; polychip farm report --json lists them." } }
                p { "Each cell shows the newest snapshot; the line is the history over all snapshots, oldest first." }
                div.wide role="group" tabindex="0" aria-label="Table of results" { table.matrix {
                    thead { tr {
                        th scope="col" { "item" }
                        @for (kind, is_emulated) in &boards { th scope="col" { (kind) " " (emulated(*is_emulated)) } }
                    } }
                    tbody { @for (item, cells) in &items { tr {
                        th scope="row" { (item) }
                        @for board in &boards { td {
                            @if let Some((at, cell)) = cells.get(board) { (self.cell(*at, cell, shown.details)) } @else { span.soft { "not asked" } }
                        } }
                    } } }
                } }
            }
        }
    }

    fn cell(&self, at: usize, cell: &Cell, details: Details) -> Markup {
        let target = if self.is_detailed(cell, details) {
            format!("#cell-{at}")
        } else {
            "#details".to_owned()
        };
        html! {
            a href=(target) { @match (cell.ended, cell.newest()) {
                (Status::Measured, Some(newest)) => (time(newest.median_ns)),
                (Status::Measured, None) if !cell.failed.is_empty() => { (cell.failed.len()) " cases fail" }
                (Status::Measured, None) => "ran",
                (Status::Refused, _) => "unsupported",
                (Status::Failed, _) => "failed",
                (Status::NotDone, _) => "no result",
            } }
            " " (emulated(cell.emulated))
            @if let Some(row) = self.row(cell) {
                @if row.verdict != Verdict::Same && (row.verdict != Verdict::Unsure || row.suspicious) { " " (self.verdict(row)) }
            }
            @if cell.history.len() > 1 { (chart::sparkline(&cell.history)) }
            @if let Some(energy) = &cell.energy {
                span.line { (joules(energy.nanojoules)) " (" (energy.provenance) ")" }
            }
            @if !cell.shares.is_empty() { (chart::shares(&cell.shares)) }
            @if let Some(reason) = &cell.reason { span.line.soft { (short(reason)) } }
        }
    }

    fn is_detailed(&self, cell: &Cell, details: Details) -> bool {
        let is_known = |row: &Row| row.verdict != Verdict::Same && row.verdict != Verdict::Unsure;
        match details {
            Details::All => true,
            Details::Findings => {
                cell.ended != Status::Measured
                    || !cell.failed.is_empty()
                    || self.row(cell).is_some_and(is_known)
            }
            Details::None => false,
        }
    }

    fn details(&self, details: Details) -> Markup {
        let hidden = self
            .cells
            .iter()
            .filter(|cell| !self.is_detailed(cell, details))
            .count();
        html! {
            section id="details" aria-labelledby="details-title" {
                h2 id="details-title" { "Details" }
                @if hidden > 0 {
                    p { "Details of " (hidden) " cells are not shown, to keep the page small; "
                        "polychip farm report --json lists them." }
                }
                @for (at, cell) in self.cells.iter().enumerate() {
                    @if self.is_detailed(cell, details) { (self.detail(at, cell)) }
                }
            }
        }
    }

    fn detail(&self, at: usize, cell: &Cell) -> Markup {
        html! {
            details.card id={ "cell-" (at) } {
                summary { (cell.item) " on " (cell.kind) " " (emulated(cell.emulated)) }
                dl {
                    @if let Some(newest) = cell.newest() {
                        dt { "latency" }
                        dd { (time(newest.median_ns)) (interval(newest)) ", " (newest.batches) " batches" }
                    }
                    @if let Some(predicted) = cell.predicted_ns { dt { "predicted" } dd { (time(predicted)) } }
                    @if let Some(row) = self.row(cell) {
                        dt { "against the baseline" }
                        dd { (self.verdict(row)) " " (row.changed().unwrap_or_default())
                            @for note in row.notes.iter().chain(&row.left_out) { "; " (note) } }
                    }
                    @if let Some(energy) = &cell.energy {
                        dt { "energy" } dd { (joules(energy.nanojoules)) " a run, " (energy.provenance) }
                    }
                    @if let Some(load) = cell.load_ns { dt { "load" } dd { (time(load)) } }
                    @if let Some(peak) = cell.peak_bytes { dt { "memory" } dd { (peak.div_ceil(1 << 20)) " MiB" } }
                    @if let Some(passed) = cell.passed { dt { "suite" } dd { (passed) " pass, " (cell.failed.len()) " fail" } }
                    @if let Some(reason) = &cell.reason { dt { "reason" } dd { (reason) } }
                    dt { "of" }
                    dd { @for source in &cell.sources { span.line { (source) } } }
                }
                @if !cell.failed.is_empty() { ul { @for case in &cell.failed { li { (case) } } } }
                @if !cell.plan.is_empty() { table {
                    caption { "Plan" }
                    thead { tr { th scope="col" { "device" } th.figure scope="col" { "nodes" }
                        th.figure scope="col" { "time" } th scope="col" { "provenance" } } }
                    tbody { @for part in &cell.plan { tr {
                        td { (part.device) } td.figure { (part.nodes) } td.figure { (time(part.ns)) } td { (part.provenance) }
                    } } }
                } }
                @if !cell.refused.is_empty() { table {
                    caption { "Refused" }
                    thead { tr { th scope="col" { "device" } th scope="col" { "op" } th.figure scope="col" { "nodes" }
                        th scope="col" { "why" } } }
                    tbody { @for refused in &cell.refused { tr {
                        td { (refused.device) } td { (refused.op) } td.figure { (refused.nodes) } td { (refused.reason) }
                    } } }
                } }
                @if cell.history.len() > 1 { table {
                    caption { "History" }
                    thead { tr { th scope="col" { "snapshot" } th.figure scope="col" { "median" } th.figure scope="col" { "95 %" }
                        th.figure scope="col" { "batches" } } }
                    tbody { @for point in &cell.history { tr {
                        td { (point.snapshot) } td.figure { (time(point.median_ns)) } td.figure { (interval(point)) }
                        td.figure { (point.batches) }
                    } } }
                } }
                @if !cell.windows.is_empty() { table {
                    caption { "Soak" }
                    thead { tr { th.figure scope="col" { "until" } th.figure scope="col" { "median" } } }
                    tbody { @for (end_ms, median) in &cell.windows { tr {
                        td.figure { (end_ms / 1_000) " s" } td.figure { (time(*median)) }
                    } } }
                } }
            }
        }
    }

    fn snapshot_list(&self) -> Markup {
        html! {
            section id="snapshots" aria-labelledby="snapshots-title" {
                h2 id="snapshots-title" { "Snapshots" }
                @if !self.troubles.is_empty() {
                    h3 { "Not measured in the newest snapshot" }
                    ul { @for trouble in &self.troubles { li { (trouble) } } }
                }
                div.wide role="group" tabindex="0" aria-label="Table of snapshots" { table {
                    thead { tr { th scope="col" { "snapshot" } th scope="col" { "runs" } th scope="col" { "commit" }
                        th scope="col" { "builds" } th.figure scope="col" { "records" } } }
                    tbody { @for line in &self.snapshots { tr {
                        td { (line.name) } td { (line.runs.join(", ")) } td { (line.commits.join(", ")) }
                        td { (line.builds.join(", ")) } td.figure { (line.records) }
                    } } }
                } }
            }
        }
    }
}

/// Cells of an item by board type, with their numbers.
type CellsByBoard<'a> = BTreeMap<(&'a str, bool), (usize, &'a Cell)>;

fn of_board(cell: &Cell) -> (&str, bool) {
    (&cell.kind, cell.emulated)
}

/// The label of emulated figures.
fn emulated(is_emulated: bool) -> Markup {
    html! { @if is_emulated { span.label { "emulated" } } }
}

fn interval(point: &super::Point) -> String {
    let ends = point
        .interval
        .map(|interval| (time(interval.low_ns), time(interval.high_ns)));
    ends.map_or_else(String::new, |(low, high)| format!(" [{low}, {high}]"))
}

fn joules(nanojoules: u64) -> String {
    match nanojoules {
        0..1_000_000 => format!("{:.1} µJ", nanojoules as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} mJ", nanojoules as f64 / 1e6),
        _ => format!("{:.2} J", nanojoules as f64 / 1e9),
    }
}

/// The beginning of words that may be long.
fn short(words: &str) -> String {
    match words.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_owned(),
    }
}
