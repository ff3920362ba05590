//! A vendor's compiler in a process of its own: started, watched, ended, its files read and removed.
//!
//! Invariants:
//! 1. However the program ends (never, too late, by a signal, without an answer), waiting for it ends with a status or an
//!    error that names it; no process that it started keeps running, and none of its files stays.
//! 2. Files of the program's are read up to a limit.
//!
//! Not here: what the program is asked, and what of its answer is believed (each plugin).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use polychip_sdk::{Error, ErrorKind, Result};

/// How often the program's end is looked for, at first and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// The longest log whose last line is looked for, in bytes.
const LOG_BYTES: u64 = 64 << 20;

/// A folder for the files of one question; it goes with them when it is dropped.
pub struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// A folder of this prefix, where the system keeps passing files.
    ///
    /// # Errors
    /// `Transient` where it cannot be made.
    pub fn new(prefix: &str) -> Result<Folder> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir();
        let folder =
            folder.map_err(|error| passing(format!("no folder for the compiler's files: {error}")))?;
        Ok(Folder { folder })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in it.
    ///
    /// # Errors
    /// `Transient` where it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.file(name);
        std::fs::write(&path, bytes)
            .map_err(|error| passing(format!("{} cannot be written: {error}", path.display())))?;
        Ok(path)
    }
}

fn passing(words: String) -> Error {
    Error::new(ErrorKind::Transient, words)
}

/// A program, as errors name it.
pub struct Child<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What to set where it cannot be started.
    pub remedy: &'a str,
    /// The longest that it may take; the setting `timeout_s`.
    pub patience: Duration,
}

impl Child<'_> {
    /// Starts the program, its words into a file, and waits for its end; what it started ends with it.
    ///
    /// # Errors
    /// `Unsupported` where it cannot be started or takes too long; `Transient` where the machine failed it.
    pub fn run(&self, mut command: Command, log: &Path) -> Result<ExitStatus> {
        let to_log = || -> std::io::Result<(File, File)> {
            let file = File::create(log)?;
            Ok((file.try_clone()?, file))
        };
        let (out, err) = to_log().map_err(|error| passing(format!("{}: {error}", log.display())))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        #[cfg(unix)]
        {
            // a group of its own, so that its end is the end of all of it
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        let child = command.spawn().map_err(|error| {
            Error::unsupported(format!(
                "{} cannot be started ({error}): {}",
                self.name, self.remedy
            ))
        })?;
        let mut child = Ended {
            child,
            is_reaped: false,
        };
        let start = Instant::now();
        let mut look = LOOK.0;
        loop {
            let lost = |error: std::io::Error| passing(format!("{} is lost: {error}", self.name));
            if child.is_over().map_err(lost)? {
                return child.end().map_err(lost);
            }
            if start.elapsed() >= self.patience {
                return Err(Error::unsupported(format!(
                    "{} took more than {} s and was ended: raise timeout_s",
                    self.name,
                    self.patience.as_secs()
                )));
            }
            std::thread::sleep(look);
            look = (look * 2).min(LOOK.1);
        }
    }

    /// The error of a program that ended without an answer.
    #[must_use]
    pub fn ended(&self, status: ExitStatus, log: &Path) -> Error {
        let last = read(log, LOG_BYTES).unwrap_or_default();
        let last = String::from_utf8_lossy(&last);
        let last = last.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or("nothing".to_owned(), |line| {
            line.trim().chars().take(200).collect()
        });
        Error::unsupported(format!(
            "{} ended ({status}) without an answer; it said last: {last}",
            self.name
        ))
    }
}

/// A program that is ended with all that it started when this is dropped.
struct Ended {
    child: std::process::Child,
    /// Its number, and its group's, may be another one's.
    is_reaped: bool,
}

impl Ended {
    /// Whether the program itself has ended. It is not reaped yet.
    #[cfg(unix)]
    fn is_over(&mut self) -> std::io::Result<bool> {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.child)), look)?.is_some())
    }

    /// Whether the program itself has ended.
    #[cfg(not(unix))]
    fn is_over(&mut self) -> std::io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Ends it with all that it started, reaps it and returns its status.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        if !self.is_reaped {
            #[cfg(unix)]
            {
                // the group outlives its first process where that left others behind
                let group = rustix::process::Pid::from_child(&self.child);
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = self.child.kill();
        }
        let status = self.child.wait();
        self.is_reaped = true;
        status
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A file of the program's, up to a limit.
///
/// # Errors
/// What it is, where it is no such file.
pub fn read(path: &Path, most: u64) -> std::result::Result<Vec<u8>, String> {
    let words = |error: std::io::Error| error.to_string();
    // opening a pipe would wait for its other end
    if !std::fs::metadata(path).map_err(words)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let file = File::open(path).map_err(words)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(words)?;
    if bytes.len() as u64 > most {
        return Err(format!("it is longer than {most} bytes"));
    }
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::process::{Pid, test_kill_process};
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn ended_program_keeps_its_number_until_its_group_is_ended() {
        let child = Command::new("true").process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut child = Ended {
            child,
            is_reaped: false,
        };
        while !child.is_over().unwrap() {
            std::thread::sleep(LOOK.0);
        }
        // once it is reaped, its group's number may be another one's
        assert!(test_kill_process(pid).is_ok());
        assert!(child.end().unwrap().success());
        assert!(test_kill_process(pid).is_err());
    }
}
