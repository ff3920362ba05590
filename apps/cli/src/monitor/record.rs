//! Sensor records: one folder per sample, named by its milliseconds, with the files read.
//!
//! Invariant: a record replays its machine sample by sample, at any pace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use polychip::telemetry::Sensors;

use crate::exit::usage;

/// Writes a record.
pub(super) struct Recorder {
    folder: PathBuf,
}

impl Recorder {
    pub(super) fn new(folder: &Path) -> anyhow::Result<Recorder> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let is_empty = std::fs::read_dir(folder)?.next().is_none();
        if !is_empty {
            return Err(usage(format!(
                "--record {}: the folder must be empty",
                folder.display()
            )));
        }
        Ok(Recorder {
            folder: folder.to_owned(),
        })
    }

    pub(super) fn add(&mut self, sensors: &Sensors, at: Duration) -> anyhow::Result<()> {
        let step = self.folder.join(format!("{:09}", at.as_millis()));
        std::fs::create_dir_all(&step)?;
        sensors.record(&step).with_context(|| step.display().to_string())
    }
}

/// Steps of a record, or one tree that stays.
pub(super) struct Replay {
    root: PathBuf,
    steps: std::vec::IntoIter<PathBuf>,
    is_record: bool,
}

impl Replay {
    pub(super) fn open(folder: Option<&Path>) -> anyhow::Result<Replay> {
        let Some(folder) = folder else {
            return Ok(Replay {
                root: PathBuf::from("/"),
                steps: Vec::new().into_iter(),
                is_record: false,
            });
        };
        if !folder.is_dir() {
            return Err(usage(format!(
                "--sensors {}: there is no such folder",
                folder.display()
            )));
        }
        let mut steps: Vec<PathBuf> = std::fs::read_dir(folder)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
            })
            .collect();
        steps.sort();
        Ok(Replay {
            root: steps.first().cloned().unwrap_or_else(|| folder.to_owned()),
            is_record: !steps.is_empty(),
            steps: steps.into_iter(),
        })
    }

    /// Where the sensors are looked for.
    pub(super) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// Goes to the next sample; false after the last one.
    pub(super) fn step(&mut self, sensors: &mut Sensors) -> bool {
        match self.steps.next() {
            Some(step) => {
                sensors.move_to(step);
                true
            }
            None => !self.is_record,
        }
    }
}
