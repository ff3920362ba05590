//! Namespaces that end, with all their processes, when their program ends.
//!
//! The program is the first process of a namespace of processes: when it ends, the kernel kills all others of it, adb's
//! server and other daemons too. It is killed itself when its parent dies. Networks and mounts are its own: ports and
//! bridges collide with nothing of the machine, and go with it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::program::call;

/// Starts a program in namespaces of its own, as their first process.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([
            "--pdeathsig",
            "KILL",
            "unshare",
            "--fork",
            "--kill-child=KILL",
            "--pid",
            "--mount-proc",
        ])
        .args(["--net", "--mount", "--propagation", "private", "--"])
        .arg(program);
    command
}

/// The desk's folder, and what it leaves there.
#[derive(Debug)]
pub(crate) struct Desk {
    work: PathBuf,
}

/// Makes the folder, and what the namespaces lack: a loopback, an empty `/tmp` and `/run`.
pub(crate) fn prepare(work: &Path) -> Result<Desk> {
    ensure!(
        std::process::id() == 1,
        "this is not the first process of its namespace: leave --inside out"
    );
    for private in ["/tmp", "/run"] {
        if work.starts_with(private) {
            bail!(
                "{} lies below {private}, which the places have of their own: move the checkout",
                work.display()
            );
        }
        call(Command::new("mount").args(["-t", "tmpfs", "tmpfs", private]))?;
    }
    match fs::remove_dir_all(work) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| work.display().to_string());
        }
        _ => fs::create_dir_all(work).with_context(|| work.display().to_string())?,
    }
    call(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    let inode = fs::read_link("/proc/self/ns/pid").context("/proc/self/ns/pid")?;
    fs::write(work.join("namespace"), inode.to_string_lossy().as_bytes())?;
    Ok(Desk {
        work: work.to_owned(),
    })
}

impl Desk {
    /// Writes what the page must show.
    pub(crate) fn leave(&self, expectations: &Value) -> Result<()> {
        let path = self.work.join("expectations.json");
        fs::write(&path, serde_json::to_string_pretty(expectations)?)
            .with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use polychip_test_requirements::{Need, absent};

    use super::*;

    /// Processes whose command line has this word.
    fn with(word: &str) -> usize {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines
            .filter(|line| String::from_utf8_lossy(line).contains(word))
            .count()
    }

    #[test]
    fn child_processes_end_with_the_first_process() {
        // a word that no other process has
        let seconds = format!("7{}", std::process::id());
        let daemon = format!("setsid sleep {seconds} & echo begun; wait");
        let mut command = command("sh");
        let mut child = command
            .args(["-c", &daemon])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let sleeps = format!("sleep\0{seconds}");
        while with(&sleeps) == 0 {
            if child.try_wait().unwrap().is_some() {
                let said = child.wait_with_output().unwrap().stderr;
                absent(Need::Namespaces, String::from_utf8_lossy(&said).trim());
                return;
            }
            assert!(Instant::now() < end, "nothing was started");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        while with(&sleeps) > 0 {
            assert!(Instant::now() < end, "it outlives its namespace");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
