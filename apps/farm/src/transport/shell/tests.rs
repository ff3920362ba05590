//! Commands and files through a shell of this host, and through one that fails as ways to boards do.

use super::super::{Local, Transport};
use super::*;

/// A way on which something happens.
#[derive(Debug)]
struct Broken(&'static str);

impl Shell for Broken {
    const NAME: &'static str = "broken";

    fn program(&self, script: &str) -> Program {
        let mut program = Program::new("sh");
        program.args(["-c", &self.0.replace("SCRIPT", &quoted(script))]);
        program
    }
}

fn execute_on(way: &'static str, words: &[&str]) -> (Result<Exit, TransportError>, Vec<String>) {
    let mut lines = Vec::new();
    let mut command = Command::new(words.iter().copied());
    command.time_limit = Some(Duration::from_secs(5));
    let done = execute(&Broken(way), &command, &mut |line| lines.push(line.to_owned()));
    (done, lines)
}

fn blob(folder: &Path, bytes: &[u8]) -> Blob {
    let path = folder.join("a file");
    std::fs::write(&path, bytes).unwrap();
    Blob::of(&path, false).unwrap()
}

#[test]
fn arguments_lines_exit_codes_and_stderr_pass_through() {
    let mut lines = Vec::new();
    let mut command = Command::new([
        "sh",
        "-c",
        r#"cat; printf '%s\n' "$0" "$X" "$k$l" "a'b"; printf end; echo no >&2; exit 255"#,
    ]);
    command.words.push("it's $HOME".to_owned());
    for (name, value) in [("X", "1 2"), ("k", "3"), ("l", "4")] {
        command.environment.push((name.to_owned(), value.to_owned()));
    }
    command.stdin = b"read\n".to_vec();
    let exit = Local
        .execute(&command, &mut |line| lines.push(line.to_owned()))
        .unwrap();
    assert_eq!(lines, ["read", "it's $HOME", "1 2", "34", "a'b", "end"]);
    assert_eq!((exit.code, &*exit.stderr), (255, "no"));
}

#[test]
fn lossy_noisy_transport_is_tolerated() {
    let (done, lines) = execute_on(
        "echo welcome; sh -c SCRIPT; exit 0",
        &["sh", "-c", "echo a; exit 7"],
    );
    assert_eq!((done.unwrap().code, lines), (7, vec!["a".to_owned()]));
}

#[test]
fn transport_failures_are_distinguished() {
    let unreachable = execute_on("echo 'no route to host' >&2; exit 255", &["true"]).0;
    assert_eq!(
        unreachable,
        Err(TransportError::Unreachable {
            words: "no route to host".into()
        })
    );
    let refused = execute_on(
        "echo 'me@b: Permission denied (publickey).' >&2; exit 255",
        &["true"],
    )
    .0;
    assert!(
        matches!(refused, Err(TransportError::Refused { .. })),
        "{refused:?}"
    );
    let cut = execute_on(
        "sh -c SCRIPT | head -n 2; echo 'connection reset' >&2; exit 255",
        &["sh", "-c", "echo a; sleep 1; echo b"],
    );
    assert_eq!(
        cut.0,
        Err(TransportError::Disconnected {
            words: "connection reset".into()
        })
    );
    assert_eq!(cut.1, ["a"]);
    let mut command = Command::new(["sleep", "77"]);
    command.time_limit = Some(Duration::from_secs(1));
    let late = execute(&Local, &command, &mut |_| {});
    assert_eq!(
        late,
        Err(TransportError::TimedOut {
            what: "the command".into(),
            seconds: 1
        })
    );
    #[derive(Debug)]
    struct Missing;
    impl Shell for Missing {
        const NAME: &'static str = "missing";

        fn program(&self, _: &str) -> Program {
            Program::new("no-such-program")
        }
    }
    let missing = execute(&Missing, &command, &mut |_| {});
    assert_eq!(
        missing,
        Err(TransportError::NoProgram {
            program: "no-such-program".into()
        })
    );
}

#[test]
fn files_arrive_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let blob = blob(folder.path(), &bytes);
    let to = folder.path().join("x y/z");
    let name = to.to_str().unwrap();
    Local.put(&blob, name, &Counter::default()).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), bytes);
    let back = folder.path().join("back");
    assert_eq!(Local.get(name, &back).unwrap(), blob.bytes);
    assert_eq!(std::fs::read(&back).unwrap(), bytes);
    let missing = format!("{name}.no");
    let lengths = Local.lengths(&[name.to_owned(), missing.clone()]).unwrap();
    assert_eq!(lengths, [Some(blob.bytes), None]);
    let error = Local.get(&missing, &back).unwrap_err();
    assert!(
        matches!(error, TransportError::Failed { code: 2, .. })
            || matches!(error, TransportError::Failed { .. }),
        "{error}"
    );
    assert!(!error.may_pass());
}

