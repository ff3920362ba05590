//! `cargo xtask python`: tests the Python module in Python, or with `--wheel` as a wheel.
//!
//! Invariants:
//! 1. The tests import what users import: the package's own files with the library, or the installed wheel.
//! 2. The wheel is tested in its own environment, first without NumPy.
//!
//! Not here: the tests (`bindings/python/tests`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::models;
use crate::root::root;

/// The package of the module.
const PACKAGE: &str = "polychip-python";
/// Its files.
const FOLDER: &str = "bindings/python";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Use the test build in target/debug, without building
    #[arg(long, conflicts_with = "wheel")]
    built: bool,
    /// Build an optimised wheel with maturin in target/wheels, and test that
    #[arg(long)]
    wheel: bool,
}

/// The reason why the module cannot be tested here, if there is one.
pub(crate) fn missing() -> Option<String> {
    crate::differ::missing()
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let python = models::python(false)?;
    if options.wheel {
        return wheel(&python);
    }
    if !options.built {
        let mut build = Command::new(env!("CARGO"));
        call(build.args(["build", "--package", PACKAGE]))?;
    }
    let package = assembled()?;
    test(&python, Some(&package))
}

/// A folder with the package as in a wheel, made from the library in target/debug.
pub(crate) fn assembled() -> Result<PathBuf> {
    let root = root();
    let library = root.join("target/debug/lib_polychip.so");
    ensure!(
        library.is_file(),
        "{} is missing; omit `--built` to build it",
        library.display()
    );
    let folder = root.join("target/python");
    let package = folder.join("polychip");
    if package.exists() {
        fs::remove_dir_all(&package).with_context(|| format!("clearing {}", package.display()))?;
    }
    fs::create_dir_all(&package).with_context(|| format!("making {}", package.display()))?;
    let sources = root.join(FOLDER).join("python/polychip");
    for entry in fs::read_dir(&sources).with_context(|| format!("reading {}", sources.display()))? {
        let file = entry?.path();
        if let (true, Some(name)) = (file.is_file(), file.file_name()) {
            copied(&file, &package.join(name))?;
        }
    }
    copied(&library, &package.join("_polychip.abi3.so"))?;
    Ok(folder)
}

pub(crate) fn copied(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// An optimised wheel that maturin builds.
pub(crate) struct Wheel {
    /// The folder of its project.
    pub(crate) folder: &'static str,
    /// The Python environment for it alone.
    pub(crate) environment: &'static str,
}

impl Wheel {
    /// Builds the wheel, installs it with the requirements of tests in its own environment, and returns that
    /// environment's Python.
    pub(crate) fn installed(&self, python: &Path) -> Result<PathBuf> {
        let own = self.alone(python)?;
        let requirements = root().join(models::REQUIREMENTS);
        call(pip(&own, &["--requirement"]).arg(&requirements))?;
        Ok(own)
    }

    /// Builds the wheel, and installs it in an environment without other packages.
    fn alone(&self, python: &Path) -> Result<PathBuf> {
        let root = root();
        let tools = root.join("target/maturin");
        call(Command::new(python).args(["-m", "venv"]).arg(&tools))?;
        call(&mut pip(&tools.join("bin/python"), &["maturin>=1.16,<2"]))?;
        let wheels = root.join("target/wheels");
        let mut maturin = Command::new(tools.join("bin/maturin"));
        maturin.args(["build", "--release", "--out"]).arg(&wheels);
        call(maturin.current_dir(root.join(self.folder)))?;
        let made = newest(&wheels)?;
        let bytes = fs::metadata(&made)?.len();
        eprintln!("python: {} is {:.1} MB", made.display(), bytes as f64 / 1e6);
        let clean = root.join(self.environment);
        call(Command::new(python).args(["-m", "venv", "--clear"]).arg(&clean))?;
        let own = clean.join("bin/python");
        call(pip(&own, &["--no-deps"]).arg(&made))?;
        Ok(own)
    }
}

fn pip(python: &Path, arguments: &[&str]) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(arguments);
    pip
}

/// Builds the wheel and tests it in its own environment, at first without NumPy.
fn wheel(python: &Path) -> Result<()> {
    let wheel = Wheel {
        folder: FOLDER,
        environment: "target/python-wheel",
    };
    let own = wheel.alone(python)?;
    let first = "import polychip; print('python: without NumPy:', polychip.Runtime())";
    call(Command::new(&own).args(["-c", first]))?;
    let requirements = root().join(models::REQUIREMENTS);
    call(pip(&own, &["--requirement"]).arg(&requirements))?;
    test(&own, None)?;
    call(&mut pip(&own, &["mypy", "pyright"]))?;
    typed(&own)
}

/// Runs type checkers: a typed program must pass, and the stubs must match the module.
fn typed(python: &Path) -> Result<()> {
    let folder = root().join(FOLDER);
    let check = |arguments: &[&str]| {
        let mut check = Command::new(python);
        check.arg("-m").args(arguments).current_dir(&folder);
        call(&mut check)
    };
    check(&["mypy", "--strict", "tests/typed.py"])?;
    check(&["mypy.stubtest", "polychip", "--allowlist", "tests/stubtest.txt"])?;
    // pyright looks for the module in the environment of this Python
    let own = python.display().to_string();
    check(&["pyright", "--pythonpath", &own, "tests/typed.py"])
}

fn newest(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let wheels = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let made = path.metadata().ok()?.modified().ok()?;
        path.extension()
            .is_some_and(|end| end == "whl")
            .then_some((made, path))
    });
    let newest = wheels.max().context("maturin built no wheel")?;
    Ok(newest.1)
}

/// Runs the tests in Python, with the module in this folder, or else with the installed one.
fn test(python: &Path, module: Option<&Path>) -> Result<()> {
    let mut tests = pytest(python);
    tests.arg("tests");
    if let Some(module) = module {
        tests.env("PYTHONPATH", module);
    }
    call(tests.current_dir(root().join(FOLDER)))
}

/// Tests in Python. One that hangs is ended with the stacks of its threads: no test takes a fraction of this time, and
/// otherwise CI would wait until it is cut off, and say nothing.
pub(crate) fn pytest(python: &Path) -> Command {
    let mut tests = Command::new(python);
    tests.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    tests.args(["-o", "faulthandler_timeout=300"]);
    tests.args(["-o", "faulthandler_exit_on_timeout=true"]);
    tests
}

pub(crate) fn call(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting {program}"))?;
    if !status.success() {
        let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        bail!("{program} {} failed ({status})", arguments.join(" "));
    }
    Ok(())
}
