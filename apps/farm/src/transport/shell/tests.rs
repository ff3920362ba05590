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
        r#"cat; printf '%s\n' "$0" "$X" "a'b"; printf end; echo no >&2; exit 255"#,
    ]);
    command.words.push("it's $HOME".to_owned());
    command.environment.push(("X".to_owned(), "1 2".to_owned()));
    command.stdin = b"read\n".to_vec();
    let exit = Local
        .execute(&command, &mut |line| lines.push(line.to_owned()))
        .unwrap();
    assert_eq!(lines, ["read", "it's $HOME", "1 2", "a'b", "end"]);
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
    Local.put(&blob, name).unwrap();
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
    let short = put(&Broken("head -c 5000 | sh -c SCRIPT"), &blob, name).unwrap_err();
    assert_eq!(
        short,
        TransportError::Partial {
            path: name.into(),
            sent: 100_000,
            arrived: 5000
        }
    );
    assert!(short.may_pass() && !to.exists() && !folder.path().join("to.part").exists());
    // a disk that takes a part of it: the limit of a process' files stands in for it
    let full = put(&Broken("trap '' XFSZ; ulimit -f 8; sh -c SCRIPT"), &blob, name).unwrap_err();
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
