//! `cargo xtask models`: the witnesses' data, made by Python into folders that git ignores.
//!
//! - `target/venv`: a Python with the packages of `device-tests/requirements.txt`, or the one that
//!   `POLYCHIP_PYTHON` names;
//! - `device-tests/generated/models`: the deterministic models of `device-tests/peers/make_models.py`, the `light_*`
//!   models of the Python package `onnx`, and their `varied_*` siblings; `device-tests/generated/models/expected` holds
//!   ONNX Runtime's outputs for seeded inputs;
//! - `device-tests/generated/models/unseen`: on request, networks that predictions are held against;
//! - `device-tests/generated/models/quantised`: quantised models and ops, and ONNX Runtime's outputs for them;
//! - `device-tests/generated/onnx`: the ONNX backend suite as files.
//!
//! Invariants:
//! 1. A step is done where its stamp (the text of all that it depends on) stands beside its output, so
//!    that a second call does nothing, and a step cut short is made again.
//! 2. Python stays a witness: nothing that ships needs what is made here.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Make only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Make everything again, also what is up to date
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The Python environment
    Python,
    /// Models and ONNX Runtime's outputs for them
    Models,
    /// The ONNX backend suite
    Suite,
    /// Networks on which nothing was tuned; made only where this asks for them, or `cargo xtask predict` does
    Unseen,
}

pub(crate) const REQUIREMENTS: &str = "device-tests/requirements.txt";
const MAKE_MODELS: &str = "device-tests/peers/make_models.py";
const MAKE_UNSEEN: &str = "device-tests/peers/make_unseen.py";
const LIGHT: &str = "device-tests/witness/light.py";
const EXPECTED: &str = "device-tests/witness/expected.py";
const QUANTISED: &str = "device-tests/witness/quantised.py";
const QUANTISED_OPS: &str = "device-tests/witness/quantised_ops.py";
const SUITE: &str = "device-tests/witness/onnx_suite.py";
const MODELS: &str = "device-tests/generated/models";
const OUTPUTS: &str = "device-tests/generated/models/expected";
/// Inside the folder of the other models, so that these go and come with them.
const QUANTISED_MODELS: &str = "device-tests/generated/models/quantised";
const UNSEEN_MODELS: &str = "device-tests/generated/models/unseen";
const QUANTISED_CASES: &str = "device-tests/generated/models/quantised/ops";
const CASES: &str = "device-tests/generated/onnx";

/// Makes whatever is missing or out of date.
pub(crate) fn run(options: &Options) -> Result<()> {
    let python = python(options.force && options.only.is_none_or(|part| part == Part::Python))?;
    let wanted = |part| options.only.is_none_or(|only| only == part);
    if wanted(Part::Models) {
        let scripts = [REQUIREMENTS, MAKE_MODELS, LIGHT, EXPECTED];
        step(root(), MODELS, &scripts, options.force, || {
            call(&python, &[MAKE_MODELS, MODELS])?;
            call(&python, &[LIGHT, MODELS])?;
            call(&python, &[EXPECTED, MODELS, OUTPUTS])
        })?;
        let scripts = [REQUIREMENTS, MAKE_MODELS, QUANTISED, QUANTISED_OPS];
        step(root(), QUANTISED_MODELS, &scripts, options.force, || {
            call(&python, &[QUANTISED, QUANTISED_MODELS])?;
            call(&python, &[QUANTISED_OPS, QUANTISED_CASES])
        })?;
    }
    if wanted(Part::Suite) {
        step(root(), CASES, &[REQUIREMENTS, SUITE], options.force, || {
            call(&python, &[SUITE, CASES])
        })?;
    }
    if options.only == Some(Part::Unseen) {
        unseen(&python, options.force)?;
    }
    Ok(())
}

fn unseen(python: &Path, force: bool) -> Result<()> {
    let scripts = [REQUIREMENTS, MAKE_MODELS, MAKE_UNSEEN];
    step(root(), UNSEEN_MODELS, &scripts, force, || {
        call(python, &[MAKE_UNSEEN, UNSEEN_MODELS])
    })
}

/// The folder of networks on which nothing was tuned, made where it is missing or out of date.
pub(crate) fn unseen_models() -> Result<PathBuf> {
    unseen(&python(false)?, false)?;
    Ok(root().join(UNSEEN_MODELS))
}

/// Runs `make` unless the stamp in `folder` says that it ran with these very files; all paths lie in `root`.
fn step(
    root: &Path,
    folder: &str,
    depends_on: &[&str],
    force: bool,
    make: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let stamp = root.join(folder).join(".stamp");
    let mut text = String::new();
    for file in depends_on {
        text += &fs::read_to_string(root.join(file)).with_context(|| format!("reading {file}"))?;
    }
    if !force && fs::read_to_string(&stamp).is_ok_and(|old| old == text) {
        eprintln!("models: {folder} is up to date");
        return Ok(());
    }
    eprintln!("models: making {folder}");
    let start = Instant::now();
    // A stale folder must not lend its files to the new one, nor its stamp to a step cut short.
    match fs::remove_dir_all(root.join(folder)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing the old {folder}"));
        }
        _ => {}
    }
    fs::create_dir_all(root.join(folder)).with_context(|| format!("creating {folder}"))?;
    make()?;
    fs::write(&stamp, text).with_context(|| format!("writing {}", stamp.display()))?;
    eprintln!("models: made {folder} in {} s", start.elapsed().as_secs());
    Ok(())
}

