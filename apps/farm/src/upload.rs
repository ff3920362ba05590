//! Files that a board lacks, sent once: they lie there under the names of their contents.
//!
//! Invariant: what has its name has been verified on the board, by the runner that was sent first.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::blob::Blob;
use crate::transport::{Command, Transport, TransportError};

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
}

/// Where a file lies in the folder of a board.
#[must_use]
pub fn place(folder: &str, blob: &Blob) -> String {
    format!("{folder}/blobs/{}", blob.blake3)
}

/// Sends what the board lacks of these files; the runner comes first, for it verifies the others and itself.
///
/// # Errors
/// The board is not reached, its disk is full, or bytes arrive that are not those that were sent.
pub fn supply(
    transport: &dyn Transport,
    folder: &str,
    runner: &Blob,
    blobs: &[&Blob],
) -> Result<Sent, TransportError> {
    let mut seen = BTreeSet::new();
    let all: Vec<&Blob> = [runner]
        .into_iter()
        .chain(blobs.iter().copied())
        .filter(|blob| seen.insert(&blob.blake3))
        .collect();
    let places: Vec<String> = all.iter().map(|blob| place(folder, blob)).collect();
    let lengths = transport.lengths(&places)?;
    let mut sent = Sent::default();
    for ((blob, place), length) in all.into_iter().zip(&places).zip(lengths) {
        if length == Some(blob.bytes) {
            sent.kept_files += 1;
            sent.kept_bytes += blob.bytes;
            continue;
        }
        put(transport, &places[0], blob, place)?;
        sent.files += 1;
        sent.bytes += blob.bytes;
    }
    Ok(sent)
}

fn put(transport: &dyn Transport, runner: &str, blob: &Blob, to: &str) -> Result<(), TransportError> {
    let new = format!("{to}.new");
    transport.put(blob, &new)?;
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
        let first = supply(&board, "/f", &runner, &[&model, &model]).unwrap();
        assert_eq!((first.files, first.bytes, first.kept_files), (2, 110, 0));
        let second = supply(&board, "/f", &runner, &[&model, &other]).unwrap();
        assert_eq!((second.files, second.bytes), (1, 1000));
        assert_eq!((second.kept_files, second.kept_bytes), (2, 110));
        assert_eq!(supply(&board, "/f", &runner, &[&model, &other]).unwrap().files, 0);
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
            let error = supply(&board, "/f", &runner, &[]).unwrap_err();
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
