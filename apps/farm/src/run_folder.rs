//! The folder of a run on this host.
//!
//! Invariants:
//! 1. An appended record is completely on the disk.
//! 2. One driver at a time works in a folder.
//! 3. The requested items of a folder never change after its creation.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_farm_record::{Effort, FORMAT, Item, LinesError, Record, RunHeader, read_lines};

use crate::lock::{Lock, LockError};

/// Why a folder of a run cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is a run already.
    #[error("{path} already holds a run; continue it with --resume, or choose another folder", path = path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The file is not a run header.
    #[error("{path} is not a run header: {words}", path = path.display())]
    BadHeader {
        /// The file.
        path: PathBuf,
        /// Why.
        words: String,
    },
    /// A file of records is invalid.
    #[error("{path}: {source}", path = path.display())]
    BadRecords {
        /// The file.
        path: PathBuf,
        /// Which line, and why.
        source: LinesError,
    },
    /// Another driver works in it.
    #[error("{path}: {source}", path = path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Who.
        source: LockError,
    },
}

/// A run's folder, open for writing.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    header: RunHeader,
    effort: Effort,
    recorded: Vec<Record>,
    resumed: bool,
    files: Mutex<BTreeMap<String, Arc<Mutex<File>>>>,
    _lock: Lock,
}

fn io(path: &Path) -> impl FnOnce(io::Error) -> RunError + '_ {
    |source| RunError::Io {
        path: path.to_owned(),
        source,
    }
}

impl RunFolder {
    /// Makes a folder for a new run.
    ///
    /// # Errors
    /// It holds a run, or cannot be written.
    pub fn create(path: &Path, header: RunHeader, effort: &Effort) -> Result<RunFolder, RunError> {
        let place = path.join("run.json");
        let exists = || {
            place.exists().then(|| RunError::Exists {
                path: path.to_owned(),
            })
        };
        if let Some(error) = exists() {
            return Err(error);
        }
        std::fs::create_dir_all(path).map_err(io(path))?;
        let lock = locked(path)?;
        // another driver may have made its run, and have ended, in between
        if let Some(error) = exists() {
            return Err(error);
        }
        std::fs::create_dir_all(path.join("records")).map_err(io(path))?;
        std::fs::create_dir_all(path.join("profiles")).map_err(io(path))?;
        let words = |error: serde_json::Error| RunError::BadHeader {
            path: place.clone(),
            words: error.to_string(),
        };
        // the header comes last: with it, there is a run
        for (name, text) in [
            (EFFORT, serde_json::to_vec_pretty(effort)),
            ("run.json", serde_json::to_vec_pretty(&header)),
        ] {
            whole(path, name, &text.map_err(words)?).map_err(io(&place))?;
        }
        Ok(RunFolder {
            path: path.to_owned(),
            header,
            effort: effort.clone(),
            recorded: Vec::new(),
            resumed: false,
            files: Mutex::default(),
            _lock: lock,
        })
    }

