//! Programs of this machine.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Runs a program to its end; what it prints.
pub(crate) fn call(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{command:?} failed ({}): {}{said}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}

/// Starts a program that keeps running; its output goes to a file.
pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Running> {
    let file = File::create(log).with_context(|| log.display().to_string())?;
    let child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    Ok(Running {
        child,
        log: log.to_owned(),
    })
}

/// A running program, ended when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it said so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for something that it makes true.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        limit: Duration,
        mut is_true: impl FnMut() -> bool,
    ) -> Result<()> {
        let end = Instant::now() + limit;
        while !is_true() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{what}: the program ended ({status}): {}", self.said());
            }
            ensure!(
                Instant::now() < end,
                "{what}: not within {} s; {}",
                limit.as_secs(),
                self.log.display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where programs are looked for: first in these folders.
pub(crate) fn search_path(first: &[PathBuf]) -> Result<OsString> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let folders = first.iter().cloned().chain(std::env::split_paths(&usual));
    std::env::join_paths(folders).context("a folder's name has a colon")
}
