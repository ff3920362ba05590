//! `cargo xtask farm-desk`: a device farm on one machine. A labgrid coordinator, two places over ssh in network
//! namespaces, two emulated arm64 boards over adb; four models measured twice, merged, compared, reported; the report
//! opened in a browser.
//!
//! Invariants:
//! 1. Nothing is installed or changed on the machine: fetched files are under `target/farm-desk`.
//! 2. No started process survives, however the command ends: all run in namespaces that end with it.
//! 3. Missing programs are reported with instructions, and fail the command.
//!
//! Not here: the desk itself and what must come of it (`device-tests/farm-desk`), what the page must show
//! (`apps/cli/page/test/farm-desk.test.js`).

mod cross;
mod packages;
mod program;
mod sensors;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use program::{LINKER, call};

use crate::page;
use crate::root::root;

/// labgrid's version on Python's package index.
const LABGRID: &str = "labgrid==26.0.1";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Use only places over ssh, without emulated boards and their requirements
    #[arg(long)]
    without_boards: bool,
    /// Models to measure instead of the default four
    #[arg(long = "model", value_name = "FILE")]
    models: Vec<PathBuf>,
}

/// Programs that the desk starts, and Debian's packages that have them.
const PROGRAMS: [(&str, &str); 9] = [
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("hostname", "hostname"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("python3", "python3-venv"),
    ("dpkg-deb", "dpkg"),
];

/// Why the desk cannot be made here, if so.
fn missing(options: &Options) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_there = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let mut lacking: Vec<String> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(program, package)| format!("{program} (Debian: {package})"))
        .collect();
    if std::env::var_os("POLYCHIP_SSHD").is_none() && !Path::new("/usr/sbin/sshd").is_file() {
        lacking.push("sshd (Debian: openssh-server), or POLYCHIP_SSHD that names one".to_owned());
    }
    let id = Command::new("id").arg("-u").output();
    if !id.is_ok_and(|output| output.stdout == b"0\n") {
        lacking.push("root rights, for namespaces and a bridge".to_owned());
    }
    if !options.without_boards && !is_there(LINKER) {
        lacking.push(format!(
            "{} (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)",
            LINKER
        ));
    }
    if !options.without_boards && !is_there("make") {
        lacking.push("make (Debian: make)".to_owned());
    }
    lacking.extend(page::missing());
    (!lacking.is_empty()).then(|| lacking.join("; "))
}

/// Makes the desk, and reports everything that differs from what is expected.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(why) = missing(options) {
        bail!("not on this machine: {why}");
    }
    let models = models(options)?;
    let folder = root().join("target/farm-desk");
    fs::create_dir_all(&folder)?;
    let labgrid = labgrid(&folder)?;
    let built = build()?;
    let work = folder.join("work");
    // it ends with this program, however that ends
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(built.join("farm-desk"))
        .arg("--work")
        .arg(&work)
        .arg("--polychip")
        .arg(built.join("polychip"))
        .arg("--runner")
        .arg(built.join("polychip-runner"))
        .arg("--labgrid")
        .arg(labgrid);
    if !options.without_boards {
        let packages = packages::fetch(&folder)?;
        command
            .arg("--runner")
            .arg(cross::runner(&folder)?)
            .arg("--host")
            .arg(&packages.host)
            .arg("--board")
            .arg(&packages.board)
            .arg("--sensors")
            .arg(sensors::module(&folder, &packages)?);
    }
    call(command.args(models))?;
    ensure!(
        left(&work)?.is_empty(),
        "processes of the desk are still running: {:?}",
        left(&work)?
    );
    page::open_farm_desk(&work)
}

/// The models that are measured.
fn models(options: &Options) -> Result<Vec<PathBuf>> {
    if !options.models.is_empty() {
        return Ok(options.models.clone());
    }
    // small ones: a processor that is emulated takes fifty times as long
    let names = [
        "examples/shapes/shapes",
        "device-tests/generated/models/kws_dscnn",
        "device-tests/generated/models/quantised/encoder_u16",
        "device-tests/generated/models/quantised/encoder_mixed",
    ];
    let models: Vec<PathBuf> = names
        .iter()
        .map(|name| root().join(format!("{name}.onnx")))
        .collect();
    if let Some(model) = models.iter().find(|model| !model.is_file()) {
        bail!(
            "{} is missing (create it with `cargo xtask models`, or name others with --model)",
            model.display()
        );
    }
    Ok(models)
}

/// The command, this machine's runner and the desk's program; their folder.
fn build() -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet"]).current_dir(root());
    for package in ["polychip-cli", "polychip-runner", "polychip-farm-desk"] {
        command.args(["--package", package]);
    }
    command.args(["--features", "full"]);
    call(&mut command)?;
    Ok(root().join("target/debug"))
}

/// The folder of labgrid's programs, in a Python of their own.
fn labgrid(folder: &Path) -> Result<PathBuf> {
    let (venv, stamp) = (folder.join("labgrid"), folder.join("labgrid/.stamp"));
    let programs = venv.join("bin");
    if fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == LABGRID) {
        return Ok(programs);
    }
    eprintln!("farm-desk: {LABGRID} is under LGPL-2.1-or-later");
    call(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    call(Command::new(programs.join("pip")).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        LABGRID,
    ]))?;
    fs::write(&stamp, LABGRID)?;
    Ok(programs)
}

/// Processes in the namespace that the desk had.
fn left(work: &Path) -> Result<Vec<String>> {
    let path = work.join("namespace");
    let namespace = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut found = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let theirs = fs::read_link(process.path().join("ns/pid"));
        if theirs.is_ok_and(|theirs| theirs.to_string_lossy() == namespace) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!(
                "{} {}",
                process.file_name().to_string_lossy(),
                name.trim()
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_process_is_found_by_its_namespace() {
        let work = tempfile::tempdir().unwrap();
        let name = work.path().join("namespace");
        let own = fs::read_link("/proc/self/ns/pid").unwrap();
        fs::write(&name, own.to_string_lossy().as_bytes()).unwrap();
        let found = left(work.path()).unwrap();
        let id = std::process::id().to_string();
        assert!(
            found.iter().any(|process| process.split(' ').next() == Some(&id)),
            "{found:?}"
        );
        fs::write(&name, "pid:[1]").unwrap();
        assert_eq!(left(work.path()).unwrap(), [""; 0]);
        fs::remove_file(&name).unwrap();
        assert!(left(work.path()).unwrap_err().to_string().contains("namespace"));
    }
}