    /// Opens the folder of a run that was begun. What a driver that died left half written is cut off.
    ///
    /// # Errors
    /// It holds no run, or something else than records; another driver works in it.
    pub fn open(path: &Path) -> Result<RunFolder, RunError> {
        let place = path.join("run.json");
        let text = std::fs::read_to_string(&place).map_err(io(&place))?;
        let header = header(&text).map_err(|words| RunError::BadHeader { path: place, words })?;
        let place = path.join(EFFORT);
        let text = std::fs::read_to_string(&place).map_err(io(&place))?;
        let effort = serde_json::from_str(&text).map_err(|error| RunError::BadHeader {
            path: place,
            words: error.to_string(),
        })?;
        let lock = locked(path)?;
        let folder = path.join("records");
        let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
            .map_err(io(&folder))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        names.sort();
        let mut recorded = Vec::new();
        for name in names {
            let text = std::fs::read(&name).map_err(io(&name))?;
            let lines = read_lines(&text).map_err(|source| RunError::BadRecords {
                path: name.clone(),
                source,
            })?;
            if lines.torn_bytes > 0 {
                let file = OpenOptions::new().write(true).open(&name).map_err(io(&name))?;
                file.set_len((text.len() - lines.torn_bytes) as u64)
                    .map_err(io(&name))?;
            }
            recorded.extend(lines.records);
        }
        Ok(RunFolder {
            path: path.to_owned(),
            header,
            effort,
            recorded,
            resumed: true,
            files: Mutex::default(),
            _lock: lock,
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was asked for.
    #[must_use]
    pub fn header(&self) -> &RunHeader {
        &self.header
    }

    /// How much is measured of an item, from the first call to the last.
    #[must_use]
    pub fn effort(&self) -> &Effort {
        &self.effort
    }

    /// What was recorded when the folder was opened, by place, in the order of measuring.
    #[must_use]
    pub fn recorded(&self) -> &[Record] {
        &self.recorded
    }

    /// It was opened, not made: boards may hold records that it lacks.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Per item of the header: how often it was tried by what was recorded, and by further records, and whether it is done.
    #[must_use]
    pub fn standing(&self, further: &[Record]) -> Vec<(u32, bool)> {
        let mut by_item: BTreeMap<&Item, Vec<&Record>> = BTreeMap::new();
        for record in self.recorded.iter().chain(further) {
            by_item.entry(&record.item).or_default().push(record);
        }
        let of = |wanted: &polychip_farm_record::Wanted| {
            let records = by_item.get(&wanted.item).into_iter().flatten();
            let mine = records.filter(|record| wanted.places.contains(&record.place.name));
            mine.fold((0, false), |(tries, done), record| {
                (tries.max(record.attempt), done || record.outcome.is_final())
            })
        };
        self.header.items.iter().map(of).collect()
    }

    /// Appends a record to its place's file, and waits until it is on the disk.
    ///
    /// # Errors
    /// The file cannot be written; nothing of the record is in it then.
    pub fn append(&self, record: &Record) -> Result<(), RunError> {
        let path = self.records_of(&record.place.name);
        let file = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            match files.get(&record.place.name) {
                Some(file) => Arc::clone(file),
                None => {
                    let opened = OpenOptions::new()
                        .append(true)
                        .create(true)
                        .open(&path)
                        .map_err(io(&path))?;
                    // a file that was made is there after a power cut only once its folder is on the disk
                    if let Some(folder) = path.parent() {
                        File::open(folder)
                            .and_then(|folder| folder.sync_all())
                            .map_err(io(folder))?;
                    }
                    let file = Arc::new(Mutex::new(opened));
                    files.insert(record.place.name.clone(), Arc::clone(&file));
                    file
                }
            }
        };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let before = file.metadata().map_err(io(&path))?.len();
        let written = file
            .write_all(record.to_line().as_bytes())
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            let _ = file.set_len(before);
            return Err(io(&path)(error));
        }
        Ok(())
    }

    fn records_of(&self, place: &str) -> PathBuf {
        self.path
            .join("records")
            .join(format!("{}.jsonl", file_name(place)))
    }

    /// Where a place's profile database goes.
    #[must_use]
    pub fn profile_of(&self, place: &str) -> PathBuf {
        self.path
            .join("profiles")
            .join(format!("{}.profile", file_name(place)))
    }
}

/// A place's name as a file may be called.
fn file_name(place: &str) -> String {
    place.replace(['/', '\\', '\0'], "_")
}

/// The file of [`RunFolder::effort`].
const EFFORT: &str = "effort.json";

/// Writes a file whole or not at all.
fn whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let part = folder.join(format!("{name}.part"));
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&part, folder.join(name))?;
    File::open(folder)?.sync_all()
}

fn locked(path: &Path) -> Result<Lock, RunError> {
    Lock::take(&path.join("lock")).map_err(|source| RunError::Locked {
        path: path.to_owned(),
        source,
    })
}

fn header(text: &str) -> Result<RunHeader, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    // a newer form may lack fields that this one needs
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format > u64::from(FORMAT) => Err(format!(
            "its format is {format}; this version reads formats up to {FORMAT}"
        )),
        _ => serde_json::from_value(value).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn concurrent_drivers_create_a_folder_once() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..200 {
            let path = folder.path().join(round.to_string());
            let barrier = Barrier::new(2);
            let make = |id: &str| {
                let header = RunHeader {
                    format: FORMAT,
                    id: id.to_owned(),
                    started_s: 0,
                    commit: None,
                    places: vec![],
                    items: vec![],
                    unchanged: Vec::new(),
                    equipment: Default::default(),
                };
                barrier.wait();
                // the lock is given back at once: what was made stays the maker's
                RunFolder::create(&path, header, &Effort::default()).map(|made| made.header.id.clone())
            };
            let made = std::thread::scope(|scope| {
                let threads = ["a", "b"].map(|id| scope.spawn(move || make(id)));
                threads.map(|thread| thread.join().unwrap())
            });
            let ids: Vec<&String> = made.iter().flatten().collect();
            assert_eq!(ids.len(), 1, "round {round}: {made:?}");
            assert_eq!(RunFolder::open(&path).unwrap().header.id, *ids[0]);
            let refused = made.iter().find_map(|made| made.as_ref().err()).unwrap();
            assert!(
                matches!(refused, RunError::Exists { .. } | RunError::Locked { .. }),
                "{refused}"
            );
        }
    }
}
