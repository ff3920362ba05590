//! The contents of a bundle, made from farm runs.
//!
//! Invariants:
//! 1. A family is one board type, without rows of other chips; emulated boards form a separate family.
//! 2. Every row states its run and place.
//! 3. An unreadable profile is skipped as a whole, and reported.
//!
//! Not here: the file and its signature (`polychip_profile::bundle`).

use std::collections::{BTreeMap, BTreeSet};

use polychip_farm_record::{Item, Job, Measured, Model, Record, Settings};
use polychip_profile::Profile;
use polychip_profile::bundle::{BestPlan, Content, PlanPart, Sustained};

use crate::batch::{batch_median, measured, sources};
use crate::error::{Error, Result};
use crate::kind::{Kind, Kinds};
use crate::selection::Selection;
use crate::statistics;

/// What is known of one board type.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// What its bundle holds.
    pub content: Content,
    /// Names of its boards and their tags (`key=value`).
    pub boards: BTreeMap<String, BTreeSet<String>>,
    /// When the newest of its figures were measured: seconds since 1970 in UTC.
    pub measured_s: u64,
    /// Profiles of its places that are not in it, each as what is wrong with it.
    pub left_out: Vec<String>,
}

impl Family {
    /// Whether one of its boards is called so, or has a tag that is written so or has this value.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let has_tag =
            |tag: &String| tag == name || tag.split_once('=').is_some_and(|(_, value)| value == name);
        self.boards
            .iter()
            .any(|(board, tags)| board == name || tags.iter().any(has_tag))
    }
}

/// The contents of the bundles of all families that were measured. Databases of places without a record are left out:
/// of which family they are is not known.
///
/// # Errors
/// There is no memory for them: a profile that cannot be read is [left out](Family::left_out).
pub fn families(selection: &Selection) -> Result<BTreeMap<Kind, Family>> {
    let kinds = Kinds::of(selection.records());
    let mut records: BTreeMap<Kind, Vec<&Record>> = BTreeMap::new();
    for record in selection.records() {
        records.entry(kinds.kind(record)).or_default().push(record);
    }
    let families = records.into_iter().map(|(kind, records)| {
        let (mut content, left_out) = profile_of(selection, &records)?;
        content.plans = plans(&kind, &records);
        let newest = records.iter().map(|record| record.started_s).max();
        let mut boards: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for record in &records {
            let tags = boards.entry(record.place.name.clone()).or_default();
            tags.extend(record.place.tags.iter().cloned());
        }
        let family = Family {
            content,
            boards,
            measured_s: newest.unwrap_or(0),
            left_out,
        };
        Ok((kind, family))
    });
    families.collect()
}

/// The rows of all places that these records are of, and what is wrong with the profiles that are not among them.
fn profile_of(selection: &Selection, records: &[&Record]) -> Result<(Content, Vec<String>)> {
    let places: BTreeSet<(&str, &str)> = records
        .iter()
        .map(|record| (record.run.as_str(), record.place.name.as_str()))
        .collect();
    let merged = Profile::in_memory();
    let mut left_out = Vec::new();
    for run in selection.runs() {
        for (place, path) in &run.profiles {
            if !places.contains(&(run.header.id.as_str(), place.as_str())) {
                continue;
            }
            let source = format!("run {}, board {place}", run.header.id);
            // all of its rows go in or none
            let taken = Profile::open_read_only(path)
                .and_then(|profile| profile.export())
                .and_then(|rows| merged.import(&rows, &source));
            if let Err(error) = taken {
                left_out.push(Error::bad_run(path, error).to_string());
            }
        }
    }
    let mut profile = merged.export().map_err(Error::selection)?;
    // they are of one machine
    profile.plugin_values.clear();
    let content = Content {
        profile,
        plans: Vec::new(),
    };
    Ok((content, left_out))
}

/// The fastest plan of each model and setting.
fn plans(kind: &Kind, records: &[&Record]) -> Vec<BestPlan> {
    let mut items: BTreeMap<(&Model, &Settings), BTreeMap<&Item, Vec<&Record>>> = BTreeMap::new();
    for record in records {
        if let (Job::Bench, Some(model)) = (record.item.job, &record.item.model) {
            let of_model = items.entry((model, &record.item.settings)).or_default();
            of_model.entry(&record.item).or_default().push(record);
        }
    }
    let best = items.into_iter().filter_map(|((model, settings), items)| {
        let timed = items.into_iter().filter_map(|(item, of_item)| {
            let mut medians: Vec<f64> = of_item.iter().filter_map(|record| batch_median(record)).collect();
            Some((statistics::median(&mut medians)?, item, of_item))
        });
        let (median, item, of_item) = timed.min_by(|a, b| a.0.total_cmp(&b.0))?;
        // the plan that was last run
        let (_, figures) = of_item
            .iter()
            .filter_map(|record| Some((record.started_s, measured(record)?)))
            .filter(|(_, figures)| !figures.plan.is_empty())
            .max_by_key(|(started_s, _)| *started_s)?;
        let mut energies = of_item
            .iter()
            .filter_map(|record| measured(record)?.energy.as_ref());
        let energy = energies.next_back();
        Some(BestPlan {
            model: model.name.clone(),
            model_blake3: model.blake3.clone(),
            settings: words(settings),
            plugins: item.plugins.clone(),
            parts: parts(figures),
            median_ns: median.round() as u64,
            energy_nj: energy.map(|energy| energy.nanojoules),
            energy_provenance: energy.map_or_else(String::new, |energy| energy.provenance.clone()),
            sustained: sustained(records, item),
            emulated: figures.emulated || kind.emulated,
            sources: sources(of_item.into_iter())
                .iter()
                .map(ToString::to_string)
                .collect(),
        })
    });
    best.collect()
}

fn parts(figures: &Measured) -> Vec<PlanPart> {
    let parts = figures.plan.iter();
    parts
        .map(|part| PlanPart {
            device: part.device.clone(),
            nodes: part.nodes,
            ns: part.ns,
            provenance: part.provenance.clone(),
        })
        .collect()
}

/// The longest soak of the same model on the same plugins.
fn sustained(records: &[&Record], item: &Item) -> Option<Sustained> {
    let is_same = |other: &Item| {
        other.job == Job::Soak
            && (&other.model, &other.plugins, &other.settings) == (&item.model, &item.plugins, &item.settings)
    };
    let soaks = records.iter().filter(|record| is_same(&record.item));
    let soaks = soaks.filter_map(|record| {
        let windows = &measured(record)?.windows;
        let (first, last) = (windows.first()?, windows.last()?);
        Some(Sustained {
            lasted_ms: last.end_ms,
            first_ns: first.median_ns,
            last_ns: last.median_ns,
            hottest_mc: windows.iter().filter_map(|window| window.hottest_mc).max(),
        })
    });
    soaks.max_by_key(|soak| soak.lasted_ms)
}

/// Settings as text; empty without any.
fn words(settings: &Settings) -> String {
    let item = Item {
        job: Job::Bench,
        model: None,
        plugins: Vec::new(),
        settings: settings.clone(),
    };
    let words = item.to_string();
    let settings = words.strip_prefix("bench").unwrap_or(&words);
    settings.trim_start_matches([',', ' ']).to_owned()
}
