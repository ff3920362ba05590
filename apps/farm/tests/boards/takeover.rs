//! Another user of a board prepares its folder: what that user put there is never executed, loaded or overwritten.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use polychip_farm::transport::{Local, Transport as _, TransportError};
use polychip_farm::{Blob, Equipped, Summary};
use polychip_farm_record::{Job, Outcome};
use polychip_test_requirements::{Need, absent};

use crate::desk::{board, created, driven, header, records, settings, shapes};

/// `nobody`.
const OTHER: u32 = 65_534;

/// A board whose folder another user may have prepared.
struct Target {
    base: tempfile::TempDir,
    folder: PathBuf,
    marker: PathBuf,
}

impl Target {
    fn new() -> Target {
        let base = tempfile::tempdir().unwrap();
        // of the kind that all users of a board share
        mode(base.path(), 0o1777);
        Target {
            folder: base.path().join("farm"),
            marker: base.path().join("executed"),
            base,
        }
    }

    /// A program of so many bytes that leaves a mark.
    fn program(&self, bytes: u64) -> Vec<u8> {
        let mut text = format!("#!/bin/sh\ntouch {}\nexit 0\n", self.marker.display()).into_bytes();
        text.resize(usize::try_from(bytes).unwrap(), b'\n');
        text
    }

    fn blob(&self, blob: &Blob) -> PathBuf {
        self.folder.join("blobs").join(&blob.blake3)
    }

    /// Puts a program of the runner's length where the runner goes, in this folder.
    fn plant(&self, folder: &Path, runner: &Blob) {
        std::fs::create_dir_all(folder.join("blobs")).unwrap();
        let path = folder.join("blobs").join(&runner.blake3);
        std::fs::write(&path, self.program(runner.bytes)).unwrap();
        mode(&path, 0o755);
    }

    fn own(&self) {
        std::fs::create_dir_all(self.folder.join("blobs")).unwrap();
        mode(&self.folder, 0o700);
    }

