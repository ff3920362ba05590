//! A sandbox, as the process sees it that started it.
//!
//! Invariants:
//! 1. Sending never waits for the sandbox: a thread writes, and what it has not written yet is limited.
//! 2. Ending a sandbox waits for nothing: a thread waits until the system has freed its memory.

use std::fmt;
use std::io::{BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::command::command;
use super::frame;
use super::limits::{CPU_SECONDS, LONGEST, MAX_FRAME, MAX_UNWRITTEN, MEMORY, STACK};

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
    /// Until this is dropped.
    child: Option<Child>,
    /// To the thread that writes; bytes that it has not written yet.
    messages: Sender<Vec<u8>>,
    unwritten: Arc<AtomicUsize>,
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
        let (messages, written) = channel();
        let process = Process {
            child: Some(child),
            messages,
            unwritten: Arc::default(),
            replies,
            since: None,
            expected: 0,
        };
        let unwritten = Arc::clone(&process.unwritten);
        thread().spawn(read)?;
        thread().spawn(move || write(input, &written, &unwritten))?;
        Ok(process)
    }

    /// Whether the sandbox has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Whether no reply is to come.
    pub(crate) fn is_idle(&self) -> bool {
        self.expected == 0
    }

    /// Sends a message that has so many replies. Does not wait until it is written.
    pub(crate) fn send(&mut self, parts: &[&[u8]], replies: usize) -> Result<(), Failure> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > MAX_FRAME {
            return Err(Failure::Ended(format!(
                "its {length} bytes exceed the limit of {MAX_FRAME} bytes"
            )));
        }
        let mut message = Vec::with_capacity(length + 4);
        if frame::write(&mut message, parts).is_err() {
            return Err(self.ended());
        }
        let unwritten = self.unwritten.fetch_add(message.len(), Ordering::AcqRel);
        if unwritten.saturating_add(length) > MAX_UNWRITTEN {
            return Err(Failure::Ended(format!(
                "the process that reads it has left {unwritten} bytes unread; the limit is {MAX_UNWRITTEN}"
            )));
        }
        if self.messages.send(message).is_err() {
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
        // its input or output is closed: it ends, or has to, and has freed its memory before
        let status = self.child.as_mut().map(|child| {
            let _ = child.kill();
            child.wait()
        });
        let words = match status {
            Some(Ok(status)) => explained(status),
            Some(Err(error)) => format!("the process that reads it was lost: {error}"),
            None => "the process that reads it was ended".to_owned(),
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

fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("polychip-sandbox".to_owned())
}

/// Writes messages until the sandbox or its `Process` ends.
fn write(mut input: ChildStdin, messages: &Receiver<Vec<u8>>, unwritten: &AtomicUsize) {
    for message in messages {
        if input.write_all(&message).is_err() {
            return;
        }
        unwritten.fetch_sub(message.len(), Ordering::AcqRel);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // it has nothing to save; an error means that it has ended
        let _ = child.kill();
        if let Ok(Some(_)) = child.try_wait() {
            return;
        }
        // the system may take a while to free its memory; without a thread it is reaped when this process ends
        let _ = thread().spawn(move || child.wait());
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("id", &self.child.as_ref().map(Child::id))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Process {
    /// Ends the sandbox as the system would that is short of memory.
    pub(crate) fn kill_for_test(&mut self) {
        let child = self.child.as_mut().expect("it was not dropped");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A process that reads nothing.
    fn deaf() -> Process {
        Process::of(&["sleep".into(), "1000".into()]).expect("there is a program `sleep`")
    }

    #[test]
    fn sending_to_a_process_that_reads_nothing_is_refused_at_a_limit() {
        let mut process = deaf();
        let megabyte = vec![0; 1 << 20];
        let mut sent = 0;
        let error = loop {
            match process.send(&[&megabyte], 0) {
                Ok(()) => sent += megabyte.len(),
                Err(error) => break error,
            }
            assert!(sent <= MAX_UNWRITTEN, "nothing limits it");
        };
        assert!(matches!(error, Failure::Ended(words) if words.contains("unread")));
        assert!(sent >= MAX_UNWRITTEN / 2);
        // its end waits for neither thread
        drop(process);
    }

    #[test]
    fn long_messages_are_refused_with_the_limit() {
        let mut process = deaf();
        let half = vec![0; MAX_FRAME / 2 + 1];
        let error = process.send(&[&half, &half], 1).unwrap_err();
        assert!(matches!(error, Failure::Ended(words) if words.contains(&MAX_FRAME.to_string())));
        assert!(process.is_idle() && process.is_alive());
    }

    #[test]
    fn end_is_seen_when_the_process_is_gone() {
        let mut process = deaf();
        process.kill_for_test();
        assert!(!process.is_alive());
        assert!(matches!(process.receive(&mut || true), Err(Failure::Ended(_))));
    }
}
