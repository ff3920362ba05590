//! A process that answers lines: one side of a comparison, which computes only on request.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;

/// A process that answers each line with one of JSON.
#[derive(Debug)]
pub struct Runner {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Runner {
    /// Starts it; its standard error is kept for its last words.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let to = child.stdin.take().context("no standard input")?;
        let from = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Runner { child, to, from })
    }

    /// The next line, or the process's last words.
    ///
    /// # Errors
    /// The process has ended, or its line is something else.
    pub fn line<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            let mut words = String::new();
            if let Some(errors) = &mut self.child.stderr {
                errors.read_to_string(&mut words)?;
            }
            let lines = words.lines().filter(|line| !line.trim().is_empty());
            let last: Vec<&str> = lines.collect();
            return Err(anyhow!("{}", last[last.len().saturating_sub(6)..].join(" ")));
        }
        serde_json::from_str(&line).with_context(|| line)
    }

    /// Its answer to a line.
    ///
    /// # Errors
    /// As [`Runner::line`].
    pub fn ask<T: DeserializeOwned>(&mut self, what: &str) -> Result<T> {
        // where the process is gone, its last words say more than the broken pipe
        let _ = writeln!(self.to, "{what}").and_then(|()| self.to.flush());
        self.line()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A figure of this process's memory in bytes, by its name in `/proc/self/status`; 0 where the system does not tell it.
#[must_use]
pub fn memory(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Starts the peak of this process's memory anew.
pub fn forget_peak() {
    // where the system has no such file, the peak includes what was read before
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