    fn driven(&self, boards: &[Equipped]) -> (Summary, PathBuf) {
        let path = self.base.path().join("run");
        let run = created(&path, header("run", boards, &[Job::Bench], 1));
        (driven(&run, boards, &settings()), path)
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives files to the other user; false, with the reason said, where this user may not.
fn give(paths: &[&Path]) -> bool {
    for path in paths {
        if let Err(error) = chown(path, Some(OTHER), Some(OTHER)) {
            absent(
                Need::Tmpfs,
                &format!("this user may not give files away: {error}"),
            );
            return false;
        }
    }
    true
}

/// What another user does before the run; false where it cannot be done here.
type Attack = fn(&Target, &Blob) -> bool;

#[test]
fn folder_that_others_can_change_is_refused() {
    let attacks: [(&str, Attack, &str); 9] = [
        (
            "a folder of another user",
            |target, runner| {
                target.plant(&target.folder, runner);
                give(&[&target.blob(runner), &target.folder.join("blobs"), &target.folder])
            },
            "belongs to user 65534",
        ),
        (
            "a symbolic link to a folder of another user",
            |target, runner| {
                let evil = target.base.path().join("evil");
                target.plant(&evil, runner);
                symlink(&evil, &target.folder).unwrap();
                give(&[&target.blob(runner), &evil.join("blobs"), &evil])
            },
            "is a symbolic link",
        ),
        (
            "a symbolic link of this user",
            |target, runner| {
                let evil = target.base.path().join("evil");
                target.plant(&evil, runner);
                symlink(&evil, &target.folder).unwrap();
                true
            },
            "is a symbolic link",
        ),
        (
            "a world-writable parent that is not sticky",
            |target, runner| {
                mode(target.base.path(), 0o777);
                target.plant(&target.folder, runner);
                mode(&target.folder, 0o700);
                true
            },
            "can be changed by every user",
        ),
        (
            "a parent of another group",
            |target, runner| {
                target.plant(&target.folder, runner);
                mode(&target.folder, 0o700);
                mode(target.base.path(), 0o770);
                let given = chown(target.base.path(), None, Some(OTHER));
                given.is_ok() || give(&[target.base.path()])
            },
            "can be changed by group 65534",
        ),
        (
            "a parent of another user",
            |target, runner| {
                target.plant(&target.folder, runner);
                mode(&target.folder, 0o700);
                mode(target.base.path(), 0o755);
                give(&[target.base.path()])
            },
            "belongs to user 65534",
        ),
        (
            "a world-writable folder of this user",
            |target, runner| {
                target.plant(&target.folder, runner);
                mode(&target.folder, 0o1777);
                true
            },
            "can be changed by every user",
        ),
        (
            "a link in the folder's place of files",
            |target, runner| {
                let evil = target.base.path().join("evil");
                target.plant(&evil, runner);
                std::fs::create_dir(&target.folder).unwrap();
                mode(&target.folder, 0o700);
                symlink(evil.join("blobs"), target.folder.join("blobs")).unwrap();
                true
            },
            "blobs is not a folder",
        ),
        (
            "a file in the folder's place",
            |target, _| {
                std::fs::write(&target.folder, "words").unwrap();
                true
            },
            "is not a folder",
        ),
    ];
    for (name, attack, words) in attacks {
        let target = Target::new();
        let boards = [board("here", &target.folder, Local)];
        if !attack(&target, &boards[0].runner) {
            continue;
        }
        let (summary, _) = target.driven(&boards);
        assert!(!target.marker.exists(), "{name}: it was executed");
        assert_eq!((summary.measured, summary.lost), (0, 1), "{name}: {summary:?}");
        let reason = &summary.lost_boards["here"];
        assert!(reason.contains(words), "{name}: {reason}");
        assert!(reason.contains("`folder`"), "{name}: {reason}");
    }
}

#[test]
fn planted_files_in_a_private_folder_are_replaced() {
    let attacks: [(&str, Attack); 6] = [
        ("another program of the runner's length", |target, runner| {
            target.plant(&target.folder, runner);
            true
        }),
        ("a link to another program", |target, runner| {
            let evil = target.base.path().join("evil");
            target.plant(&evil, runner);
            target.own();
            symlink(evil.join("blobs").join(&runner.blake3), target.blob(runner)).unwrap();
            true
        }),
        ("a pipe in place of the runner", |target, runner| {
            target.own();
            let made = Program::new("mkfifo").arg(target.blob(runner)).status().unwrap();
            made.success()
        }),
        ("links where files arrive", |target, runner| {
            target.own();
            let precious = target.base.path().join("precious");
            std::fs::write(&precious, "words").unwrap();
            for name in [".new", ".new.part", ".part"] {
                let path = target
                    .folder
                    .join("blobs")
                    .join(format!("{}{name}", runner.blake3));
                symlink(&precious, path).unwrap();
            }
            true
        }),
        ("another model of the same length", |target, _| {
            target.own();
            let model = Blob::of(&shapes(), false).unwrap();
            let bytes = vec![7; usize::try_from(model.bytes).unwrap()];
            std::fs::write(target.blob(&model), bytes).unwrap();
            true
        }),
        ("a pipe in place of the model", |target, _| {
            target.own();
            let model = Blob::of(&shapes(), false).unwrap();
            Program::new("mkfifo")
                .arg(target.blob(&model))
                .status()
                .unwrap()
                .success()
        }),
    ];
    for (name, attack) in attacks {
        let target = Target::new();
        let boards = [board("here", &target.folder, Local)];
        let runner = &boards[0].runner;
        assert!(attack(&target, runner), "{name}");
        // no folder of before may be open to others
        mode(&target.folder, 0o755);
        let (summary, run) = target.driven(&boards);
        assert!(!target.marker.exists(), "{name}: it was executed");
        assert_eq!((summary.measured, summary.lost), (1, 0), "{name}: {summary:?}");
        let found = records(&run, "here");
        assert!(
            matches!(found[0].outcome, Outcome::Measured(_)),
            "{name}: {found:?}"
        );
        let model = Blob::of(&shapes(), false).unwrap();
        for (blob, path) in [(runner, &runner.path), (&model, &model.path)] {
            let there = target.blob(blob);
            assert!(std::fs::symlink_metadata(&there).unwrap().is_file(), "{name}");
            assert!(
                std::fs::read(&there).unwrap() == std::fs::read(path).unwrap(),
                "{name}"
            );
        }
        let precious = target.base.path().join("precious");
        if precious.exists() {
            assert_eq!(std::fs::read_to_string(&precious).unwrap(), "words", "{name}");
        }
        // no other user reads the models and results
        for path in walked(&target.folder) {
            let mode = std::fs::symlink_metadata(&path).unwrap().permissions().mode();
            assert!(
                path.is_symlink() || mode & 0o077 == 0,
                "{name}: {} {mode:o}",
                path.display()
            );
        }
    }
}

fn walked(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(walked(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn racing_user_never_gets_a_folder_accepted() {
    let target = Target::new();
    let probe = target.base.path().join("probe");
    std::fs::write(&probe, "").unwrap();
    if !give(&[&probe]) {
        return;
    }
    let script = format!(
        "while :; do mkdir {f} && mkdir {f}/blobs && echo evil > {f}/blobs/runner; rm -rf {f}; ln -s /tmp {f}; rm -f {f}; done",
        f = target.folder.display()
    );
    let mut racing = Program::new("sh");
    racing
        .args(["-c", &script])
        .uid(OTHER)
        .gid(OTHER)
        .stderr(std::process::Stdio::null());
    let mut racing = racing.spawn().unwrap();
    let name = target.folder.display().to_string();
    let (mut accepted, mut refused) = (0, 0);
    let mut found = Vec::new();
    for _ in 0..60 {
        match Local.prepare(&name) {
            Ok(prepared) => {
                accepted += 1;
                use std::os::unix::fs::MetadataExt as _;
                let data = std::fs::symlink_metadata(&prepared.folder).unwrap();
                let planted = Path::new(&prepared.folder).join("blobs/runner");
                found.push((data.uid(), data.is_dir(), data.mode() & 0o7777, planted.exists()));
                std::fs::remove_dir_all(&prepared.folder).unwrap();
            }
            Err(TransportError::UnsafeFolder { .. } | TransportError::Failed { .. }) => refused += 1,
            Err(error) => found.push((0, false, 0, error.to_string().is_empty())),
        }
    }
    racing.kill().unwrap();
    racing.wait().unwrap();
    eprintln!("{accepted} folders of ours, {refused} refused");
    let own = rustix::process::geteuid().as_raw();
    assert!(
        found.iter().all(|one| *one == (own, true, 0o700, false)),
        "{found:?}"
    );
    assert!(refused > 0, "the other user never came between");
}