#[test]
fn interrupted_transfer_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let blob = blob(folder.path(), &[7; 100_000]);
    let to = folder.path().join("to");
    let name = to.to_str().unwrap();
    // the way ends what it reads early, and the board sees an end
    let short = put(
        &Broken("head -c 5000 | sh -c SCRIPT"),
        &blob,
        name,
        &Counter::default(),
    )
    .unwrap_err();
    assert_eq!(
        short,
        TransportError::Partial {
            path: name.into(),
            sent: 100_000,
            arrived: 5000
        }
    );
    assert!(short.may_pass() && !to.exists() && !folder.path().join("to.part").exists());
    // a limit on file sizes emulates a disk that has room for a part of the file
    let full = put(
        &Broken("trap '' XFSZ; ulimit -f 8; sh -c SCRIPT"),
        &blob,
        name,
        &Counter::default(),
    )
    .unwrap_err();
    assert!(matches!(full, TransportError::NoSpace { .. }), "{full:?}");
    assert!(!full.may_pass() && !to.exists());
}

#[test]
fn marks_are_found_across_chunk_boundaries() {
    let text = b"motd\nM begin\none\ntwoM end 3\n";
    for size in 1..text.len() {
        let mut marks = Marks::new("M");
        let mut said = Vec::new();
        for piece in text.chunks(size) {
            marks.take(piece, &mut |bytes| said.extend_from_slice(bytes));
        }
        assert_eq!(
            (said.as_slice(), marks.code),
            (&b"one\ntwo"[..], Some(3)),
            "pieces of {size}"
        );
    }
}

/// A board with these programs only.
#[derive(Debug)]
struct Limited(std::path::PathBuf);

impl Shell for Limited {
    const NAME: &'static str = "limited";

    fn program(&self, script: &str) -> Program {
        let own = self.0.join("sh");
        let mut program = Program::new(if own.exists() { own } else { "/bin/sh".into() });
        program.args(["-c", script]).env("PATH", &self.0);
        program
    }
}

/// Boards whose tools are this system's, BusyBox's and Toybox's, where those are installed.
fn limited(folder: &Path, without: &[&str]) -> Vec<Limited> {
    const TOOLS: [&str; 15] = [
        "cat",
        "chmod",
        "date",
        "id",
        "ls",
        "mkdir",
        "mv",
        "printf",
        "rm",
        "sha256sum",
        "sh",
        "uname",
        "wc",
        "env",
        "touch",
    ];
    let find = |name: &str| {
        ["/usr/bin", "/bin"]
            .map(|folder| Path::new(folder).join(name))
            .into_iter()
            .find(|path| path.exists())
    };
    let mut boards = Vec::new();
    for set in ["system", "busybox", "toybox"] {
        let of_set = |tool: &str| if set == "system" { find(tool) } else { find(set) };
        let bin = folder.join(set);
        if of_set("cat").is_none() {
            eprintln!("{set} is not installed");
            continue;
        }
        std::fs::create_dir(&bin).unwrap();
        for tool in TOOLS.iter().filter(|tool| !without.contains(tool)) {
            // Debian's Toybox has no shell
            let target = if (set, *tool) == ("toybox", "sh") {
                find("sh")
            } else {
                of_set(tool)
            };
            std::os::unix::fs::symlink(target.unwrap(), bin.join(tool)).unwrap();
        }
        boards.push(Limited(bin));
    }
    boards
}

