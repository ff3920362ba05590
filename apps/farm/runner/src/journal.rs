//! The board's own file of records, so that measurements do not depend on the connection to the host.
//!
//! Invariants:
//! 1. Only one runner has it open: the file is locked.
//! 2. A record is complete and synced, or absent: the next runner removes an unfinished record when it opens the
//!    file.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use polychip_farm_record::{Assignment, Record, read_lines};
use rustix::fs::{FlockOperation, flock};

use crate::{BUSY, failure};

/// The records of a run on this board.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    records: Vec<Record>,
    /// Bytes of whole records.
    length: u64,
}

/// The file's name in the folder of a run.
pub(crate) const NAME: &str = "journal.jsonl";

/// Prints the records of a run's folder; none where it was never begun here. A runner that works on it is not disturbed.
pub(crate) fn print(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(NAME);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    for record in read_lines(&text)
        .with_context(|| path.display().to_string())?
        .records
    {
        crate::output::print_line(record.to_line().trim_end());
    }
    Ok(())
}

/// Time between two tries to lock the file.
const AGAIN: Duration = Duration::from_millis(200);

impl Journal {
    /// Opens the journal, or makes one; another runner that has it open is waited for.
    pub(crate) fn open(path: &Path, patience: Duration) -> anyhow::Result<Journal> {
        let name = path.display();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| name.to_string())?;
        let start = Instant::now();
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error).with_context(|| format!("{name} cannot be locked"));
            }
            if start.elapsed() >= patience {
                return Err(failure(
                    BUSY,
                    format!(
                        "{name}: another runner is still working here after {} s",
                        patience.as_secs()
                    ),
                ));
            }
            std::thread::sleep(AGAIN);
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(|| name.to_string())?;
        // a file that was made is there after a power cut only once its folder is on the disk
        if let Some(folder) = path.parent() {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .with_context(|| folder.display().to_string())?;
        }
        let lines = read_lines(&text).with_context(|| name.to_string())?;
        let length = (text.len() - lines.torn_bytes) as u64;
        if lines.torn_bytes > 0 {
            eprintln!(
                "{name}: removed {} bytes of an unfinished record",
                lines.torn_bytes
            );
            file.set_len(length)?;
        }
        Ok(Journal {
            file,
            records: lines.records,
            length,
        })
    }

    /// What is known of an item already: a result that stands, or the outcome of this very attempt.
    pub(crate) fn find(&self, assignment: &Assignment) -> Option<&Record> {
        self.records.iter().rev().find(|record| {
            record.run == assignment.run
                && record.item == assignment.item
                && (record.outcome.is_final() || record.attempt >= assignment.attempt)
        })
    }

    /// Appends a record and waits until it is on the disk.
    pub(crate) fn append(&mut self, record: Record) -> std::io::Result<()> {
        let line = record.to_line();
        let written = self
            .file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| self.file.write_all(line.as_bytes()))
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // a line that is cut off would be taken for one that a dying runner left
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += line.len() as u64;
        self.records.push(record);
        Ok(())
    }
}
