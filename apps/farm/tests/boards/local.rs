//! This host as a board: the whole way, from files to records, and what goes wrong on it.

use std::fs::File;
use std::path::Path;
use std::process::Command as Program;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use polychip_farm::transport::{Command, Counter, Exit, Local, Prepared, Ssh, Transport, TransportError};
use polychip_farm::{Blob, RunFolder};
use polychip_farm_record::{Job, Outcome};
use polychip_test_requirements::{Need, absent};

use crate::desk::{board, created, driven, header, records, settings};

#[test]
fn model_is_profiled_and_timed_without_duplicate_transfers() {
    let folder = tempfile::tempdir().unwrap();
    let boards = [board("here", &folder.path().join("board"), Local)];
    let path = folder.path().join("run");
    let run = created(&path, header("first", &boards, &[Job::Profile, Job::Bench], 1));
    let summary = driven(&run, &boards, &settings());
    assert_eq!(
        (summary.measured, summary.left, summary.sent.files),
        (2, 0, 2),
        "{summary:?}"
    );
    assert!(summary.missing_profiles.is_empty());
    let found = records(&path, "here");
    let [profile, bench] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((profile.item.job, bench.item.job), (Job::Profile, Job::Bench));
    let Outcome::Measured(measured) = &bench.outcome else {
        panic!("{bench:?}")
    };
    assert_eq!(measured.samples_ns.len(), 5);
    assert_eq!(bench.build.runner, boards[0].runner.blake3);
    let database = std::fs::read(path.join("profiles/here.profile")).unwrap();
    assert!(
        database.starts_with(b"SQLite format 3"),
        "{} bytes",
        database.len()
    );
    // a resumed run fetches what the ended driver had not fetched yet
    drop(run);
    std::fs::remove_file(path.join("profiles/here.profile")).unwrap();
    let run = RunFolder::open(&path).unwrap();
    let summary = driven(&run, &boards, &settings());
    assert_eq!((summary.measured, summary.known_before), (0, 2), "{summary:?}");
    assert!(summary.missing_profiles.is_empty());
    assert_eq!(
        std::fs::read(path.join("profiles/here.profile")).unwrap().len(),
        database.len()
    );
    // the second run sends nothing
    let run = created(
        &folder.path().join("second"),
        header("second", &boards, &[Job::Bench], 1),
    );
    let summary = driven(&run, &boards, &settings());
    assert_eq!(
        (summary.measured, summary.sent.files, summary.sent.kept_files),
        (1, 0, 2),
        "{summary:?}"
    );
}

/// A way on which the first runner is killed after a while, by a signal that it cannot see.
#[derive(Debug, Default)]
struct Killing {
    way: Local,
    calls: AtomicU32,
}

