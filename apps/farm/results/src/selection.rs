//! Selects the records of a comparison: those of one or several runs, or of one build in them.
//!
//! A driver that alternates two builds may write both into one run, so a run alone does not identify a side.

use std::collections::BTreeSet;
use std::fmt;

use polychip_farm_record::{Build, Record, printable};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::run::{Missing, Run, Silent, Torn};

/// Records of one or several runs.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    runs: Vec<Chosen>,
}

#[derive(Debug, Clone)]
struct Chosen {
    run: Run,
    build: Option<String>,
}

/// What figures are of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Source {
    /// The run.
    pub run: String,
    /// The place.
    pub place: String,
    /// The build that measured.
    pub build: Build,
}

impl Source {
    /// What a record is of.
    #[must_use]
    pub fn of(record: &Record) -> Source {
        Source {
            run: record.run.clone(),
            place: record.place.name.clone(),
            build: record.build.clone(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on {} by {}",
            printable(&self.run),
            printable(&self.place),
            build_words(&self.build)
        )
    }
}

/// Text for a build: its commit, or the digest of the runner.
pub(crate) fn build_words(build: &Build) -> String {
    let words = match &build.commit {
        Some(commit) => format!("{} ({})", build.version, short(commit)),
        None => format!("{} (runner {})", build.version, short(&build.runner)),
    };
    printable(&words).into_owned()
}

fn short(digits: &str) -> &str {
    let (head, dirty) = digits.split_once('-').unwrap_or((digits, ""));
    // what was changed since the commit is part of its name
    match dirty {
        "" => head.get(..12).unwrap_or(head),
        _ => digits,
    }
}

impl Selection {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Selection {
        Selection::default()
    }

    /// Adds a run; with `build`, only what the build of this commit or runner (by its first digits) measured.
    ///
    /// # Errors
    /// The run is there already, or has no record of that build.
    pub fn add(&mut self, run: Run, build: Option<&str>) -> Result<()> {
        let id = &run.header.id;
        let twice = |chosen: &&Chosen| {
            let other = chosen.build.as_deref();
            chosen.run.header.id == *id && (other == build || other.is_none() || build.is_none())
        };
        if let Some(other) = self.runs.iter().find(twice) {
            return Err(Error::selection(format!(
                "run {id:?} is given twice: {} and {}",
                other.run.folder.display(),
                run.folder.display()
            )));
        }
        if let Some(build) = build {
            let builds: BTreeSet<&Build> = run.records.iter().map(|record| &record.build).collect();
            let found = builds.iter().filter(|found| is_of(found, build)).count();
            if found != 1 {
                let known: Vec<String> = builds.into_iter().map(build_words).collect();
                let what = if found == 0 { "no" } else { "more than one" };
                return Err(Error::selection(format!(
                    "{}: {what} build is called {build:?}; the builds are {}",
                    run.folder.display(),
                    known.join(", ")
                )));
            }
        }
        let build = build.map(str::to_owned);
        self.runs.push(Chosen { run, build });
        Ok(())
    }

    /// The runs.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().map(|chosen| &chosen.run)
    }

    /// The records.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.runs.iter().flat_map(|chosen| {
            let records = chosen.run.records.iter();
            records.filter(|record| {
                let build = chosen.build.as_deref();
                build.is_none_or(|build| is_of(&record.build, build))
            })
        })
    }

    /// Builds that measured, each once.
    #[must_use]
    pub fn builds(&self) -> Vec<Build> {
        let builds: BTreeSet<&Build> = self.records().map(|record| &record.build).collect();
        builds.into_iter().cloned().collect()
    }

    /// Lines that were cut off, of all runs.
    #[must_use]
    pub fn torn(&self) -> Vec<Torn> {
        self.runs().flat_map(|run| run.torn.iter().cloned()).collect()
    }

    /// Items without a result, of all runs.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        self.runs().flat_map(Run::missing).collect()
    }

    /// Boards that never answered, of all runs.
    #[must_use]
    pub fn silent(&self) -> Vec<Silent> {
        self.runs().flat_map(Run::silent).collect()
    }
}

/// Whether a build is called so: by the first digits of its commit or of its runner's hash.
#[must_use]
pub fn is_of(build: &Build, name: &str) -> bool {
    !name.is_empty()
        && (build.runner.starts_with(name)
            || build
                .commit
                .as_deref()
                .is_some_and(|commit| commit.starts_with(name)))
}
