//! Files that a board lacks, sent once: they lie there under the names of their contents.
//!
//! Invariants:
//! 1. Nothing is executed or loaded that was not verified on the board by its contents, each time: the runner by its
//!    SHA-256, all other files by the runner with their BLAKE3.
//! 2. A runner that the board cannot verify, for lack of a program for SHA-256, is sent again.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::blob::Blob;
use crate::transport::{Command, Counter, Transport, TransportError};

/// Files sent, and files already there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sent {
    /// Sent files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files already there.
    pub kept_files: u64,
    /// Their bytes.
    pub kept_bytes: u64,
}

impl Sent {
    /// Adds what another transfer did.
    pub fn add(&mut self, other: Sent) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.kept_files += other.kept_files;
        self.kept_bytes += other.kept_bytes;
    }

    fn count(&mut self, blob: &Blob, is_there: bool) {
        let (files, bytes) = if is_there {
            (&mut self.kept_files, &mut self.kept_bytes)
        } else {
            (&mut self.files, &mut self.bytes)
        };
        *files += 1;
        *bytes += blob.bytes;
    }
}

/// Where a file lies in the folder of a board.
#[must_use]
pub fn place(folder: &str, blob: &Blob) -> String {
    format!("{folder}/blobs/{}", blob.blake3)
}

/// Sends what the board lacks of these files; the runner comes first, for it verifies the others. `sending` hears of each
/// file before it is sent, with the count of its bytes that have left this host.
///
/// # Errors
/// The board is not reached, its disk is full, or bytes arrive that are not those that were sent.
pub fn supply(
    transport: &dyn Transport,
    folder: &str,
    runner: &Blob,
    blobs: &[&Blob],
    sending: &mut dyn FnMut(&Blob, &Counter),
) -> Result<Sent, TransportError> {
    let mut seen = BTreeSet::from([&runner.blake3]);
    let others: Vec<&Blob> = blobs
        .iter()
        .copied()
        .filter(|blob| seen.insert(&blob.blake3))
        .collect();
    let program = place(folder, runner);
    let mut sent = Sent::default();
    let is_there = transport.has(runner, &program)?;
    if !is_there {
        let count = Counter::default();
        sending(runner, &count);
        put(transport, &program, runner, &program, &count)?;
    }
    sent.count(runner, is_there);
    let there = verified(transport, folder, &program, &others)?;
    for (blob, is_there) in others.into_iter().zip(there) {
        if !is_there {
            let count = Counter::default();
            sending(blob, &count);
            put(transport, &program, blob, &place(folder, blob), &count)?;
        }
        sent.count(blob, is_there);
    }
    Ok(sent)
}

/// Which files the board has, by their contents, as its verified runner reads them.
fn verified(
    transport: &dyn Transport,
    folder: &str,
    runner: &str,
    blobs: &[&Blob],
) -> Result<Vec<bool>, TransportError> {
    if blobs.is_empty() {
        return Ok(Vec::new());
    }
    let places = blobs.iter().map(|blob| place(folder, blob));
    let mut command = Command::new([runner.to_owned(), "hash".to_owned()].into_iter().chain(places));
    let bytes = blobs.iter().map(|blob| blob.bytes).sum();
    command.time_limit = Some(crate::transport::time_of(bytes));
    let mut hashes = Vec::new();
    let exit = transport.execute(&command, &mut |line| {
        hashes.push(line.split(' ').next().unwrap_or_default().to_owned());
    })?;
    if exit.code != 0 || hashes.len() != blobs.len() {
        return Err(TransportError::Failed {
            what: "verifying files".to_owned(),
            code: exit.code,
            words: exit
                .stderr
                .lines()
                .last()
                .unwrap_or("it printed nothing")
                .to_owned(),
        });
    }
    Ok(blobs
        .iter()
        .zip(hashes)
        .map(|(blob, hash)| blob.blake3 == hash)
        .collect())
}

fn put(
    transport: &dyn Transport,
    runner: &str,
    blob: &Blob,
    to: &str,
    count: &Counter,
) -> Result<(), TransportError> {
    let new = format!("{to}.new");
    transport.put(blob, &new, count)?;
    // the runner verifies itself: another program under its name would fail, or say another hash
    let program = if to == runner { new.as_str() } else { runner };
    let mut command = Command::new([program, "keep", &new, to, &blob.blake3]);
    command.time_limit = Some(crate::transport::time_of(blob.bytes));
    let exit = transport.execute(&command, &mut |_| {})?;
    let words = || {
        exit.stderr
            .lines()
            .last()
            .unwrap_or("it printed nothing")
            .to_owned()
    };
    match exit.code {
        0 => Ok(()),
        4 => Err(TransportError::Corrupt {
            path: to.to_owned(),
            words: words(),
        }),
        code => Err(TransportError::Failed {
            what: format!("checking {}", blob.name),
            code,
            words: words(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::transport::{Faults, Simulated};

    fn blob(name: &str, bytes: u64) -> Blob {
        Blob {
            path: name.into(),
            name: name.into(),
            blake3: blake3::hash(name.as_bytes()).to_hex().to_string(),
            sha256: None,
            bytes,
            program: false,
            machine: None,
        }
    }

    #[test]
    fn existing_files_are_not_sent_again() {
        let clock = Clock::simulated();
        let _presence = clock.enter();
        let board = Simulated::new(1, clock, Faults::default());
        let [runner, model, other] =
            [("runner", 10), ("model", 100), ("other", 1000)].map(|(name, bytes)| blob(name, bytes));
        let first = supply(&board, "/f", &runner, &[&model, &model], &mut |_, _| {}).unwrap();
        assert_eq!((first.files, first.bytes, first.kept_files), (2, 110, 0));
        let second = supply(&board, "/f", &runner, &[&model, &other], &mut |_, _| {}).unwrap();
        assert_eq!((second.files, second.bytes), (1, 1000));
        assert_eq!((second.kept_files, second.kept_bytes), (2, 110));
        assert_eq!(
            supply(&board, "/f", &runner, &[&model, &other], &mut |_, _| {})
                .unwrap()
                .files,
            0
        );
        assert_eq!(board.bytes_put(), 1110);
    }

    #[test]
    fn wrong_or_truncated_bytes_are_never_renamed() {
        let clock = Clock::simulated();
        let _presence = clock.enter();
        for (faults, is_corrupt) in [
            (
                Faults {
                    corrupt: 1000,
                    ..Faults::default()
                },
                true,
            ),
            (
                Faults {
                    partial: 1000,
                    ..Faults::default()
                },
                false,
            ),
        ] {
            let board = Simulated::new(1, clock.clone(), faults);
            let runner = blob("runner", 10);
            let error = supply(&board, "/f", &runner, &[], &mut |_, _| {}).unwrap_err();
            assert_eq!(
                matches!(error, TransportError::Corrupt { .. }),
                is_corrupt,
                "{error}"
            );
            assert!(error.may_pass());
            assert_eq!(board.lengths(&[place("/f", &runner)]).unwrap(), [None]);
        }
    }
}
