//! A run, read from its folder.
//!
//! Invariants:
//! 1. A damaged folder (no header, an invalid line) is refused with the file and the line. A truncated last line is
//!    skipped and reported, because a killed writer leaves one.
//! 2. A duplicate record counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use polychip_farm_record::{FORMAT, Outcome, Record, RunHeader, read_lines};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};

/// A run that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its folder.
    pub folder: PathBuf,
    /// What was asked for.
    pub header: RunHeader,
    /// By place, then in the order of measuring.
    pub records: Vec<Record>,
    /// Files whose last line was cut off.
    pub torn: Vec<Torn>,
    /// Profile databases, by place.
    pub profiles: BTreeMap<String, PathBuf>,
}

/// A file with a truncated last line, from a killed writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Torn {
    /// The run.
    pub run: String,
    /// The place of these records.
    pub place: String,
    /// Remaining length of the line in bytes.
    pub bytes: usize,
}

/// A requested item without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// The run.
    pub run: String,
    /// The item, as text.
    pub item: String,
    /// Names of the places that may have done it.
    pub places: Vec<String>,
    /// The last thing that is known of it: why a board did not do it.
    pub reason: Option<String>,
}

/// A requested board without records of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Silent {
    /// The run.
    pub run: String,
    /// Name of the place.
    pub place: String,
    /// The reason that the driver recorded; absent without one.
    pub reason: Option<String>,
}

impl Run {
    /// Reads the folder of a run.
    ///
    /// # Errors
    /// There is no `run.json`, a file cannot be read, a line is no record, or a record is of another run.
    pub fn read(folder: impl AsRef<Path>) -> Result<Run> {
        let folder = folder.as_ref().to_owned();
        let path = folder.join("run.json");
        let text = std::fs::read_to_string(&path).map_err(|error| Error::io(&path, error))?;
        let header = header(&path, &text)?;
        let mut run = Run {
            header,
            records: Vec::new(),
            torn: Vec::new(),
            profiles: files(&folder.join("profiles"), "profile")?,
            folder,
        };
        let mut seen = BTreeSet::new();
        for (place, path) in files(&run.folder.join("records"), "jsonl")? {
            let bytes = std::fs::read(&path).map_err(|error| Error::io(&path, error))?;
            let lines = read_lines(&bytes).map_err(|error| Error::lines(&path, error))?;
            if lines.torn_bytes > 0 {
                let bytes = lines.torn_bytes;
                let run_id = run.header.id.clone();
                run.torn.push(Torn {
                    run: run_id,
                    place,
                    bytes,
                });
            }
            for record in lines.records {
                if record.run != run.header.id {
                    let words = format!(
                        "a record belongs to run {:?}, but the folder to {:?}: give each run its own folder",
                        record.run, run.header.id
                    );
                    return Err(Error::bad_run(&path, words));
                }
                // files that were brought home twice
                if seen.insert(record.to_line()) {
                    run.records.push(record);
                }
            }
        }
        Ok(run)
    }

    /// Items that were asked for and have no result: neither figures, nor a refusal, nor a failure of their own.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let wanted = self.header.items.iter();
        let missing = wanted.filter_map(|wanted| {
            let records = self.records.iter();
            let records = records
                .filter(|record| record.item == wanted.item && wanted.places.contains(&record.place.name));
            let mut reason = None;
            for record in records {
                match &record.outcome {
                    Outcome::Failed(failure) if failure.board => {
                        reason = Some(format!("{}: {}", record.place.name, failure.reason));
                    }
                    Outcome::Skipped { reason: why } => {
                        reason = Some(format!("{}: {why}", record.place.name))
                    }
                    _ => return None,
                }
            }
            Some(Missing {
                run: self.header.id.clone(),
                item: wanted.item.to_string(),
                places: wanted.places.clone(),
                reason,
            })
        });
        missing.collect()
    }

    /// Boards of which nothing came: no record, or only that they could not be reached.
    #[must_use]
    pub fn silent(&self) -> Vec<Silent> {
        let places = self.header.places.iter();
        let silent = places.filter_map(|place| {
            // it was asked for nothing that is not known
            let mut items = self.header.items.iter();
            if !self.header.unchanged.is_empty() && !items.any(|wanted| wanted.places.contains(&place.name)) {
                return None;
            }
            let mut reason = None;
            let records = self.records.iter();
            for record in records.filter(|record| record.place.name == place.name) {
                match &record.outcome {
                    Outcome::Failed(failure) if failure.board => reason = Some(failure.reason.clone()),
                    _ => return None,
                }
            }
            Some(Silent {
                run: self.header.id.clone(),
                place: place.name.clone(),
                reason,
            })
        });
        silent.collect()
    }
}

fn header(path: &Path, text: &str) -> Result<RunHeader> {
    let not_a_header = |error| Error::bad_run(path, format!("not a run header: {error}"));
    let value: serde_json::Value = serde_json::from_str(text).map_err(not_a_header)?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    if let Some(format) = format.filter(|format| *format > u64::from(FORMAT)) {
        let words = format!("a run of format {format}; this version reads formats up to {FORMAT}");
        return Err(Error::bad_run(path, words));
    }
    serde_json::from_value(value).map_err(not_a_header)
}

/// Files of a folder with this extension, by their name without it; none where there is no folder.
fn files(folder: &Path, extension: &str) -> Result<BTreeMap<String, PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(Error::io(folder, error)),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|error| Error::io(folder, error))?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(stem) = stem
            && path.extension().is_some_and(|found| found == extension)
        {
            found.insert(stem.to_owned(), path);
        }
    }
    Ok(found)
}
