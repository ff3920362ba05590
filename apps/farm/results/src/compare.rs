//! Changes in time from one selection of records to another: the gate of a pull request.
//!
//! A *batch* is one record: its consecutive runs are correlated, so they count as one value, their median. A *pair*
//! is one batch of each side on the same board, one after the other. The verdict uses the difference of the two
//! batches of a pair, in logarithms, over the pairs of all boards of a kind, which cancels common factors (the
//! board, its heat, other load). Drift is measured on batches of the same side and subtracted.
//!
//! Invariants:
//! 1. Batches of different boards, of emulated and real ones, and of different conditions are never paired.
//! 2. A verdict `slower` or `faster` needs pairs, significance among all comparisons made ([`Options::discovery`]) and
//!    a change that matters ([`Options::relevant`]). Two nights compared without pairs are `unsure` at best: the
//!    difference between nights was not measured. The exception are slowdowns beyond doubt (`doubt`): each run takes
//!    more than twice the time.
//! 3. Items that ran before and now fail are reported without statistics.
//! 4. The number of pairs of another measurement is fixed in advance ([`Row::rounds_to_decide`]): adding pairs
//!    until a finding appears always produces one.

mod answer;
mod comparable;
mod doubt;
mod ended;
mod group;
mod linked;
mod markdown;
mod rounds;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use polychip_farm_record::Item;

pub use answer::{Change, Comparison, FEW_ROUNDS, MOST_ROUNDS, Row, Side, Suspect, Verdict};

use crate::batch::{measured, sources};
use crate::kind::{Kind, Kinds};
use crate::selection::Selection;
use crate::statistics::{self, Estimate, FEWEST};
use ended::Ended;
use group::Group;
use rounds::Rounds;
pub(crate) use text::{time, with_places};

/// What counts as a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Smallest change that matters, as a share of BASE.
    pub relevant: f64,
    /// Share of chance findings among those that are called slower or faster.
    pub discovery: f64,
    /// Times of emulated boards and devices fail the gate, too.
    pub emulated: bool,
}

impl Default for Options {
    /// 2 % matter, 5 % of the findings may be chance, emulated times fail nothing.
    fn default() -> Options {
        Options {
            relevant: 0.02,
            discovery: 0.05,
            emulated: false,
        }
    }
}

/// A row whose verdict waits for all other comparisons.
#[derive(Debug)]
struct Draft {
    row: Row,
    estimate: Option<Estimate>,
}

/// Compares two selections.
#[must_use]
pub fn compare(base: &Selection, new: &Selection, options: &Options) -> Comparison {
    let kinds = Kinds::of(base.records().chain(new.records()));
    let mut groups: BTreeMap<(&Item, Kind), Group<'_>> = BTreeMap::new();
    for record in base.records() {
        let key = (&record.item, kinds.kind(record));
        groups.entry(key).or_default().base.push(record);
    }
    for record in new.records() {
        let key = (&record.item, kinds.kind(record));
        groups.entry(key).or_default().new.push(record);
    }
    linked::link(&mut groups);
    let drafts = groups.into_iter();
    let mut drafts: Vec<Draft> = drafts
        .map(|((item, kind), group)| draft(item, kind, &group, new, options))
        .collect();
    // emulated figures are a family of their own: many of them do not blunt the real ones
    for emulated in [false, true] {
        let judged: Vec<usize> = (0..drafts.len())
            .filter(|at| drafts[*at].row.emulated == emulated && drafts[*at].estimate.is_some())
            .collect();
        let chances = judged.iter().filter_map(|at| drafts[*at].estimate);
        let shares = statistics::false_discovery(&chances.map(|one| one.p).collect::<Vec<f64>>());
        for (at, share) in judged.into_iter().zip(shares) {
            let Draft { row, estimate } = &mut drafts[at];
            if let Some(estimate) = estimate {
                judge(row, *estimate, share, options);
            }
        }
    }
    Comparison {
        base: sources(base.records()),
        new: sources(new.records()),
        same_build: !base.builds().is_empty() && base.builds() == new.builds(),
        relevant_percent: options.relevant * 100.0,
        discovery_percent: options.discovery * 100.0,
        emulated_gates: options.emulated,
        rows: drafts.into_iter().map(|draft| draft.row).collect(),
        torn: [base.torn(), new.torn()].concat(),
        missing: [base.missing(), new.missing()].concat(),
        silent: [base.silent(), new.silent()].concat(),
    }
}

