//! A report as CSV (RFC 4180), a line per item and board type, for spreadsheets and scripts.

use polychip_farm_record::printable;

use super::{Cell, Report, Status};

/// Names of the columns.
const HEADER: [&str; 16] = [
    "item",
    "job",
    "kind",
    "emulated",
    "boards",
    "status",
    "reason",
    "snapshot",
    "median_ns",
    "low_ns",
    "high_ns",
    "batches",
    "energy_nj",
    "load_ns",
    "peak_bytes",
    "took_ms",
];

impl Report {
    /// The newest figures of each cell; what is not known is empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = line(HEADER.map(str::to_owned));
        for cell in &self.cells {
            text.push_str(&line(cell.columns()));
        }
        text
    }
}

impl Cell {
    fn columns(&self) -> [String; 16] {
        let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        let newest = self.newest();
        let interval = newest.and_then(|point| point.interval.as_ref());
        let status = match self.ended {
            Status::Measured => "measured",
            Status::Refused => "unsupported",
            Status::Failed => "failed",
            Status::NotDone => "no result",
        };
        [
            self.item.clone(),
            self.job.to_string(),
            self.kind.clone(),
            self.emulated.to_string(),
            self.places().join(" "),
            status.to_owned(),
            self.reason.clone().unwrap_or_default(),
            newest.map_or_else(String::new, |point| point.snapshot.clone()),
            number(newest.map(|point| point.median_ns)),
            number(interval.map(|interval| interval.low_ns)),
            number(interval.map(|interval| interval.high_ns)),
            number(newest.map(|point| point.batches as u64)),
            number(self.energy.as_ref().map(|energy| energy.nanojoules)),
            number(self.load_ns),
            number(self.peak_bytes),
            self.took_ms.to_string(),
        ]
    }
}

/// A line with its end. A text that a spreadsheet would take for a formula begins with an apostrophe.
fn line(fields: [String; 16]) -> String {
    let fields = fields.map(|field| {
        let mut field = printable(&field).into_owned();
        if field.starts_with(['=', '+', '-', '@']) {
            field.insert(0, '\'');
        }
        if field.contains([',', '"']) {
            field = format!("\"{}\"", field.replace('"', "\"\""));
        }
        field
    });
    fields.join(",") + "\r\n"
}
