//! A record of a device's calls: which calls a host makes, in which order and from which threads.
//!
//! Invariants:
//! 1. Lines are in call order, whatever threads made the calls, and each is in the file before its
//!    call continues.
//! 2. A file that cannot be written is an error when the device is opened; no run fails for it
//!    later.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

use polychip_sdk::{Error, Result};

/// File to which calls are recorded.
pub(crate) struct Record(Mutex<State>);

struct State {
    file: File,
    /// Threads in the order in which they first called.
    threads: Vec<ThreadId>,
}

impl Record {
    /// A record at the end of this file.
    pub(crate) fn open(path: &Path) -> Result<Record> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| Error::bad_argument(format!("record {}: {error}", path.display())))?;
        Ok(Record(Mutex::new(State {
            file,
            threads: Vec::new(),
        })))
    }

    /// Adds a call, with its subject if there is one.
    pub(crate) fn add(&self, call: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = std::thread::current().id();
        let known = state.threads.iter().position(|thread| *thread == own);
        let number = known.unwrap_or_else(|| {
            state.threads.push(own);
            state.threads.len() - 1
        });
        // a full disk ends the record, not the run
        let _ = writeln!(state.file, "{number} {call}");
    }
}
