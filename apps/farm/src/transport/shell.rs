//! Boards that run a shell script: the common part of local, ssh and adb. Each implements how it
//! starts a shell ([`Shell`]).
//!
//! A script prints a line before it begins, and its exit code after it has ended. A transport that
//! loses exit codes, or fails with codes of its own, therefore cannot be mistaken for the command.
//!
//! Invariants:
//! 1. What a script makes on the board is readable by its user alone.
//! 2. Values of environment variables are in no program's arguments, which every user of a machine can list.

mod folder;

use std::fmt::Debug;
use std::io::Write as _;
use std::path::Path;
use std::process::Command as Program;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::process::{self, Limits, Stdin};
use super::quoted::quoted;
use super::{Command, Counter, Exit, Prepared, Transport, TransportError};
use crate::blob::Blob;

/// A way that runs scripts, and so is a [`Transport`].
pub(super) trait Shell: Debug + Send + Sync {
    /// [`Transport::name`].
    const NAME: &'static str;

    /// The program of this host that runs a script, given as one word, by the board's `sh`.
    fn program(&self, script: &str) -> Program;

    /// Whether it may lead to Android, whose system users own folders above the farm's.
    const ANDROID: bool = false;

    /// Makes ready for scripts, before each call.
    fn connect(&self) -> Result<(), TransportError> {
        Ok(())
    }

    /// Copies a file to the board, under its temporary name until its length is right.
    fn send(&self, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError>
    where
        Self: Sized,
    {
        put(self, blob, to, sent)
    }
}

impl<S: Shell> Transport for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn execute(&self, command: &Command, line: &mut dyn FnMut(&str)) -> Result<Exit, TransportError> {
        self.connect()?;
        execute(self, command, line)
    }

    fn put(&self, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError> {
        self.connect()?;
        self.send(blob, to, sent)
    }

    fn get(&self, from: &str, to: &Path) -> Result<u64, TransportError> {
        self.connect()?;
        get(self, from, to)
    }

    fn lengths(&self, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError> {
        self.connect()?;
        lengths(self, paths)
    }

    fn probe(&self) -> Result<String, TransportError> {
        self.connect()?;
        Ok(short(self, "uname", "uname -sm")?.trim().to_owned())
    }

    fn prepare(&self, folder: &str) -> Result<Prepared, TransportError> {
        self.connect()?;
        prepare(self, folder)
    }

    fn has(&self, blob: &Blob, at: &str) -> Result<bool, TransportError> {
        self.connect()?;
        has(self, blob, at)
    }
}

/// Longest for what moves no file and measures nothing.
pub(super) const SHORT: Duration = Duration::from_secs(60);
/// A transfer that moves nothing for so long is over.
const STUCK: Duration = Duration::from_secs(60);
/// Slowest transfer that is waited for, in bytes a second.
const SLOWEST: u64 = 50_000;

/// A word that no output holds by accident.
fn mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("polychip-mark-{}-{count}", std::process::id())
}

/// The longest that so many bytes may take.
pub(crate) fn time_of(bytes: u64) -> Duration {
    SHORT + Duration::from_secs(bytes / SLOWEST)
}

/// Runs a script, and gives its output between the marks, in pieces as they come.
fn script(
    shell: &impl Shell,
    text: &str,
    stdin: Stdin,
    limits: Limits,
    output: &mut dyn FnMut(&[u8]),
) -> Result<Exit, TransportError> {
    let mark = mark();
    // a subshell: whatever it does, the last line comes
    let whole = format!("umask 077; echo {mark} begin; ( {text} ); echo {mark} end $?");
    let mut program = shell.program(&whole);
    let mut marks = Marks::new(&mark);
    let ended = process::run(&mut program, stdin, limits, &mut |bytes| {
        marks.take(bytes, output)
    });
    let ended = ended.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => TransportError::NoProgram {
            program: program.get_program().to_string_lossy().into_owned(),
        },
        _ => TransportError::Unreachable {
            words: error.to_string(),
        },
    })?;
    if let Some(code) = marks.code {
        return Ok(Exit {
            code,
            stderr: ended.stderr,
        });
    }
    if let Some(limit) = ended.limit {
        return Err(TransportError::TimedOut {
            what: if marks.begun {
                "the command"
            } else {
                "the connection"
            }
            .to_owned(),
            seconds: limit.as_secs(),
        });
    }
    let words = match ended.stderr.lines().last() {
        Some(line) => line.to_owned(),
        None => format!(
            "{} ended with {}",
            program.get_program().to_string_lossy(),
            ended.status
        ),
    };
    if marks.begun {
        return Err(TransportError::Disconnected { words });
    }
    const REFUSALS: [&str; 5] = [
        "Permission denied",
        "Host key verification failed",
        "Too many authentication failures",
        "unauthorized",
        "not allowed",
    ];
    Err(if REFUSALS.iter().any(|refusal| ended.stderr.contains(refusal)) {
        TransportError::Refused { words }
    } else {
        TransportError::Unreachable { words }
    })
}

