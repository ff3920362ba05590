//! The demo, and how the bindings' programs are built and run on it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::models;
use crate::root::root;

/// The demo: model, picture and labels.
pub(super) const DEMO: [&str; 3] = [
    "examples/shapes/shapes.onnx",
    "examples/shapes/star.ppm",
    "examples/shapes/labels.txt",
];

/// Where the bindings' programs are built.
pub(super) struct Built {
    /// The C library as it is installed.
    pub(super) prefix: PathBuf,
    /// For what compilers make.
    pub(super) folder: PathBuf,
}

/// What a program prints, which must go well.
pub(super) fn words(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{program} failed ({}): {}", output.status, errors.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("what {program} printed"))
}

pub(super) fn program(path: &str) -> Command {
    Command::new(root().join(path))
}

/// An example in Python, by the Python that the tests use.
pub(super) fn in_python(script: &str) -> Result<Command> {
    let mut command = Command::new(models::python(false)?);
    command.arg("-B").arg(root().join(script));
    Ok(command)
}

pub(super) fn lacks(program: &str) -> Option<String> {
    let there = Command::new(program).arg("--version").output();
    let there = there.is_ok_and(|output| output.status.success());
    (!there).then(|| format!("{program} is not installed"))
}

/// An example in C, made on the installed library by the flags of pkg-config.
pub(super) fn compiled(built: &Built, example: &str) -> Result<Command> {
    let lib = built.prefix.join("lib");
    let mut asked = Command::new("pkg-config");
    asked
        .args(["--cflags", "--libs", "polychip"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    let flags = words(&mut asked)?;
    let program = built.folder.join(format!("{example}_by_pkg_config"));
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("examples/c/{example}.c"))
        .args(flags.split_whitespace())
        .arg(format!("-Wl,-rpath,{}", lib.display()))
        .arg("-o")
        .arg(&program);
    words(compile.current_dir(root()))?;
    Ok(Command::new(program))
}
