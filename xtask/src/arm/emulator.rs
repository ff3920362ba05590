//! Runs one test program on one emulated processor to its end or limit, and parses the output.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::binfmt::Starts;
use super::build::LIBRARIES;
use super::packages;
use super::program::Program;
use crate::root::root;
use crate::tally::Tally;

/// How often a program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(100);

/// The most failed tests that are named; the file has the rest.
const NAMED: usize = 12;

/// A processor to run programs on.
pub(super) struct Emulator {
    pub(super) cpu: String,
    /// The folder for what programs print.
    pub(super) logs: PathBuf,
    pub(super) limit: Duration,
    pub(super) environment: Vec<(&'static str, String)>,
    /// Who starts programs that tests start.
    pub(super) starts: Starts,
    /// The folder in which tests look for programs first.
    pub(super) path: PathBuf,
}

/// How a program of tests ended.
pub(super) enum End {
    Passed(Tally, Duration),
    /// With what is known of the failure.
    Failed(Tally, Duration, String),
    /// It was not started.
    Skipped(String),
}

impl End {
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, End::Failed(..))
    }

    /// Tests that ran, tests that were skipped.
    pub(super) fn counts(&self) -> (usize, usize) {
        match self {
            End::Passed(tally, _) | End::Failed(tally, ..) => (tally.ran(), tally.skipped()),
            End::Skipped(_) => (0, 0),
        }
    }

    pub(super) fn took(&self) -> Duration {
        match self {
            End::Passed(_, took) | End::Failed(_, took, _) => *took,
            End::Skipped(_) => Duration::ZERO,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Passed(tally, took) => write!(f, "passed, {tally}, {} s", took.as_secs()),
            End::Failed(tally, took, why) => write!(f, "FAILED, {tally}, {} s: {why}", took.as_secs()),
            End::Skipped(why) => write!(f, "skipped, {why}"),
        }
    }
}

impl Emulator {
    /// The command that starts a program of aarch64's. What it starts itself is run on the same processor.
    pub(super) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = self.starts.command(program);
        command
            .env("QEMU_CPU", &self.cpu)
            .env("QEMU_LD_PREFIX", LIBRARIES)
            // GLib's slices have a lock of their own, which a fork of the emulator's copies while another thread holds it
            // (until GLib 2.76, which has no slices): the child then waits for ever. What malloc locks is free there
            .env("G_SLICE", "always-malloc");
        command
    }

    /// Runs the tests of a program, all or those whose names hold one of these.
    pub(super) fn run(&self, program: &Program, names: &[String]) -> Result<End> {
        std::fs::create_dir_all(&self.logs).with_context(|| self.logs.display().to_string())?;
        let log = self
            .logs
            .join(program.name().replace("::", "-").replace(' ', "") + ".log");
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = self.command(&program.file);
        // what a test that passed has printed may say that it found nothing to run on
        if program.is_harness {
            command.arg("--show-output");
        }
        for (test, _) in packages::skipped(&program.name()) {
            command.args(["--skip", test]);
        }
        command
            .args(names)
            .current_dir(&program.folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .env("PATH", self.path()?)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // libraries of ours that tests load are among what was built
            .env("POLYCHIP_BUILT", "1")
            .env("INSTA_WORKSPACE_ROOT", root())
            .env("INSTA_UPDATE", "no")
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env("CARGO", env!("CARGO"));
        let start = Instant::now();
        let status = self.wait(command, start)?;
        let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        let tally = Tally::of(&text);
        let took = start.elapsed();
        Ok(match status {
            Some(status) if status.success() => End::Passed(tally, took),
            Some(status) => End::Failed(tally, took, failure(status, &text)),
            None => {
                let words = format!("still running after {} min", self.limit.as_secs() / 60);
                End::Failed(tally, took, words)
            }
        })
    }

    /// Where tests find programs.
    fn path(&self) -> Result<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = [self.path.clone()]
            .into_iter()
            .chain(std::env::split_paths(&path));
        std::env::join_paths(folders).context("a folder in PATH has a colon")
    }

    /// Waits for the end of a program; none where it was ended at the limit, with all that it had started.
    fn wait(&self, mut command: Command, start: Instant) -> Result<Option<ExitStatus>> {
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if start.elapsed() > self.limit {
                let group = format!("-{}", child.id());
                Command::new("kill").args(["-KILL", "--", &group]).status()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }
}

/// What ended a program, and which tests had failed by then.
fn failure(status: ExitStatus, text: &str) -> String {
    let mut failed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .collect();
    failed.sort_unstable();
    let more = failed.len().saturating_sub(NAMED);
    failed.truncate(NAMED);
    let mut words = match status.signal() {
        Some(signal) => format!("ended by {}", signal_name(signal)),
        None => String::new(),
    };
    for name in failed {
        let separator = if words.is_empty() { "" } else { ", " };
        words += &format!("{separator}{name}");
    }
    if more > 0 {
        words += &format!(" and {more} more");
    }
    if words.is_empty() {
        words = text.lines().last().unwrap_or("it printed nothing").to_owned();
    }
    words
}

/// The name of a signal that tells of a wrong program.
pub(super) fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL (an instruction that this processor lacks)".to_owned(),
        6 => "SIGABRT".to_owned(),
        7 => "SIGBUS".to_owned(),
        11 => "SIGSEGV".to_owned(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_instruction_and_failed_tests_are_reported() {
        let text = "test b ... FAILED\ntest a ... ok\ntest c::d ... FAILED\n";
        assert_eq!(failure(ExitStatus::from_raw(101 << 8), text), "b, c::d");
        let words = failure(ExitStatus::from_raw(4), text);
        assert!(words.starts_with("ended by SIGILL"), "{words}");
        assert_eq!(
            failure(ExitStatus::from_raw(1 << 8), "one\nerror: no file\n"),
            "error: no file"
        );
    }

    #[test]
    fn hanging_program_is_killed() {
        let emulator = Emulator {
            cpu: "max".to_owned(),
            logs: PathBuf::new(),
            limit: Duration::from_millis(300),
            environment: Vec::new(),
            starts: Starts::Nothing,
            path: PathBuf::new(),
        };
        let mut command = Command::new("sleep");
        command.arg("60").process_group(0);
        let start = Instant::now();
        assert!(emulator.wait(command, start).unwrap().is_none());
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
