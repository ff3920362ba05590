//! A comparison as plain values.

use polychip_farm_record::{Item, Record, Wanted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::batch::{batch_median, measured, sources};
use crate::run::{Missing, Silent, Torn};
use crate::selection::Source;
use crate::statistics;

/// Fewest pairs of a repeated measurement. They find 5 % on a lightly loaded board
/// whose clock has two modes (`docs/farm-results.md`).
pub const FEW_ROUNDS: usize = 12;

/// Most pairs of a repeated measurement. They found 19 of 20 slowdowns of 5 % on a
/// virtual machine where twelve found none (`docs/farm-results.md`); beyond that, use a quieter
/// board.
pub const MOST_ROUNDS: usize = 100;

/// An item to be measured again, in the file of `farm compare --suspects`; `farm run --suspects` takes it for a [`Wanted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// The item with its places.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// Pairs that should decide it.
    pub rounds: usize,
}

/// Result of an item on a board type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It ran, and fails now.
    NowFails,
    /// It ran, and its devices refuse it now.
    NowRefused,
    /// Slower, significantly and relevantly.
    Slower,
    /// Undecided by the measurements.
    Unsure,
    /// Only BASE was asked for it.
    Gone,
    /// Faster.
    Faster,
    /// It did not run, and does now.
    NowRuns,
    /// Only NEW was asked for it.
    New,
    /// Unchanged within relevance, or the same outcome.
    Same,
}

impl Verdict {
    /// The verdict as text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::NowFails => "now fails",
            Verdict::NowRefused => "now unsupported",
            Verdict::Slower => "slower",
            Verdict::Unsure => "unsure",
            Verdict::Gone => "gone",
            Verdict::Faster => "faster",
            Verdict::NowRuns => "now runs",
            Verdict::New => "new",
            Verdict::Same => "same",
        }
    }
}

/// The comparison in the output of `farm compare --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The contents of BASE.
    pub base: Vec<Source>,
    /// The contents of NEW.
    pub new: Vec<Source>,
    /// Both sides were measured by the same builds: every finding is a false alarm.
    pub same_build: bool,
    /// Smallest change that matters, in per cent.
    pub relevant_percent: f64,
    /// Share of chance findings among those that are called slower or faster, in per cent.
    pub discovery_percent: f64,
    /// Times of emulated boards and devices fail the gate, too.
    pub emulated_gates: bool,
    /// By item and board type.
    pub rows: Vec<Row>,
    /// Truncated lines.
    pub torn: Vec<Torn>,
    /// Items without a result.
    pub missing: Vec<Missing>,
    /// Boards that never answered.
    pub silent: Vec<Silent>,
}

/// An item on a board type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The item, as text.
    pub item: String,
    /// The board type.
    pub kind: String,
    /// Times are of an emulated board or device.
    pub emulated: bool,
    /// What became of it.
    pub verdict: Verdict,
    /// May be relevantly slower: measure again, alternating.
    pub suspicious: bool,
    /// For a suspicious item: pairs of another measurement needed to decide, 12 to 100.
    pub rounds_to_decide: Option<usize>,
    /// BASE; absent if nothing ran.
    pub base: Option<Side>,
    /// NEW; absent if nothing ran.
    pub new: Option<Side>,
    /// Time of NEW over BASE, from the pairs; absent with too few pairs.
    pub change: Option<Change>,
    /// How much longer the median is, in per cent, whatever lies between the measurements.
    pub crude_percent: Option<f64>,
    /// Pairs: a batch of each side on one board, one after the other.
    pub rounds: usize,
    /// Batches that are in no pair, by reason.
    pub left_out: Vec<String>,
    /// Reasons, as text.
    pub notes: Vec<String>,
    /// NEW's model has the same name and other contents: its times are compared, and fail no gate.
    pub model_changed: bool,
    /// The item itself.
    #[serde(skip)]
    pub asked: Item,
    /// Places of these records.
    pub places: Vec<String>,
}

/// Figures of one side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// Median of the batch medians in nanoseconds; 0 if nothing was timed.
    pub median_ns: u64,
    /// 95th percentile of all runs, rounded up to a measured one, in nanoseconds.
    pub p95_ns: u64,
    /// Timed runs.
    pub samples: usize,
    /// Batches: records that ran.
    pub batches: usize,
    /// What the figures are of.
    pub sources: Vec<Source>,
}

/// Time of NEW over BASE.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Percentage of BASE; negative if faster.
    pub percent: f64,
    /// Lower end of the interval of 95 %.
    pub low_percent: f64,
    /// Upper end.
    pub high_percent: f64,
    /// Probability of such a change or a larger one by chance.
    pub chance: f64,
    /// Share of chance findings among the comparisons of this run that are no less clear than this one.
    pub false_discovery: f64,
}

impl Side {
    /// Figures of these records; none where none of them ran.
    pub(super) fn of(records: &[&Record]) -> Option<Side> {
        let ran: Vec<&Record> = records
            .iter()
            .copied()
            .filter(|record| measured(record).is_some())
            .collect();
        if ran.is_empty() {
            return None;
        }
        let mut all: Vec<u64> = ran
            .iter()
            .filter_map(|record| measured(record))
            .flat_map(|measured| measured.samples_ns.iter().copied())
            .collect();
        all.sort_unstable();
        let mut medians: Vec<f64> = ran.iter().filter_map(|record| batch_median(record)).collect();
        let p95 = (all.len().saturating_sub(1) * 950).div_ceil(1_000);
        Some(Side {
            median_ns: statistics::median(&mut medians).unwrap_or(0.0).round() as u64,
            p95_ns: all.get(p95).copied().unwrap_or(0),
            samples: all.len(),
            batches: ran.len(),
            sources: sources(ran.into_iter()),
        })
    }
}

impl Comparison {
    /// Rows that fail a pull request: slower, refused or failing now. Emulated times fail none unless that was asked for,
    /// and a changed model may be slower.
    pub fn regressions(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| match row.verdict {
            Verdict::NowFails | Verdict::NowRefused => true,
            Verdict::Slower => !row.model_changed && (!row.emulated || self.emulated_gates),
            _ => false,
        })
    }

    /// Rows that may be slower and need pairs, as what a farm takes: each item with the boards that have measured it.
    #[must_use]
    pub fn suspects(&self) -> Vec<Suspect> {
        // the former contents of a changed model are no longer there to be measured
        let suspects = self
            .rows
            .iter()
            .filter(|row| !row.model_changed)
            .filter_map(|row| {
                Some(Suspect {
                    wanted: Wanted {
                        item: row.asked.clone(),
                        places: row.places.clone(),
                    },
                    rounds: row.rounds_to_decide?,
                })
            });
        suspects.collect()
    }

    /// Rows with this verdict.
    pub(super) fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.verdict == verdict)
    }
}
