//! A program of this host, with what it reads and prints, and limits of its time.
//!
//! Invariant: when a call returns, the program has ended, and so has all that it started, unless that left its group.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::Counter;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// What a program reads.
pub(crate) enum Stdin {
    Bytes(Vec<u8>),
    /// A file, and a count of its bytes that were read.
    File(File, Counter),
}

/// How long a program may take, and be silent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    pub(crate) silence: Option<Duration>,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The end of its standard error.
    pub(crate) stderr: String,
    /// It was ended after this limit.
    pub(crate) limit: Option<Duration>,
}

/// Bytes of standard error that are kept.
const KEPT: usize = 4096;
/// A program that has ended may have left its output open in others: so long they are heard.
const GRACE: Duration = Duration::from_secs(2);
/// Time between two looks at a silent program.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a program and gives its output as it comes.
pub(crate) fn run(
    command: &mut Command,
    stdin: Stdin,
    limits: Limits,
    output: &mut dyn FnMut(&[u8]),
) -> io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // signals for it are for all that it starts, and those for us not for it
        .process_group(0)
        .spawn()?;
    feed(&mut child, stdin);
    let (said, stderr) = listen(&mut child);
    let start = Instant::now();
    let mut heard = start;
    let mut ended: Option<Instant> = None;
    let mut limit = None;
    loop {
        match said.recv_timeout(LOOK) {
            Ok(bytes) => {
                heard = Instant::now();
                output(&bytes);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if ended.is_none() && has_ended(&child)? {
                    ended = Some(Instant::now());
                }
                if ended.is_some_and(|ended| ended.elapsed() >= GRACE) {
                    break;
                }
            }
        }
        let over = [(limits.time, start), (limits.silence, heard)];
        limit = over
            .iter()
            .find_map(|(most, since)| most.filter(|most| since.elapsed() >= *most));
        if limit.is_some() && ended.is_none() {
            break;
        }
    }
    // a program that closed its output has a moment to end by itself
    let end = Instant::now() + GRACE;
    while limit.is_none() && !has_ended(&child)? && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    end_group(&child);
    let status = child.wait()?;
    Ok(Ended {
        status,
        stderr: stderr.recv_timeout(GRACE).unwrap_or_default(),
        limit: limit.filter(|_| ended.is_none()),
    })
}

/// Whether the program has ended. It is not reaped: until then no other process or group gets its
/// number.
fn has_ended(child: &Child) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), look)?.is_some())
}

/// Ends the program and all of its group, before it is reaped.
fn end_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // the group may be empty already
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Writes what the program reads, in a thread of its own: a program need not read all.
fn feed(child: &mut Child, stdin: Stdin) {
    let Some(mut pipe) = child.stdin.take() else {
        return;
    };
    let write = move || -> io::Result<()> {
        match stdin {
            Stdin::Bytes(bytes) => pipe.write_all(&bytes),
            Stdin::File(mut file, sent) => {
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let length = file.read(&mut buffer)?;
                    if length == 0 {
                        break Ok(());
                    }
                    pipe.write_all(&buffer[..length])?;
                    sent.fetch_add(length as u64, Ordering::Relaxed);
                }
            }
        }
    };
    drop(std::thread::Builder::new().spawn(write));
}

/// What the program prints, and the end of what it complains of.
fn listen(child: &mut Child) -> (Receiver<Vec<u8>>, Receiver<String>) {
    // a file comes faster than a disk takes it: what is read ahead is bounded
    let (send, said) = sync_channel::<Vec<u8>>(16);
    if let Some(mut pipe) = child.stdout.take() {
        let read = move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                if send.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        };
        drop(std::thread::Builder::new().spawn(read));
    }
    let (send, stderr) = sync_channel::<String>(1);
    if let Some(mut pipe) = child.stderr.take() {
        let read = move || {
            let mut kept: Vec<u8> = Vec::new();
            let mut buffer = vec![0; 1 << 12];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                kept.extend_from_slice(&buffer[..length]);
                kept.drain(..kept.len().saturating_sub(KEPT));
            }
            let _ = send.send(String::from_utf8_lossy(&kept).trim().to_owned());
        };
        drop(std::thread::Builder::new().spawn(read));
    }
    (said, stderr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run_sh(script: &str, stdin: &[u8], limits: Limits) -> (Ended, String) {
        let mut text = Vec::new();
        let ended = run(
            &mut sh(script),
            Stdin::Bytes(stdin.to_vec()),
            limits,
            &mut |bytes| {
                text.extend_from_slice(bytes);
            },
        );
        (ended.unwrap(), String::from_utf8(text).unwrap())
    }

    #[test]
    fn output_exit_code_and_stderr_are_returned() {
        let (ended, text) = run_sh("cat; echo no >&2; exit 7", b"hello", Limits::default());
        assert_eq!((text.as_str(), ended.stderr.as_str()), ("hello", "no"));
        assert_eq!((ended.status.code(), ended.limit), (Some(7), None));
        // more than a pipe holds, without a reader
        let (ended, _) = run_sh("exit 3", &vec![0; 1 << 20], Limits::default());
        assert_eq!(ended.status.code(), Some(3));
    }

    #[test]
    fn slow_or_silent_program_is_killed_with_its_children() {
        let start = Instant::now();
        let time = Limits {
            time: Some(Duration::from_millis(300)),
            silence: None,
        };
        let (ended, text) = run_sh("echo $$; sleep 77 & sleep 77", b"", time);
        assert_eq!(ended.limit, Some(Duration::from_millis(300)));
        let silence = Limits {
            time: None,
            silence: Some(Duration::from_millis(300)),
        };
        let (ended, _) = run_sh("echo a; sleep 0.1; echo b; sleep 77", b"", silence);
        assert_eq!(ended.limit, Some(Duration::from_millis(300)));
        assert!(start.elapsed() < Duration::from_secs(20));
        // the group is gone: nothing can be signalled in it
        let group = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while rustix::process::test_kill_process_group(group).is_ok() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        assert!(rustix::process::test_kill_process_group(group).is_err());
    }

    #[test]
    fn ended_program_keeps_its_number_until_its_group_is_ended() {
        let mut child = Command::new("true").process_group(0).spawn().unwrap();
        while !has_ended(&child).unwrap() {
            std::thread::sleep(LOOK);
        }
        // once it is reaped, its group's number may be another one's
        assert!(rustix::process::test_kill_process(Pid::from_child(&child)).is_ok());
        end_group(&child);
        assert!(child.wait().unwrap().success());
        assert!(rustix::process::test_kill_process(Pid::from_child(&child)).is_err());
    }

    #[test]
    fn leftover_child_process_does_not_block() {
        let start = Instant::now();
        let (ended, text) = run_sh("sleep 77 & echo done", b"", Limits::default());
        assert_eq!((ended.status.code(), text.as_str()), (Some(0), "done\n"));
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