/// Runs a script of the repository, its output going to this program's.
fn call(python: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new(python)
        .arg("-B")
        .args(arguments)
        .current_dir(root())
        .status()
        .with_context(|| format!("starting {}", python.display()))?;
    if !status.success() {
        bail!("{} failed ({status})", arguments.join(" "));
    }
    Ok(())
}

/// The Python that holds the witnesses' packages; made in `target/venv` where none is named.
pub(crate) fn python(force: bool) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("POLYCHIP_PYTHON").filter(|value| !value.is_empty()) {
        return checked(named);
    }
    let venv = root().join("target/venv");
    let python = venv.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    });
    let requirements = root().join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements).with_context(|| format!("reading {REQUIREMENTS}"))?;
    let stamp = venv.join(".stamp");
    if !force && python.is_file() && fs::read_to_string(&stamp).is_ok_and(|old| old == wanted) {
        eprintln!("models: {} is up to date", venv.display());
        return Ok(python);
    }
    let system = system_python()?;
    eprintln!("models: making {} (downloads about 60 MB)", venv.display());
    let made = Command::new(&system)
        .args(["-m", "venv", "--clear"])
        .arg(&venv)
        .status()
        .with_context(|| format!("starting {system}"))?;
    if !made.success() {
        bail!("`{system} -m venv` failed ({made}); on Debian: apt-get install python3-venv");
    }
    let installed = Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ])
        .arg(&requirements)
        .status()
        .with_context(|| format!("starting {}", python.display()))?;
    if !installed.success() {
        bail!(
            "pip could not install {REQUIREMENTS} ({installed}): it needs Python 3.11 to 3.14 and a package index; \
             or set POLYCHIP_PYTHON to a Python that has these packages"
        );
    }
    fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))?;
    Ok(python)
}

/// The named Python, if it runs and has the packages in the pinned versions that figures depend on.
fn checked(named: OsString) -> Result<PathBuf> {
    let python = PathBuf::from(named);
    let output = Command::new(&python)
        .args([
            "-c",
            "import onnx, onnxruntime, numpy; print(onnx.__version__, onnxruntime.__version__)",
        ])
        .output()
        .with_context(|| format!("starting {}, which POLYCHIP_PYTHON names", python.display()))?;
    if !output.status.success() {
        bail!(
            "{}, which POLYCHIP_PYTHON names, lacks packages of {REQUIREMENTS}:\n{}",
            python.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let requirements =
        fs::read_to_string(root().join(REQUIREMENTS)).with_context(|| format!("reading {REQUIREMENTS}"))?;
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    for (name, version) in ["onnx", "onnxruntime"].iter().zip(found.split_whitespace()) {
        let pin = format!("{name}=={version}");
        if !requirements.lines().any(|line| line.trim() == pin) {
            bail!(
                "{}, which POLYCHIP_PYTHON names, has {name} {version}; {REQUIREMENTS} pins another version",
                python.display()
            );
        }
    }
    eprintln!("models: using {}", python.display());
    Ok(python)
}

/// A Python 3 that can make environments, or which Debian package is missing.
pub(crate) fn system_python() -> Result<String> {
    let runs = |code: &str| {
        Command::new("python3")
            .args(["-c", code])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if !runs("") {
        bail!("python3 is not there; on Debian: apt-get install python3 python3-venv");
    }
    if !runs("import venv, ensurepip") {
        bail!("python3 cannot make environments; on Debian: apt-get install python3-venv");
    }
    Ok("python3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a step over `input` in `root`; says whether it had to be made.
    fn made(root: &Path, force: bool) -> bool {
        let mut ran = false;
        step(root, "out", &["input"], force, || {
            ran = true;
            Ok(())
        })
        .unwrap();
        ran
    }

    #[test]
    fn a_step_runs_again_only_when_its_scripts_change() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("input"), "one").unwrap();
        assert!(made(root.path(), false));
        assert!(!made(root.path(), false));
        assert!(made(root.path(), true));
        fs::write(root.path().join("input"), "two").unwrap();
        assert!(made(root.path(), false));
        assert!(!made(root.path(), false));
    }

    #[test]
    fn a_step_cut_short_is_made_again_without_its_leftovers() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("input"), "one").unwrap();
        let leftover = root.path().join("out/half");
        let cut = step(root.path(), "out", &["input"], false, || {
            fs::write(&leftover, "")?;
            bail!("cut short")
        });
        assert!(cut.is_err() && leftover.exists());
        assert!(made(root.path(), false));
        assert!(!leftover.exists());
    }

    #[test]
    fn a_missing_script_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = step(root.path(), "out", &["absent.py"], false, || Ok(())).unwrap_err();
        assert!(format!("{error:#}").contains("absent.py"));
    }
}
