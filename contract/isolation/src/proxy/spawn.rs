//! Starting the program that loads a plugin.
//!
//! Invariants:
//! 1. The child gets three descriptors only: its end of the control socket as standard input, and a
//!    pipe as standard output and error.
//! 2. A child that is dropped without a wait is killed, and is reaped however long it takes to end.
//! 3. The child is in a process group of its own: signals of the terminal are for the app.

use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use polychip_sdk::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::process::KILL_LIMIT;
use crate::confinement::NO_SANDBOX;
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
    /// Reads the printed output, at most twice the capacity of a pipe, without waiting. A child
    /// that prints without end therefore does not block the caller.
    pub(super) fn read(&mut self) {
        let mut block = [0; 4096];
        for _ in 0..32 {
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
        .args((!isolated.is_confined).then_some(NO_SANDBOX))
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(write))
        .stderr(Stdio::from(second))
        .process_group(0)
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
        let limit = isolated.limits.long_call;
        let received = self
            .await_greeting(limit)
            .and_then(|()| self.control.receive::<Greeting>(0, None, None));
        match received {
            Ok((greeting, _)) => greeting,
            Err(Broken::Closed) => {
                let how = self.how_it_closed();
                self.output.read();
                Err(format!(
                    "its process {how} while it loaded the library{}",
                    self.output.last()
                ))
            }
            Err(Broken::TimedOut) => Err(format!(
                "its process did not load the library within {limit:?}{}",
                self.output.last()
            )),
            // the greetings of versions differ in length
            Err(Broken::Malformed(words)) => Err(format!(
                "{}: {words}; it may be of another version than this program",
                isolated.program.display()
            )),
            Err(Broken::NoDescriptors) => Err(format!(
                "{}: a greeting with a descriptor",
                isolated.program.display()
            )),
        }
    }

    /// Waits for the greeting. Meanwhile reads the child's output, because a full pipe would block
    /// the child.
    fn await_greeting(&mut self, limit: Duration) -> std::result::Result<(), Broken> {
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let mut polled = vec![
                PollFd::from_borrowed_fd(self.control.socket(), PollFlags::IN),
                PollFd::new(&self.pidfd, PollFlags::IN),
            ];
            if self.output.open {
                polled.push(PollFd::new(&self.output.pipe, PollFlags::IN));
            }
            let ready = match poll(&mut polled, Some(&frame::timespec(left))) {
                Ok(ready) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(Broken::Malformed(format!("poll: {error}"))),
            };
            let is_ready = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
            let (greeted, died, printed) = (is_ready(0), is_ready(1), is_ready(2));
            if printed {
                self.output.read();
            }
            // what was sent before the death still counts
            if greeted {
                return Ok(());
            }
            if died {
                return Err(Broken::Closed);
            }
            if ready == 0 || left.is_zero() {
                return Err(Broken::TimedOut);
            }
        }
    }

    /// What became of a child that closed its socket, as text. A child that still lives is killed.
    fn how_it_closed(&mut self) -> String {
        if ends_within(&self.pidfd, Duration::from_secs(1)) {
            return death_of(self.child.wait());
        }
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        "closed its connection".to_owned()
    }

    /// Kills the child and waits for its end.
    pub(super) fn end(mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        if ends_within(&self.pidfd, KILL_LIMIT) {
            let _ = self.child.wait();
        } else {
            reap_later(self.child);
        }
    }
}

/// Whether the process ends within `limit`.
fn ends_within(pidfd: &OwnedFd, limit: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut polled, Some(&frame::timespec(left))) {
            Ok(0) if left.is_zero() => return false,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

/// Waits for the end of a killed child on a thread of its own.
pub(super) fn reap_later(mut child: Child) {
    let reaper = std::thread::Builder::new().name("polychip-reap".to_owned());
    // without the thread, what is left of the child stays until this program ends
    let _ = reaper.spawn(move || child.wait());
}

/// Starts the program, asks the plugin for its identity, and ends it.
pub(super) fn describe(isolated: &Isolated) -> std::result::Result<Hello, String> {
    let mut spawned = spawn(isolated).map_err(|error| error.to_string())?;
    let hello = spawned.greeting(isolated);
    spawned.end();
    hello
}
