//! A sandbox, as the process sees it that started it.

use std::fmt;
use std::io::{BufReader, BufWriter};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::command::command;
use super::frame;
use super::limits::{CPU_SECONDS, LONGEST, MAX_FRAME, MEMORY, STACK};

/// How often a caller is asked whether it still waits.
const LOOK: Duration = Duration::from_millis(20);

/// Why a sandbox did not do its job. It is of no more use then.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The caller no longer waits.
    Cancelled,
    /// The sandbox ended, or was ended at a limit.
    Ended(String),
    /// It could not be started: the text that it was to read has no part in that.
    Unavailable(std::io::Error),
}

/// A sandbox process. It ends with this.
pub(crate) struct Process {
    child: Child,
    input: BufWriter<ChildStdin>,
    replies: Receiver<Vec<u8>>,
    /// When the oldest job began that is not done.
    since: Option<Instant>,
    /// Replies that are still to come.
    expected: usize,
}

impl Process {
    /// Starts a sandbox; `None` where there is no program for it.
    pub(crate) fn start() -> Option<Result<Process, Failure>> {
        let command = command()?;
        Some(Process::of(&command).map_err(Failure::Unavailable))
    }

    fn of(command: &[std::ffi::OsString]) -> std::io::Result<Process> {
        let mut starter = Command::new(&command[0]);
        starter
            .args(&command[1..])
            // a sandbox reads hostile text: it gets no secret
            .env_remove("POLYCHIP_API_KEY")
            // nor does an interpreter look for modules in the working folder
            .env("PYTHONSAFEPATH", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // a hostile text must not fill the log
            .stderr(Stdio::null());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt as _;
            // Ctrl-C is for the app, which may have answers to finish
            starter.process_group(0);
        }
        let mut child = starter.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were piped");
        };
        let (sender, replies) = channel();
        let read = move || {
            let mut output = BufReader::new(output);
            while let Ok(Some(reply)) = frame::read(&mut output, MAX_FRAME) {
                if sender.send(reply).is_err() {
                    break;
                }
            }
        };
        let reader = std::thread::Builder::new().name("polychip-sandbox".to_owned());
        let process = Process {
            child,
            input: BufWriter::new(input),
            replies,
            since: None,
            expected: 0,
        };
        reader.spawn(read)?;
        Ok(process)
    }

    /// Whether the sandbox has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether no reply is to come.
    pub(crate) fn is_idle(&self) -> bool {
        self.expected == 0
    }

    /// Sends a message that has so many replies.
    pub(crate) fn send(&mut self, parts: &[&[u8]], replies: usize) -> Result<(), Failure> {
        if frame::write(&mut self.input, parts).is_err() {
            return Err(self.ended());
        }
        self.expected += replies;
        if self.expected > 0 && self.since.is_none() {
            self.since = Some(Instant::now());
        }
        Ok(())
    }

    /// One reply less is to come than a message had at most.
    pub(crate) fn expect_less(&mut self) {
        self.expected = self.expected.saturating_sub(1);
        self.since = (self.expected > 0).then(Instant::now);
    }

    /// Waits for the next reply while `go_on` returns true.
    pub(crate) fn receive(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<u8>, Failure> {
        loop {
            match self.replies.recv_timeout(LOOK) {
                Ok(reply) => return Ok(self.received(reply)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if !go_on() => return Err(Failure::Cancelled),
                Err(RecvTimeoutError::Timeout) => self.check_time()?,
            }
        }
    }

    /// The next reply, if it has come.
    pub(crate) fn try_receive(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self.replies.try_recv() {
            Ok(reply) => Ok(Some(self.received(reply))),
            Err(TryRecvError::Disconnected) => Err(self.ended()),
            Err(TryRecvError::Empty) => self.check_time().map(|()| None),
        }
    }

    fn received(&mut self, reply: Vec<u8>) -> Vec<u8> {
        self.expect_less();
        reply
    }

    fn check_time(&self) -> Result<(), Failure> {
        match self.since {
            Some(since) if since.elapsed() > LONGEST => Err(Failure::Ended(format!(
                "reading it takes longer than the limit of {} s",
                LONGEST.as_secs()
            ))),
            _ => Ok(()),
        }
    }

    /// Why the sandbox has ended.
    fn ended(&mut self) -> Failure {
        // its output is closed: it ends, or has to
        let _ = self.child.kill();
        let words = match self.child.wait() {
            Ok(status) => explained(status),
            Err(error) => format!("the process that reads it was lost: {error}"),
        };
        Failure::Ended(words)
    }
}

/// What a status means for the job.
fn explained(status: std::process::ExitStatus) -> String {
    #[cfg(unix)]
    {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt as _;
        let signal = status.signal();
        let is = |known: Signal| signal == Some(known.as_raw());
        if is(Signal::XCPU) {
            return format!("reading it takes more than the limit of {CPU_SECONDS} s of processor time");
        }
        if is(Signal::ABORT) || is(Signal::SEGV) || is(Signal::BUS) || is(Signal::KILL) {
            return format!(
                "reading it takes more than the limits of {} MiB of memory or {} MiB of stack",
                MEMORY >> 20,
                STACK >> 20
            );
        }
    }
    format!(
        "the process that reads it ended ({status}); its limits are {} MiB of memory, {} MiB of stack and {CPU_SECONDS} s of processor time",
        MEMORY >> 20,
        STACK >> 20
    )
}

impl Drop for Process {
    fn drop(&mut self) {
        // it has nothing to save; an error means that it has ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("id", &self.child.id())
            .finish_non_exhaustive()
    }
}