/// Finds the marks in output that comes in pieces.
struct Marks {
    begin: Vec<u8>,
    end: Vec<u8>,
    begun: bool,
    code: Option<i32>,
    /// Bytes that may be the start of a mark.
    held: Vec<u8>,
}

impl Marks {
    fn new(mark: &str) -> Marks {
        Marks {
            begin: format!("{mark} begin").into_bytes(),
            end: format!("{mark} end ").into_bytes(),
            begun: false,
            code: None,
            held: Vec::new(),
        }
    }

    fn take(&mut self, bytes: &[u8], output: &mut dyn FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        if !self.begun {
            // what a board says at every login comes before
            let Some(at) = find(&self.held, &self.begin) else {
                return;
            };
            let rest = at + self.begin.len();
            let Some(line) = find(&self.held[rest..], b"\n") else {
                return;
            };
            self.held.drain(..=rest + line);
            self.begun = true;
        }
        if let Some(at) = find(&self.held, &self.end) {
            let code = &self.held[at + self.end.len()..];
            if let Some(line) = find(code, b"\n") {
                self.code = String::from_utf8_lossy(&code[..line]).trim().parse().ok();
                output(&self.held[..at]);
                self.held.clear();
            }
            return;
        }
        // the last bytes may be a mark's first
        let whole = self.held.len().saturating_sub(self.end.len());
        // a line goes out at once unless the mark could begin in it
        let lines = self
            .held
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let free = whole.max(lines);
        if free > 0 {
            output(&self.held[..free]);
            self.held.drain(..free);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The script that takes variables from the first lines of standard input, up to this word. Where the input ends
/// before it, nothing is run. The inventory refuses names like those of its own variables.
fn read_environment(end: &str) -> String {
    format!(
        "polychip_k_=; while IFS= read -r polychip_l_; do case $polychip_l_ in {end}) polychip_k_=1; break;; \
         *) export \"$polychip_l_\";; esac; done; [ -n \"$polychip_k_\" ] || exit 1; unset polychip_k_ polychip_l_;"
    )
}

/// [`Transport::execute`].
fn execute(
    shell: &impl Shell,
    command: &Command,
    line: &mut dyn FnMut(&str),
) -> Result<Exit, TransportError> {
    let words: Vec<String> = command.words.iter().map(|word| quoted(word)).collect();
    let mut text = words.join(" ");
    let mut stdin = Vec::new();
    if !command.environment.is_empty() {
        let end = mark();
        text = format!("{} exec {text}", read_environment(&end));
        for (name, value) in &command.environment {
            stdin.extend_from_slice(format!("{name}={value}\n").as_bytes());
        }
        stdin.extend_from_slice(format!("{end}\n").as_bytes());
    }
    stdin.extend_from_slice(&command.stdin);
    let limits = Limits {
        time: command.time_limit,
        silence: command.silence_limit,
    };
    let mut rest: Vec<u8> = Vec::new();
    let mut said = |bytes: &[u8]| {
        rest.extend_from_slice(bytes);
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let whole: Vec<u8> = rest.drain(..=at).collect();
            line(String::from_utf8_lossy(&whole).trim_end_matches(['\r', '\n']));
        }
    };
    let exit = script(shell, &text, Stdin::Bytes(stdin), limits, &mut said)?;
    if !rest.is_empty() {
        line(&String::from_utf8_lossy(&rest));
    }
    Ok(exit)
}

/// Runs a short script; what it prints.
pub(super) fn short(shell: &impl Shell, what: &str, text: &str) -> Result<String, TransportError> {
    let limits = Limits {
        time: Some(SHORT),
        silence: None,
    };
    let mut said = Vec::new();
    let exit = script(shell, text, Stdin::Bytes(Vec::new()), limits, &mut |bytes| {
        said.extend_from_slice(bytes);
    })?;
    match exit.code {
        0 => Ok(String::from_utf8_lossy(&said).into_owned()),
        _ => Err(failed(what, exit)),
    }
}

/// The error of a command that is part of a transfer.
fn failed(what: &str, exit: Exit) -> TransportError {
    let words = exit
        .stderr
        .lines()
        .last()
        .unwrap_or("it printed nothing")
        .to_owned();
    if ["No space left", "Disk quota exceeded", "File too large"]
        .iter()
        .any(|full| exit.stderr.contains(full))
    {
        TransportError::NoSpace { words }
    } else {
        TransportError::Failed {
            what: what.to_owned(),
            code: exit.code,
            words,
        }
    }
}

/// The temporary name of a file.
pub(super) fn part(to: &str) -> String {
    format!("{to}.part")
}

/// The script that makes a file's folder.
pub(super) fn make_folder(to: &str) -> String {
    let folder = to.rsplit_once('/').map_or(".", |(folder, _)| folder);
    format!("mkdir -p {}", quoted(folder))
}

/// The code of [`finish`] for a file of another length.
const SHORTER: i32 = 74;
/// The code of [`finish`] for a file of other contents.
const DIFFERENT: i32 = 75;

/// The script's function `h`: prints the SHA-256 of a file in hex digits, or fails where the board has no program for
/// it.
const SHA256: &str = "h() { for t in sha256sum 'busybox sha256sum' 'toybox sha256sum' 'openssl dgst -sha256 -r' \
    'shasum -a 256'; do o=$($t < \"$1\" 2>/dev/null) && { echo \"${o%% *}\"; return 0; }; done; return 1; }; ";

/// The script that gives a file its name where its length and contents are right; otherwise its code is [`SHORTER`] or
/// [`DIFFERENT`]. Contents are compared if the board can compute a SHA-256.
fn finish(blob: &Blob, to: &str) -> String {
    let (part, to) = (quoted(&part(to)), quoted(to));
    let mode = if blob.program { "700" } else { "600" };
    let length = blob.bytes;
    let contents = blob.sha256.as_ref().map_or_else(String::new, |sha256| {
        format!(
            "{SHA256} if d=$(h {part}); then [ \"$d\" = {sha256} ] || \
             {{ rm -f {part}; echo \"SHA-256 $d instead of {sha256}\" >&2; exit {DIFFERENT}; }}; fi; "
        )
    });
    format!(
        "n=$(wc -c < {part}) || exit 1; [ $n -eq {length} ] || {{ rm -f {part}; echo arrived $n >&2; exit {SHORTER}; }}; \
         {contents}if [ -d {to} ]; then echo {to} is a folder, delete it >&2; exit 1; fi; \
         chmod {mode} {part} && mv -f {part} {to}"
    )
}

/// [`Transport::has`].
fn has(shell: &impl Shell, blob: &Blob, at: &str) -> Result<bool, TransportError> {
    let Some(sha256) = &blob.sha256 else {
        return Ok(false);
    };
    let text = format!(
        "{SHA256} p={}; if [ -h \"$p\" ]; then echo link; elif [ -f \"$p\" ] && [ -x \"$p\" ]; \
         then h \"$p\" || echo unknown; else echo none; fi",
        quoted(at)
    );
    let limits = Limits {
        time: Some(time_of(blob.bytes)),
        silence: None,
    };
    let mut said = Vec::new();
    let exit = script(shell, &text, Stdin::Bytes(Vec::new()), limits, &mut |bytes| {
        said.extend_from_slice(bytes);
    })?;
    match exit.code {
        0 => Ok(String::from_utf8_lossy(&said).trim() == sha256),
        _ => Err(failed("comparing the runner", exit)),
    }
}

/// [`Transport::prepare`].
fn prepare<S: Shell>(shell: &S, folder: &str) -> Result<Prepared, TransportError> {
    let limits = Limits {
        time: Some(SHORT),
        silence: None,
    };
    let mut said = Vec::new();
    let text = folder::script(folder, S::ANDROID);
    let exit = script(shell, &text, Stdin::Bytes(Vec::new()), limits, &mut |bytes| {
        said.extend_from_slice(bytes);
    })?;
    match exit.code {
        0 => folder::prepared(&String::from_utf8_lossy(&said)),
        folder::UNSAFE => Err(TransportError::UnsafeFolder {
            words: exit.stderr.lines().last().unwrap_or_default().to_owned(),
        }),
        _ => Err(failed("preparing the farm's folder", exit)),
    }
}

/// Puts a file through the standard input of the board's `cat`, which every board has.
fn put(shell: &impl Shell, blob: &Blob, to: &str, sent: &Counter) -> Result<(), TransportError> {
    let file = std::fs::File::open(&blob.path).map_err(|error| host(&blob.path, &error))?;
    let name = part(to);
    let text = format!(
        "{} || exit 1; rm -f {p}; cat > {p} || {{ rm -f {p}; exit 1; }}; {}",
        make_folder(to),
        finish(blob, to),
        p = quoted(&name)
    );
    let limits = Limits {
        time: Some(time_of(blob.bytes)),
        silence: None,
    };
    let exit = script(
        shell,
        &text,
        Stdin::File(file, Counter::clone(sent)),
        limits,
        &mut |_| {},
    )?;
    finished(blob, to, exit)
}

/// Ends a transfer that another program did: [`finish`].
pub(super) fn finish_put(shell: &impl Shell, blob: &Blob, to: &str) -> Result<(), TransportError> {
    let limits = Limits {
        time: Some(SHORT),
        silence: None,
    };
    let exit = script(
        shell,
        &finish(blob, to),
        Stdin::Bytes(Vec::new()),
        limits,
        &mut |_| {},
    )?;
    finished(blob, to, exit)
}

fn finished(blob: &Blob, to: &str, exit: Exit) -> Result<(), TransportError> {
    match exit.code {
        0 => Ok(()),
        SHORTER => Err(TransportError::Partial {
            path: to.to_owned(),
            sent: blob.bytes,
            arrived: exit
                .stderr
                .rsplit(' ')
                .next()
                .and_then(|number| number.parse().ok())
                .unwrap_or_default(),
        }),
        DIFFERENT => Err(TransportError::Corrupt {
            path: to.to_owned(),
            words: exit.stderr.lines().last().unwrap_or_default().to_owned(),
        }),
        _ => Err(failed(&format!("putting {to}"), exit)),
    }
}

/// Gets a file through the standard output of the board's `cat`.
fn get(shell: &impl Shell, from: &str, to: &Path) -> Result<u64, TransportError> {
    let place = to.with_extension("part");
    let mut file = std::fs::File::create(&place).map_err(|error| host(&place, &error))?;
    // a reader of a pipe or a device would wait for ever
    let text = format!(
        "[ -f {f} ] || {{ echo {f} is not a file >&2; exit 1; }}; wc -c < {f} && cat {f}",
        f = quoted(from)
    );
    let limits = Limits {
        time: None,
        silence: Some(STUCK),
    };
    let mut line: Option<Vec<u8>> = Some(Vec::new());
    let (mut sent, mut arrived) = (None, 0u64);
    let mut trouble = None;
    let exit = script(shell, &text, Stdin::Bytes(Vec::new()), limits, &mut |bytes| {
        let mut bytes = bytes;
        if let Some(start) = &mut line {
            let Some(at) = bytes.iter().position(|byte| *byte == b'\n') else {
                start.extend_from_slice(bytes);
                return;
            };
            start.extend_from_slice(&bytes[..at]);
            sent = String::from_utf8_lossy(start).trim().parse::<u64>().ok();
            line = None;
            bytes = &bytes[at + 1..];
        }
        arrived += bytes.len() as u64;
        if let Err(error) = file.write_all(bytes) {
            trouble.get_or_insert(error);
        }
    });
    let done = exit.and_then(|exit| match (exit.code, sent, &trouble) {
        (_, _, Some(error)) => Err(host(&place, error)),
        (0, Some(sent), None) if sent == arrived => file
            .sync_all()
            .and_then(|()| std::fs::rename(&place, to))
            .map_err(|error| host(to, &error)),
        (0, sent, None) => Err(TransportError::Partial {
            path: from.to_owned(),
            sent: sent.unwrap_or_default(),
            arrived,
        }),
        _ => Err(failed(&format!("getting {from}"), exit)),
    });
    if done.is_err() {
        let _ = std::fs::remove_file(&place);
    }
    done.map(|()| arrived)
}

/// [`Transport::lengths`].
fn lengths(shell: &impl Shell, paths: &[String]) -> Result<Vec<Option<u64>>, TransportError> {
    let names: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    let text = format!(
        "for f in {}; do if [ -f \"$f\" ]; then wc -c < \"$f\"; else echo none; fi; done",
        names.join(" ")
    );
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let said = short(shell, "looking for files", &text)?;
    let found: Vec<Option<u64>> = said.lines().map(|line| line.trim().parse().ok()).collect();
    if found.len() == paths.len() {
        Ok(found)
    } else {
        Err(TransportError::Failed {
            what: "looking for files".to_owned(),
            code: 0,
            words: format!("{} answers for {} files", found.len(), paths.len()),
        })
    }
}

pub(super) fn host(path: &Path, error: &std::io::Error) -> TransportError {
    TransportError::Host {
        path: path.display().to_string(),
        words: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
