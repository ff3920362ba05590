//! Google's LiteRT on this machine: an independent client of vendor libraries, and pretrained models.
//!
//! Its compiler plugins cut a .tflite model, hand the pieces to a vendor's library and put what that gives back into a
//! second model. Which library answers is a matter of the search path: here it is one of our emulators.
//!
//! Invariants:
//! 1. LiteRT runs in a process of its own, for a limited time; a crash is an error with its last words.
//! 2. What it says is shown, never read: what it did is read from the model that it wrote, and from the emulator.
//!
//! Not here: installing it (`cargo xtask vendor litert`), what a vendor's witness asks (`tests/litert_*.rs`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::paths;

/// The longest that LiteRT may take with one model: it takes seconds, in a debug build of an emulator too.
const LIMIT: Duration = Duration::from_secs(300);
/// So many lines of what a process said stand in an error.
const LAST_LINES: usize = 12;

/// An installed LiteRT.
#[derive(Clone, Debug)]
pub struct Litert {
    folder: PathBuf,
    package: PathBuf,
}

/// A model to compile, for whom, against which libraries.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The vendor as LiteRT calls it: `Qualcomm`.
    pub manufacturer: &'a str,
    /// The folder of its plugin: `qualcomm`.
    pub plugin: &'a str,
    /// The chip as LiteRT calls it: `SM8650`.
    pub soc: &'a str,
    /// The model.
    pub model: &'a Path,
    /// Where the compiled model goes.
    pub output: &'a Path,
    /// Folders with the vendor's libraries.
    pub libraries: &'a [PathBuf],
    /// Variables for the libraries.
    pub environment: &'a [(&'a str, OsString)],
    /// More flags of `apply_plugin_main`.
    pub flags: &'a [&'a str],
}

/// A trained model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trained {
    /// Package and file without its ending: `mediapipe/pose_detection`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

impl Litert {
    /// What `cargo xtask vendor litert` has put into `target`.
    ///
    /// # Errors
    /// The words with which a test that needs it is skipped.
    pub fn find() -> Result<Litert, String> {
        let folder = paths::root().join("target/vendor/litert");
        if !folder.join(".stamp").is_file() {
            return Err("`cargo xtask vendor litert` has not been run".to_owned());
        }
        // the folder below is called after the version of Python
        let package = std::fs::read_dir(folder.join("venv/lib"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("site-packages/ai_edge_litert"))
            .find(|package| package.join("tools/apply_plugin_main").is_file());
        match package {
            Some(package) => Ok(Litert { folder, package }),
            None => Err(format!(
                "{} holds no tools/apply_plugin_main of ai-edge-litert: remove it and run `cargo xtask vendor litert`",
                folder.display()
            )),
        }
    }

    /// The trained ONNX model of this name: `rapidocr/PP-OCRv6_det_small`.
    ///
    /// # Errors
    /// No such model was fetched.
    pub fn onnx(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("models/{name}.onnx"));
        ensure!(
            path.is_file(),
            "{} is not there: run `cargo xtask vendor litert`",
            path.display()
        );
        Ok(path)
    }

    /// The trained .tflite models, by name.
    ///
    /// # Errors
    /// Their folder cannot be read.
    pub fn models(&self) -> Result<Vec<Trained>> {
        let mut models = Vec::new();
        let folder = self.folder.join("models");
        for package in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let package = package?;
            for file in std::fs::read_dir(package.path())? {
                let path = file?.path();
                if path.extension().is_none_or(|ending| ending != "tflite") {
                    continue;
                }
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                let name = format!("{}/{stem}", package.file_name().to_string_lossy());
                models.push(Trained { name, path });
            }
        }
        models.sort();
        Ok(models)
    }

    /// Compiles a model through a vendor's plugin.
    ///
    /// # Errors
    /// The plugin is not there, or LiteRT fails, crashes or takes too long; with its last words.
    pub fn compile(&self, job: &Job<'_>) -> Result<()> {
        let plugin = self.package.join("vendors").join(job.plugin).join("compiler");
        ensure!(plugin.is_dir(), "this LiteRT has no {}", plugin.display());
        let mut path: Vec<PathBuf> = job.libraries.to_vec();
        // of libLiteRt.so
        path.push(self.package.clone());
        let flag = |name: &str, value: &OsStr| {
            let mut flag = OsString::from(format!("--{name}="));
            flag.push(value);
            flag
        };
        let mut command = Command::new(self.package.join("tools/apply_plugin_main"));
        command
            .arg("--cmd=apply")
            .arg(flag("model", job.model.as_os_str()))
            .arg(flag("o", job.output.as_os_str()))
            .arg(flag("soc_manufacturer", job.manufacturer.as_ref()))
            .arg(flag("soc_model", job.soc.as_ref()))
            .arg(flag("libs", plugin.as_os_str()))
            .arg("--err=--")
            .args(job.flags)
            .env("LD_LIBRARY_PATH", std::env::join_paths(path)?)
            .envs(job.environment.iter().map(|(name, value)| (name, value)));
        run(command, job.output)?;
        ensure!(
            job.output.is_file(),
            "LiteRT ended well and wrote no {}",
            job.output.display()
        );
        Ok(())
    }

    /// A script of `witness/litert` in LiteRT's Python.
    ///
    /// # Errors
    /// It fails or takes too long; with its last words.
    pub fn script(&self, name: &str, arguments: &[&OsStr], log: &Path) -> Result<()> {
        let script = paths::root().join("device-tests/witness/litert").join(name);
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.arg("-B").arg(script).args(arguments);
        run(command, log)
    }
}

/// Runs a command; what it says goes into a file beside `output`.
fn run(mut command: Command, output: &Path) -> Result<()> {
    let mut log = output.as_os_str().to_owned();
    log.push(".log");
    let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let ended = wait(&mut child, LIMIT)?;
    if ended.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let how = match ended {
        Some(status) => status.to_string(),
        None => format!("stopped after {} s", LIMIT.as_secs()),
    };
    let said = std::fs::read(&log)?;
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    bail!("{}: {how}:\n{last}", command.get_program().display())
}

/// Waits for a process, which is killed where it takes too long.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_fails_is_an_error_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo to all; echo to err >&2; kill -SEGV $$"]);
        let error = run(command, &folder.path().join("out")).unwrap_err().to_string();
        assert!(
            error.contains("signal: 11") && error.contains("to all\nto err"),
            "{error}"
        );
        let missing = Command::new("polychip-no-such-program");
        let error = run(missing, &folder.path().join("out")).unwrap_err().to_string();
        assert!(error.contains("polychip-no-such-program"), "{error}");
    }

    #[test]
    fn slow_process_is_stopped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(wait(&mut child, Duration::from_millis(20)).unwrap(), None);
    }
}
