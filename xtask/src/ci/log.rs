//! Output of a check: shown, stored in a file, and searched for failures.
//!
//! Invariant: the file holds all output of a command, from both streams and in order.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};

use anyhow::{Context, Result};

use crate::root::root;

/// Lines that are shown of a failure: the end of the log, and what tells of the failure.
const LAST: usize = 8;
const TELLING: usize = 25;

/// Lines shown of what one test said.
const SAID: usize = 5;

/// When what a check prints is shown.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    AsItComes,
    /// In one piece, for checks that run beside each other.
    AtTheEnd,
}

/// The file of a check.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    shown: Shown,
}

impl Log {
    /// An empty file for a check in `target/ci`.
    pub(super) fn new(check: &str, shown: Shown) -> Result<Log> {
        let folder = root().join("target/ci");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let name: String = check
            .chars()
            .map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' })
            .collect();
        let path = folder.join(format!("{name}.log"));
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Log { path, file, shown })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a command to its end.
    pub(super) fn run(&mut self, mut command: Command) -> Result<ExitStatus> {
        let (reader, writer) = std::io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        self.follow(command, reader)
    }

    /// The same, but what the command prints to standard output goes to another file.
    pub(super) fn run_into(&mut self, mut command: Command, output: File) -> Result<ExitStatus> {
        let (reader, writer) = std::io::pipe()?;
        command.stdout(output).stderr(writer);
        self.follow(command, reader)
    }

    fn follow(&mut self, mut command: Command, reader: PipeReader) -> Result<ExitStatus> {
        let words = format!("{command:?}");
        let mut child = command.spawn().with_context(|| words)?;
        // its ends of the pipe: the reader ends when the child's are closed too
        drop(command);
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            self.write(&line)?;
            line.clear();
        }
        Ok(child.wait()?)
    }

    /// Runs commands, as many at a time as there are processors; what each prints is shown when it ends. True where all
    /// went well.
    pub(super) fn run_together(&mut self, commands: Vec<Command>) -> Result<bool> {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let waiting = Mutex::new(commands.into_iter());
        let (send, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..most {
                let (waiting, send) = (&waiting, send.clone());
                scope.spawn(move || {
                    loop {
                        // the guard ends with the statement
                        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(mut command) = next else { break };
                        let output = command.stdin(Stdio::null()).output();
                        if send.send((command, output)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let mut passed = true;
            for (command, output) in ended {
                let output = output.with_context(|| format!("{command:?}"))?;
                self.write(format!("$ {command:?}\n").as_bytes())?;
                self.write(&output.stdout)?;
                self.write(&output.stderr)?;
                passed &= output.status.success();
            }
            Ok(passed)
        })
    }

    /// Adds bytes to the file, and shows them if they are shown as they come.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Shown::AsItComes = self.shown {
            std::io::stderr().write_all(bytes)?;
        }
        Ok(self.file.write_all(bytes)?)
    }

    /// Shows all at the end of the check, where nothing was shown before.
    pub(super) fn end(&self, check: &str) -> Result<()> {
        if let Shown::AtTheEnd = self.shown {
            let mut output = std::io::stderr().lock();
            writeln!(output, "\n== {check} has finished; its output")?;
            output.write_all(self.text()?.as_bytes())?;
        }
        Ok(())
    }

    /// All that was printed.
    pub(super) fn text(&self) -> Result<String> {
        let bytes = std::fs::read(&self.path).with_context(|| self.path.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What is there to say of the failure, in two pieces: the end of the output, and the lines that tell.
    pub(super) fn failure(&self) -> Result<(String, String)> {
        let text = self.text()?;
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST)..].join("\n");
        let mut telling = telling(&text);
        let more = telling.len().saturating_sub(TELLING);
        telling.truncate(TELLING);
        let mut telling = telling.join("\n");
        if more > 0 {
            telling += &format!("\n(and {more} more such lines in {})", self.path.display());
        }
        Ok((last, telling))
    }
}

/// Lines that tell of a failure: of tests that failed with the first of what they said, of panics and of errors.
fn telling(text: &str) -> Vec<&str> {
    const WORDS: [&str; 7] = [
        "FAILED",
        "TIMEOUT",
        "SIGABRT",
        "SIGSEGV",
        "panicked at",
        "error:",
        "error[",
    ];
    let mut found: Vec<&str> = Vec::new();
    let mut said = 0;
    for line in text.lines().map(str::trim_end) {
        let heads = line.starts_with("---- ");
        let tells = heads
            || WORDS.iter().any(|word| line.contains(word))
            || line.trim_start().starts_with("FAIL ")
            || line.contains(" failed");
        // names of tests and counts hold such words too
        let passed = line.ends_with(" ok") || line.contains(" 0 failed");
        if tells && !passed {
            said = if heads || line.contains("panicked at") {
                SAID
            } else {
                0
            };
        } else if said > 0 && !line.is_empty() {
            said -= 1;
        } else {
            said = 0;
            continue;
        }
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_in_test_output() {
        let text = "   Compiling a v0.1.0\n\
            test errors/a_failed_load ... ok\n\
            test models/b ... FAILED\n\
            \n\
            ---- models/b ----\n\
            output \"y\": cosine 0.99 instead of 0.999\n\
            \n\
            one more line\n\
            test result: ok. 3 passed; 0 failed; 0 ignored\n\
            thread 'main' panicked at src/a.rs:3:5:\n\
            invariant: no\n\
            error: test failed, to rerun pass `--test a`\n";
        assert_eq!(
            telling(text),
            [
                "test models/b ... FAILED",
                "---- models/b ----",
                "output \"y\": cosine 0.99 instead of 0.999",
                "thread 'main' panicked at src/a.rs:3:5:",
                "invariant: no",
                "error: test failed, to rerun pass `--test a`",
            ]
        );
    }

    #[test]
    fn concurrent_commands_all_run_and_failures_are_reported() {
        let mut log = Log::new("a test of commands together", Shown::AsItComes).unwrap();
        let command = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        assert!(
            log.run_together(vec![command("echo one"), command("echo two")])
                .unwrap()
        );
        assert!(
            !log.run_together(vec![command("exit 1"), command("echo three")])
                .unwrap()
        );
        let text = log.text().unwrap();
        assert!(
            ["one\n", "two\n", "three\n"]
                .iter()
                .all(|word| text.contains(word)),
            "{text}"
        );
        std::fs::remove_file(log.path()).unwrap();
    }

    #[test]
    fn a_command_prints_into_its_file_and_says_how_it_ended() {
        let mut log = Log::new("a test of the log", Shown::AsItComes).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo fine; echo 'error: this' >&2; exit 3"]);
        let status = log.run(command).unwrap();
        assert_eq!(status.code(), Some(3));
        let (last, telling) = log.failure().unwrap();
        assert_eq!((&*last, &*telling), ("fine\nerror: this", "error: this"));
        std::fs::remove_file(log.path()).unwrap();
    }
}