impl Transport for Killing {
    fn name(&self) -> &'static str {
        self.way.name()
    }

    fn execute(&self, command: &Command, line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError> {
        let mut command = command.clone();
        let is_serving = command.words.iter().any(|word| word == "serve");
        if is_serving && self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            let kill = ["timeout", "-s", "KILL", "4"].map(str::to_owned);
            command.words.splice(0..0, kill);
        }
        self.way.execute(&command, line)
    }

    fn put(&self, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError> {
        self.way.put(blob, to, sent)
    }

    fn get(&self, from: &str, to: &Path) -> Result<u64, TransportError> {
        self.way.get(from, to)
    }

    fn lengths(&self, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError> {
        self.way.lengths(paths)
    }

    fn probe(&self) -> Result<String, TransportError> {
        self.way.probe()
    }

    fn prepare(&self, folder: &str) -> Result<Prepared, TransportError> {
        self.way.prepare(folder)
    }

    fn has(&self, blob: &Blob, at: &str) -> Result<bool, TransportError> {
        self.way.has(blob, at)
    }
}

#[test]
fn killed_runner_restarts_and_records_each_item_once() {
    let folder = tempfile::tempdir().unwrap();
    let boards = [board("here", &folder.path().join("board"), Killing::default())];
    let path = folder.path().join("run");
    // soaks of two seconds each: the kill falls into one of them
    let run = created(&path, header("run", &boards, &[Job::Soak], 3));
    let summary = driven(&run, &boards, &settings());
    assert_eq!(
        (summary.measured, summary.lost, summary.left),
        (3, 0, 0),
        "{summary:?}"
    );
    let found = records(&path, "here");
    let threads: Vec<_> = found.iter().map(|record| record.item.settings.threads).collect();
    assert_eq!(threads, [Some(1), Some(2), Some(3)]);
}

/// A way on which runners wait for no other, and the other one ends before the third is started.
#[derive(Debug)]
struct Busy {
    way: Local,
    calls: AtomicU32,
    /// The journal as the other runner has it open.
    other: Mutex<Option<File>>,
    /// Calls for which the other one works.
    until: u32,
}

impl Busy {
    fn until(until: u32, journal: &Path) -> Busy {
        std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
        let file = File::create(journal).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        Busy {
            way: Local,
            calls: AtomicU32::new(0),
            other: Mutex::new(Some(file)),
            until,
        }
    }
}

impl Transport for Busy {
    fn name(&self) -> &'static str {
        self.way.name()
    }

    fn execute(&self, command: &Command, line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError> {
        let mut command = command.clone();
        if let Some(at) = command.words.iter().position(|word| word == "--wait") {
            command.words[at + 1] = "0".into();
            if self.calls.fetch_add(1, Ordering::Relaxed) == self.until {
                self.other.lock().unwrap().take();
            }
        }
        self.way.execute(&command, line)
    }

    fn put(&self, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError> {
        self.way.put(blob, to, sent)
    }

    fn get(&self, from: &str, to: &Path) -> Result<u64, TransportError> {
        self.way.get(from, to)
    }

    fn lengths(&self, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError> {
        self.way.lengths(paths)
    }

    fn probe(&self) -> Result<String, TransportError> {
        self.way.probe()
    }

    fn prepare(&self, folder: &str) -> Result<Prepared, TransportError> {
        self.way.prepare(folder)
    }

    fn has(&self, blob: &Blob, at: &str) -> Result<bool, TransportError> {
        self.way.has(blob, at)
    }
}

#[test]
fn waiting_for_another_runner_fails_only_after_a_timeout() {
    let folder = tempfile::tempdir().unwrap();
    // the first try of all: a failure would lose the board
    let mut settings = settings();
    settings.tries = 1;
    let run_on = |name: &str, until: u32| {
        let home = folder.path().join(name);
        let way = Busy::until(until, &home.join("runs").join(name).join("journal.jsonl"));
        let boards = [board("here", &home, way)];
        let run = created(
            &folder.path().join(format!("{name}-run")),
            header(name, &boards, &[Job::Bench], 1),
        );
        driven(&run, &boards, &settings)
    };
    let summary = run_on("short", 2);
    assert_eq!(
        (summary.measured, summary.lost, summary.left),
        (1, 0, 0),
        "{summary:?}"
    );
    assert!(summary.lost_boards.is_empty(), "{summary:?}");
    // an item may take 300 s, and a runner waits for 30 s at a time: the twelfth wait is one too many
    let summary = run_on("long", 12);
    assert_eq!((summary.measured, summary.lost), (0, 1), "{summary:?}");
    let words = &summary.lost_boards["here"];
    assert!(words.contains("another runner is still working here"), "{words}");
}

#[test]
fn missing_board_is_reported_and_another_board_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let gone = Ssh {
        address: "nobody@127.0.0.1".into(),
        // no server listens at this port
        port: Some(1),
        ..Ssh::default()
    };
    let boards = [
        board("gone", &folder.path().join("gone"), gone),
        board("here", &folder.path().join("here"), Local),
    ];
    let mut boards = boards.to_vec();
    let path = folder.path().join("run");
    let run = created(&path, header("run", &boards, &[Job::Bench], 3));
    let summary = driven(&run, &boards, &settings());
    assert_eq!((summary.measured, summary.lost), (3, 0), "{summary:?}");
    assert!(!summary.lost_boards["gone"].is_empty());
    assert_eq!(records(&path, "here").len(), 3);
    // without an interchangeable board, its items are reported by name
    boards.truncate(1);
    let path = folder.path().join("alone");
    let run = created(&path, header("alone", &boards, &[Job::Bench], 2));
    let summary = driven(&run, &boards, &settings());
    assert_eq!(
        (summary.measured, summary.lost, summary.left),
        (0, 2, 0),
        "{summary:?}"
    );
    for record in records(&path, "gone") {
        let Outcome::Failed(failure) = &record.outcome else {
            panic!("{record:?}")
        };
        assert!(
            failure.board && failure.reason.contains("board gone is unavailable"),
            "{failure:?}"
        );
    }
    assert_eq!(records(&path, "gone").len(), 2);
}

/// A small disk; unmounted when dropped.
struct Disk<'a>(&'a Path);

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Program::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn board_with_full_disk_is_reported_and_another_board_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Program::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"])
        .arg(&small)
        .output();
    let _disk = match mounted {
        Ok(output) if output.status.success() => Disk(&small),
        Ok(output) => return absent(Need::Tmpfs, &String::from_utf8_lossy(&output.stderr)),
        Err(error) => return absent(Need::Tmpfs, &format!("mount: {error}")),
    };
    let boards = [
        board("full", &small, Local),
        board("here", &folder.path().join("here"), Local),
    ];
    let path = folder.path().join("run");
    let run = created(&path, header("run", &boards, &[Job::Bench], 2));
    let summary = driven(&run, &boards, &settings());
    assert_eq!((summary.measured, summary.lost), (2, 0), "{summary:?}");
    let words = &summary.lost_boards["full"];
    assert!(words.contains("disk is full"), "{words}");
    // what did not fit is not left behind
    let left: u64 = std::fs::read_dir(small.join("blobs"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(left, 0);
}

#[test]
fn a_runner_for_another_processor_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut boards = [board("here", &folder.path().join("board"), Local)];
    boards[0].runner.machine = Some("sparc64");
    let run = created(
        &folder.path().join("run"),
        header("run", &boards, &[Job::Bench], 1),
    );
    let summary = driven(&run, &boards, &settings());
    let words = &summary.lost_boards["here"];
    assert!(
        words.contains("is built for sparc64") && words.contains("runner"),
        "{words}"
    );
}