#[test]
fn busybox_and_toybox_prepare_a_folder_and_verify_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a program");
    std::fs::write(&path, b"#!/bin/sh\necho hello\n").unwrap();
    let program = Blob::of(&path, true).unwrap();
    for board in limited(folder.path(), &[]) {
        let shown = board.0.display().to_string();
        let wanted = format!("{shown}-farm/deep/it's");
        let prepared = board.prepare(&wanted).unwrap();
        assert_eq!(prepared.folder, wanted);
        assert!(prepared.system.contains(std::env::consts::ARCH), "{prepared:?}");
        assert!(prepared.clock_s > Some(1_700_000_000), "{prepared:?}");
        assert_eq!(
            board.prepare(&wanted).unwrap().folder,
            wanted,
            "it is accepted again"
        );
        let to = format!("{}/blobs/x", prepared.folder);
        assert!(!board.has(&program, &to).unwrap());
        board.put(&program, &to, &Counter::default()).unwrap();
        assert!(board.has(&program, &to).unwrap(), "{shown}");
        // of the same length
        std::fs::write(&to, b"#!/bin/sh\necho jello\n").unwrap();
        assert!(!board.has(&program, &to).unwrap(), "{shown}");
        // other bytes arrive
        let mut other = program.clone();
        other.sha256 = Some("0".repeat(64));
        let error = board.put(&other, &to, &Counter::default()).unwrap_err();
        assert!(
            matches!(error, TransportError::Corrupt { .. }),
            "{shown}: {error}"
        );
        let exit = execute(&board, &Command::new(["cat", &to]), &mut |_| {}).unwrap();
        assert_eq!(exit.code, 0, "{shown}: what was there is left");
        for (bad, words) in [
            (format!("{shown}-farm/../x"), "without . and .."),
            (format!("{shown}/cat"), "is not a folder"),
        ] {
            let error = board.prepare(&bad).unwrap_err().to_string();
            assert!(
                error.contains(words) || error.contains("is a symbolic link"),
                "{shown}: {error}"
            );
        }
        let folder_in_the_way = format!("{}/blobs/y", prepared.folder);
        std::fs::create_dir(&folder_in_the_way).unwrap();
        assert!(
            board
                .put(&program, &folder_in_the_way, &Counter::default())
                .is_err(),
            "{shown}"
        );
    }
}

#[test]
fn board_without_sha256_is_sent_the_runner_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a program");
    std::fs::write(&path, b"#!/bin/sh\n").unwrap();
    let program = Blob::of(&path, true).unwrap();
    let board = limited(folder.path(), &["sha256sum"]).remove(0);
    let to = folder.path().join("x").display().to_string();
    board.put(&program, &to, &Counter::default()).unwrap();
    assert_eq!(std::fs::read(&to).unwrap(), b"#!/bin/sh\n");
    assert!(!board.has(&program, &to).unwrap());
}

#[test]
fn home_that_cannot_be_written_is_replaced_by_a_folder_of_the_user() {
    #[derive(Debug)]
    struct Homeless(std::path::PathBuf);
    impl Shell for Homeless {
        const NAME: &'static str = "homeless";

        fn program(&self, script: &str) -> Program {
            let mut program = Program::new("sh");
            program.args(["-c", script]).env("HOME", &self.0);
            program
        }
    }
    let home = tempfile::tempdir().unwrap();
    let in_home = Homeless(home.path().to_owned())
        .prepare("~/.cache/polychip-farm/a")
        .unwrap();
    assert_eq!(
        Path::new(&in_home.folder),
        home.path().join(".cache/polychip-farm/a")
    );
    let name = format!("~/.cache/polychip-farm/test-{}", std::process::id());
    let elsewhere = Homeless(home.path().join("no")).prepare(&name).unwrap();
    let user = rustix::process::geteuid().as_raw();
    let expected = format!("/tmp/polychip-farm-{user}/test-{}", std::process::id());
    std::fs::remove_dir_all(&elsewhere.folder).unwrap();
    assert_eq!(elsewhere.folder, expected);
}

#[test]
fn variables_are_in_no_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list");
    let secret = format!("it's \"a\" $HOME `secret` \\ {}", std::process::id());
    let mut lines = Vec::new();
    let mut command = Command::new([
        "sh",
        "-c",
        "cat; echo \"$X\"; echo \"$Y\"; cat /proc/[0-9]*/cmdline > \"$0\"",
    ]);
    command.words.push(list.display().to_string());
    command.environment.push(("X".to_owned(), secret.clone()));
    command.environment.push(("Y".to_owned(), String::new()));
    command.stdin = b"first\nsecond".to_vec();
    let exit = Local
        .execute(&command, &mut |line| lines.push(line.to_owned()))
        .unwrap();
    assert_eq!(
        lines,
        ["first".to_owned(), format!("second{secret}"), String::new()]
    );
    // some processes may have ended meanwhile
    drop(exit);
    let arguments = String::from_utf8_lossy(&std::fs::read(&list).unwrap()).into_owned();
    assert!(arguments.contains("sh"), "{arguments}");
    assert!(!arguments.contains("`secret`"), "{arguments}");
}
