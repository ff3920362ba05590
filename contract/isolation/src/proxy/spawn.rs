//! Starting the program that loads a plugin.
//!
//! Invariants:
//! 1. The child gets three descriptors only: its end of the control socket as standard input, and a
//!    pipe as standard output and error.
//! 2. A child that is not waited for is killed.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use polychip_sdk::{Error, ErrorKind, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::frame::{self, Broken, Channel};
use crate::isolated::Isolated;
use crate::message::{Greeting, Hello};

/// Lines of output that are kept.
const LINES: usize = 8;
/// Longest kept line, in bytes.
const LINE_BYTES: usize = 300;

/// A started program.
pub(super) struct Spawned {
    pub(super) child: Child,
    pub(super) pidfd: OwnedFd,
    pub(super) control: Channel,
    pub(super) output: Output,
}

/// What the child prints, of which the last lines are kept.
pub(super) struct Output {
    pub(super) pipe: OwnedFd,
    pub(super) open: bool,
    rest: Vec<u8>,
    lines: std::collections::VecDeque<String>,
}

impl Output {
    /// Reads what has been printed; does not wait.
    pub(super) fn read(&mut self) {
        let mut block = [0; 4096];
        loop {
            match rustix::io::read(&self.pipe, &mut block) {
                Ok(0) => {
                    self.open = false;
                    return;
                }
                Ok(count) => self.add(&block[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => {
                    self.open = false;
                    return;
                }
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.end_line();
            } else if self.rest.len() < LINE_BYTES {
                self.rest.push(byte);
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.rest).into_owned();
        self.rest.clear();
        tracing::debug!(target: "polychip::plugin", "{line}");
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The last lines, as part of a message; empty if there are none.
    pub(super) fn last(&mut self) -> String {
        if !self.rest.is_empty() {
            self.end_line();
        }
        if self.lines.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        format!("; it last wrote: {}", lines.join(" | "))
    }
}

/// How a process ended, as text.
pub(super) fn death_of(status: std::io::Result<ExitStatus>) -> String {
    let Ok(status) = status else {
        return "ended".to_owned();
    };
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                31 => " (SIGSYS)",
                _ => "",
            };
            format!("was ended by signal {signal}{name}")
        }
        (_, Some(code)) => format!("exited with code {code}"),
        _ => "ended".to_owned(),
    }
}

/// Starts the program.
pub(super) fn spawn(isolated: &Isolated) -> Result<Spawned> {
    let failed = |words: String| {
        let words = format!("{} cannot be started: {words}", isolated.program.display());
        Error::new(ErrorKind::Persistent, words)
    };
    let (ours, theirs) = frame::pair()?;
    let flags = rustix::pipe::PipeFlags::CLOEXEC;
    let (pipe, write) = rustix::pipe::pipe_with(flags).map_err(|error| failed(error.to_string()))?;
    rustix::io::ioctl_fionbio(&pipe, true).map_err(|error| failed(error.to_string()))?;
    let second = write.try_clone().map_err(|error| failed(error.to_string()))?;
    let mut child = Command::new(&isolated.program)
        .arg(&isolated.library)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(write))
        .stderr(Stdio::from(second))
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let pidfd = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(format!("a process descriptor: {error}")));
        }
    };
    Ok(Spawned {
        child,
        pidfd,
        control: Channel::new(ours),
        output: Output {
            pipe,
            open: true,
            rest: Vec::new(),
            lines: std::collections::VecDeque::new(),
        },
    })
}

impl Spawned {
    /// Receives the greeting.
    ///
    /// # Errors
    /// The reason why the plugin cannot be used.
    pub(super) fn greeting(&mut self, isolated: &Isolated) -> std::result::Result<Hello, String> {
        let limit = Some(isolated.limits.long_call);
        match self
            .control
            .receive::<Greeting>(0, Some(self.pidfd.as_fd()), limit)
        {
            Ok((greeting, _)) => greeting,
            Err(Broken::Closed) => {
                let status = self.child.wait();
                self.output.read();
                Err(format!(
                    "its process {} while it loaded the library{}",
                    death_of(status),
                    self.output.last()
                ))
            }
            Err(Broken::TimedOut) => Err(format!(
                "its process did not load the library within {:?}",
                isolated.limits.long_call
            )),
            Err(Broken::Malformed(words)) => Err(format!("{}: {words}", isolated.program.display())),
        }
    }

    /// Kills the child and waits for its end.
    pub(super) fn end(mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Starts the program, asks the plugin for its identity, and ends it.
pub(super) fn describe(isolated: &Isolated) -> std::result::Result<Hello, String> {
    let mut spawned = spawn(isolated).map_err(|error| error.to_string())?;
    let hello = spawned.greeting(isolated);
    spawned.end();
    hello
}
