//! Outcomes of an item on each side, and the meaning of a change.

use std::collections::BTreeSet;

use polychip_farm_record::{Item, Outcome, Record};

use super::answer::Verdict;
use crate::selection::Selection;

/// How an item ended on one side; what is worst of several records counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// It ran; of a suite, cases that failed.
    Ran { failing: BTreeSet<String> },
    /// Its devices do not run it.
    Refused(String),
    /// It failed by itself.
    Failed(String),
    /// No board did it.
    NotDone(String),
}

impl Ended {
    /// The worst outcome of these records; `None` without records.
    pub(super) fn of(records: &[&Record]) -> Option<Ended> {
        let mut worst: Option<Ended> = None;
        for record in records {
            let ended = match &record.outcome {
                Outcome::Measured(measured) => Ended::Ran {
                    failing: measured.failed.iter().cloned().collect(),
                },
                Outcome::Refused { reason } => Ended::Refused(reason.clone()),
                Outcome::Failed(failure) if !failure.board => Ended::Failed(failure.reason.clone()),
                Outcome::Failed(failure) => Ended::NotDone(failure.reason.clone()),
                Outcome::Skipped { reason } => Ended::NotDone(reason.clone()),
            };
            worst = Some(match (worst, ended) {
                (Some(Ended::Ran { failing }), Ended::Ran { failing: more }) => Ended::Ran {
                    failing: &failing | &more,
                },
                (Some(worst), ended) if worst.rank() >= ended.rank() => worst,
                (_, ended) => ended,
            });
        }
        worst
    }

    /// A board that did not do it says nothing of the item where another one did.
    fn rank(&self) -> u8 {
        match self {
            Ended::NotDone(_) => 0,
            Ended::Ran { .. } => 1,
            Ended::Refused(_) => 2,
            Ended::Failed(_) => 3,
        }
    }
}

/// The verdict where an item did not run on both sides, and its reasons. `absent` says why NEW has no record, where it
/// was to have one.
pub(super) fn changed(
    was: Option<Ended>,
    is: Option<Ended>,
    absent: impl FnOnce() -> Option<String>,
) -> (Verdict, Vec<String>) {
    match (was, is) {
        (_, None) => match absent() {
            Some(reason) => (Verdict::Unsure, vec![reason]),
            None => (Verdict::Gone, Vec::new()),
        },
        (_, Some(Ended::NotDone(reason))) => (Verdict::Unsure, vec![format!("NEW has no result: {reason}")]),
        (None, Some(is)) => (Verdict::New, is.words("NEW").into_iter().collect()),
        (Some(Ended::NotDone(reason)), _) => (Verdict::Unsure, vec![format!("BASE has no result: {reason}")]),
        (Some(Ended::Failed(reason)), Some(Ended::Failed(_))) => {
            (Verdict::Same, vec![format!("both fail: {reason}")])
        }
        (Some(Ended::Refused(reason)), Some(Ended::Refused(_))) => {
            (Verdict::Same, vec![format!("both are unsupported: {reason}")])
        }
        (Some(_), Some(Ended::Failed(reason))) => (Verdict::NowFails, vec![reason]),
        (Some(_), Some(Ended::Refused(reason))) => (Verdict::NowRefused, vec![reason]),
        (Some(was), Some(Ended::Ran { .. })) => (Verdict::NowRuns, was.words("BASE").into_iter().collect()),
    }
}

impl Ended {
    fn words(&self, side: &str) -> Option<String> {
        match self {
            Ended::Ran { .. } => None,
            Ended::Refused(reason) => Some(format!("{side}: unsupported: {reason}")),
            Ended::Failed(reason) => Some(format!("{side}: failed: {reason}")),
            Ended::NotDone(reason) => Some(format!("{side}: no result: {reason}")),
        }
    }
}

/// The run that measured an item which NEW did not measure again because nothing had changed.
pub(super) fn unchanged(item: &Item, places: &[String], new: &Selection) -> Option<String> {
    let mut known = new.runs().flat_map(|run| &run.header.unchanged);
    let known = known.find(|known| {
        let mut names = known.wanted.places.iter();
        known.wanted.item == *item && names.any(|name| places.contains(name))
    })?;
    Some(known.run.clone())
}

/// Why NEW has no record of an item that some places measured for BASE, where one of them was to measure it again.
pub(super) fn absent(item: &Item, places: &[String], new: &Selection) -> Option<String> {
    let is_here = |names: &[String]| names.iter().any(|name| places.contains(name));
    let mut asked = new.runs().flat_map(|run| &run.header.items);
    if !asked.any(|wanted| wanted.item == *item && is_here(&wanted.places)) {
        return None;
    }
    let words = item.to_string();
    let mut missing = new.missing().into_iter().rev();
    let found = missing.find(|missing| missing.item == words && is_here(&missing.places));
    Some(match found.map(|missing| missing.reason) {
        Some(Some(reason)) => format!("NEW has no result: {reason}"),
        Some(None) => "NEW has no result, and no board reports a reason".to_owned(),
        None => "NEW was measured only on other board types".to_owned(),
    })
}
