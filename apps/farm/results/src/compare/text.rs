//! A comparison as text for a terminal.

use std::fmt;

use polychip_farm_record::printable;

use super::{Change, Comparison, MOST_ROUNDS, Row, Side, Verdict};
use crate::run::{Missing, Silent, Torn};
use crate::selection::Source;

/// Verdicts whose rows are listed one by one, in this order.
pub(super) const LISTED: [Verdict; 7] = [
    Verdict::NowFails,
    Verdict::NowRefused,
    Verdict::Slower,
    Verdict::Gone,
    Verdict::Faster,
    Verdict::NowRuns,
    Verdict::New,
];

/// A time with three digits that count.
pub(crate) fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..10_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// A board type, followed by the names of its boards unless it is called like its only one.
pub(crate) fn with_places(board: String, kind: &str, places: &[String]) -> String {
    match places {
        [] => board,
        [place] if place == kind => board,
        places => format!("{board} [{}]", printable(&places.join(", "))),
    }
}

impl Row {
    /// The board type, with the label of emulated figures.
    pub(super) fn board(&self) -> String {
        if self.emulated {
            format!("{} (emulated)", printable(&self.kind))
        } else {
            printable(&self.kind).into_owned()
        }
    }

    /// The board type, and the boards that measured it.
    pub(super) fn on(&self) -> String {
        with_places(self.board(), &self.kind, &self.places)
    }

    /// What was measured before and now.
    pub(crate) fn medians(&self) -> Option<String> {
        let of = |side: &Option<Side>| {
            side.as_ref()
                .filter(|side| side.samples > 0)
                .map(|side| time(side.median_ns))
        };
        Some(format!("{} → {}", of(&self.base)?, of(&self.new)?))
    }

    /// What would decide a suspicious row.
    pub(super) fn again(&self) -> Option<String> {
        let pairs = self.rounds_to_decide?;
        Some(if pairs < MOST_ROUNDS {
            format!("measure it again in {pairs} pairs")
        } else {
            format!("measure it again in {pairs} pairs, the maximum, or on a quieter board")
        })
    }

    /// The change, with its interval where pairs give one.
    pub(crate) fn changed(&self) -> Option<String> {
        match &self.change {
            Some(change) => Some(change.to_string()),
            None => self
                .crude_percent
                .map(|percent| format!("{percent:+.1} % without pairs")),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:+.1} % [{:+.1}, {:+.1}]",
            self.percent, self.low_percent, self.high_percent
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.item, self.on())?;
        if let Some(medians) = self.medians() {
            write!(f, ": {medians}")?;
        }
        if let Some(changed) = self.changed() {
            write!(f, ", {changed}")?;
        }
        if self.change.is_some() {
            write!(f, ", {} pairs", self.rounds)?;
        }
        for note in self.notes.iter().chain(&self.left_out).chain(&self.again()) {
            write!(f, "; {}", printable(note))?;
        }
        Ok(())
    }
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "run {}, board {}: the last record was cut off ({} bytes) and is ignored",
            printable(&self.run),
            printable(&self.place),
            self.bytes
        )
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "run {}: no result of {}",
            printable(&self.run),
            printable(&self.item)
        )?;
        match &self.reason {
            Some(reason) => write!(f, "; {}", printable(reason)),
            None => write!(f, "; boards: {}", printable(&self.places.join(", "))),
        }
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (run, place) = (printable(&self.run), printable(&self.place));
        write!(f, "run {run}: board {place} never answered")?;
        match &self.reason {
            Some(reason) => write!(f, "; {}", printable(reason)),
            None => Ok(()),
        }
    }
}

impl Comparison {
    /// What is wrong with the runs themselves, a line each.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let torn = self.torn.iter().map(ToString::to_string);
        let missing = self.missing.iter().map(ToString::to_string);
        let silent = self.silent.iter().map(ToString::to_string);
        torn.chain(missing).chain(silent).collect()
    }

    /// How many rows have which verdict: `2 slower, 40 same`.
    #[must_use]
    pub fn counts(&self) -> String {
        let order = LISTED.into_iter().chain([Verdict::Unsure, Verdict::Same]);
        let counts = order.filter_map(|verdict| {
            let rows = self.with(verdict).count();
            (rows > 0).then(|| format!("{rows} {}", verdict.word()))
        });
        let counts: Vec<String> = counts.collect();
        if counts.is_empty() {
            "nothing to compare".to_owned()
        } else {
            counts.join(", ")
        }
    }

    /// What the comparison rests on, in one sentence.
    pub(crate) fn method(&self) -> String {
        format!(
            "A change counts from {} %, with a false-discovery rate of at most {} %; intervals are 95 % over pairs of batches.",
            self.relevant_percent, self.discovery_percent
        )
    }
}

/// Builds and runs of a side, as text.
pub(super) fn of_side(sources: &[Source]) -> String {
    let mut names: Vec<String> = Vec::new();
    for source in sources {
        let name = format!(
            "{} by {}",
            printable(&source.run),
            crate::selection::build_words(&source.build)
        );
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        "no records".to_owned()
    } else {
        names.join(", ")
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "BASE: {}", of_side(&self.base))?;
        writeln!(f, "NEW: {}", of_side(&self.new))?;
        if self.same_build {
            writeln!(f, "both are the same build: any finding is due to chance")?;
        }
        for verdict in LISTED {
            for row in self.with(verdict) {
                writeln!(f, "{}: {row}", verdict.word())?;
            }
        }
        for row in self.with(Verdict::Unsure) {
            let word = if row.suspicious { "suspicious" } else { "unsure" };
            writeln!(f, "{word}: {row}")?;
        }
        for trouble in self.troubles() {
            writeln!(f, "{trouble}")?;
        }
        writeln!(f, "{}", self.method())?;
        write!(f, "{}", self.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let words = [
            0,
            999,
            1_500,
            12_340,
            999_400,
            9_996_000,
            123_456_789,
            12_000_000_000,
        ]
        .map(time);
        assert_eq!(
            words,
            [
                "0 ns", "999 ns", "1.50 µs", "12.3 µs", "999 µs", "10.0 ms", "123 ms", "12.0 s"
            ]
        );
    }
}