/// All that can be said of an item on a board type by itself.
fn draft(item: &Item, kind: Kind, group: &Group<'_>, new: &Selection, options: &Options) -> Draft {
    let records = || group.base.iter().chain(&group.new).copied();
    let places: BTreeSet<String> = records().map(|record| record.place.name.clone()).collect();
    let emulated = kind.emulated || records().filter_map(measured).any(|one| one.emulated);
    let (was, is) = (Ended::of(&group.base), Ended::of(&group.new));
    let mut row = Row {
        item: item.to_string(),
        kind: kind.name,
        emulated,
        verdict: Verdict::Same,
        suspicious: false,
        rounds_to_decide: None,
        base: Side::of(&group.base),
        new: Side::of(&group.new),
        change: None,
        crude_percent: None,
        rounds: 0,
        left_out: Vec::new(),
        notes: Vec::new(),
        model_changed: group.model_changed,
        asked: item.clone(),
        places: places.into_iter().collect(),
    };
    let mut estimate = None;
    // what was left out for being the same is the same
    let unchanged = is
        .is_none()
        .then(|| ended::unchanged(item, &row.places, new))
        .flatten();
    match (was, is) {
        (Some(_), None) if unchanged.is_some() => {
            let run = unchanged.unwrap_or_default();
            row.notes
                .push(format!("not measured again: nothing has changed since run {run}"));
        }
        (Some(Ended::Ran { failing: was }), Some(Ended::Ran { failing: is })) => {
            // by the case: its reason may have other figures each time
            let case = |words: &String| {
                words
                    .split_once(": ")
                    .map_or(words.clone(), |(case, _)| case.to_owned())
            };
            let known: BTreeSet<String> = was.iter().map(case).collect();
            let broken: Vec<&String> = is.iter().filter(|words| !known.contains(&case(words))).collect();
            if !broken.is_empty() {
                row.verdict = Verdict::NowFails;
                let names: Vec<&str> = broken.iter().map(|name| name.as_str()).collect();
                row.notes.push(format!("failing now: {}", names.join("; ")));
            } else {
                estimate = times(&mut row, group, options);
            }
        }
        (was, is) => {
            (row.verdict, row.notes) = ended::changed(was, is, || ended::absent(item, &row.places, new))
        }
    }
    if let Some(model) = group
        .model_changed
        .then(|| linked::words(&group.base, &group.new))
    {
        row.notes.push(model);
    }
    Draft { row, estimate }
}

/// What the pairs say; without enough of them the row is unsure, and says why.
fn times(row: &mut Row, group: &Group<'_>, options: &Options) -> Option<Estimate> {
    let (base, new) = (row.base.as_ref()?, row.new.as_ref()?);
    if base.samples == 0 || new.samples == 0 {
        // nothing was timed: that both ran is all
        return None;
    }
    let crude = new.median_ns as f64 / (base.median_ns as f64).max(1.0) - 1.0;
    row.crude_percent = Some(crude * 100.0);
    let rounds = Rounds::of(&group.base, &group.new);
    row.rounds = rounds.differences.len();
    row.left_out = rounds.left_out();
    let found = statistics::estimate(&rounds.differences);
    if found.is_none()
        && let Some(words) = doubt::beyond_doubt(&group.base, &group.new, &rounds.differences)
    {
        row.verdict = Verdict::Slower;
        row.notes.push(words);
        return None;
    }
    if found.is_none() {
        row.verdict = Verdict::Unsure;
        row.suspicious = crude >= options.relevant;
        row.rounds_to_decide = row.suspicious.then_some(FEW_ROUNDS);
        row.notes.push(format!(
            "{} of at least {FEWEST} pairs of BASE and NEW alternating on one board",
            row.rounds
        ));
    }
    row.change = found.map(|found| Change {
        percent: percent(found.mean),
        low_percent: percent(found.low),
        high_percent: percent(found.high),
        chance: found.p,
        false_discovery: 1.0,
    });
    found
}

/// A difference of logarithms in per cent.
fn percent(difference: f64) -> f64 {
    difference.exp_m1() * 100.0
}

/// The verdict on a row with pairs, given the share of chance findings at which it counts.
fn judge(row: &mut Row, estimate: Estimate, share: f64, options: &Options) {
    if let Some(change) = &mut row.change {
        change.false_discovery = share;
    }
    let [change, low, high] = [estimate.mean, estimate.low, estimate.high].map(f64::exp_m1);
    let is_found = share <= options.discovery;
    row.verdict = if is_found && change >= options.relevant {
        Verdict::Slower
    } else if is_found && change <= -options.relevant {
        Verdict::Faster
    } else if low > -options.relevant && high < options.relevant {
        Verdict::Same
    } else {
        Verdict::Unsure
    };
    row.suspicious = row.verdict == Verdict::Unsure && change > 0.0 && high >= options.relevant;
    // an interval that is no wider than what matters tells no change from one of more than twice that
    row.rounds_to_decide = row.suspicious.then(|| {
        let rounds = estimate.differences_for(row.rounds, options.relevant.ln_1p());
        (rounds.ceil() as usize).clamp(FEW_ROUNDS, MOST_ROUNDS)
    });
}
