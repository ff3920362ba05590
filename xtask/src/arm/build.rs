//! Builds test programs for aarch64 on this machine.
//!
//! Invariant: a compiler with the aarch64 standard library is preferred to the fetched one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Message, TargetKind};

use super::packages;
use super::program::Program;
use crate::root::root;
use crate::vendor::debian;

pub(super) const TARGET: &str = "aarch64-unknown-linux-gnu";
pub(super) const LINKER: &str = "aarch64-linux-gnu-gcc";
pub(super) const EMULATOR: &str = "qemu-aarch64";
/// The C library that an emulated program is linked with.
pub(super) const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// A profile of the workspace's.
const PROFILE: &str = "emulated";

/// Where what is built for aarch64 lies: beside the rest, since another compiler may have made it.
pub(super) fn target() -> PathBuf {
    root().join("target/arm")
}

/// Why this machine cannot build for aarch64 or emulate it, if so.
pub(crate) fn missing() -> Option<String> {
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !runs(LINKER) || !Path::new(LIBRARIES).is_dir() {
        return Some(format!(
            "{LINKER} is missing (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
        ));
    }
    if !runs(EMULATOR) {
        return Some(format!("{EMULATOR} is missing (Debian: qemu-user)"));
    }
    if compiler().is_none() {
        return Some(format!(
            "the standard library of {TARGET} is missing (`rustup target add {TARGET}`, or `cargo xtask vendor aarch64` \
             for Debian's)"
        ));
    }
    None
}

/// A compiler that has the standard library of aarch64.
pub(super) fn compiler() -> Option<PathBuf> {
    let own = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    [Some(own), debian::compiler()]
        .into_iter()
        .flatten()
        .find(|rustc| {
            let output = Command::new(rustc)
                .args(["--print", "target-libdir", "--target", TARGET])
                .output();
            output.is_ok_and(|output| {
                let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                output.status.success() && Path::new(&folder).is_dir()
            })
        })
}

/// Builds the libraries, programs and tests of these packages, and gives the programs of tests; or the tests within their
/// libraries alone, or these tests of integration.
pub(super) fn build(packages: &[String], lib: bool, tests: &[String]) -> Result<Vec<Program>> {
    let compiler = compiler().context("invariant: `missing` has found a compiler")?;
    let messages = target().join("programs.json");
    let file = File::create(&messages).with_context(|| messages.display().to_string())?;
    let mut command = Command::new(env!("CARGO"));
    // `cargo test --no-run` is what builds a library's tests without its tests of integration
    let what: &[&str] = if lib {
        &["test", "--no-run", "--lib"]
    } else {
        &["build", "--lib", "--bins"]
    };
    command.args(what);
    if !lib && tests.is_empty() {
        command.arg("--tests");
    }
    for test in tests {
        command.args(["--test", test]);
    }
    command
        .args(["--locked", "--profile", PROFILE, "--target", TARGET])
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(target())
        .current_dir(root())
        .env("RUSTC", compiler)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .stdout(file);
    let beside = if lib {
        Default::default()
    } else {
        packages::loaded(packages)
    };
    for package in packages.iter().map(String::as_str).chain(beside) {
        command.args(["--package", package]);
    }
    let status = command.status().context("starting cargo")?;
    ensure!(status.success(), "the tests do not build for {TARGET}");
    let reader = BufReader::new(File::open(&messages)?);
    let (mut programs, mut beside) = (Vec::new(), BTreeMap::<String, Vec<PathBuf>>::new());
    for message in Message::parse_stream(reader) {
        let Message::CompilerArtifact(made) = message.context("a message of cargo's")? else {
            continue;
        };
        let folder = made
            .manifest_path
            .parent()
            .context("a manifest lies in a folder")?;
        if !folder.starts_with(root()) {
            continue;
        }
        let (package, own) = packages::of_folder(folder.as_std_path())?;
        let Some(file) = made.executable.filter(|_| made.profile.test) else {
            let files = made.filenames.into_iter().map(PathBuf::from);
            beside.entry(package).or_default().extend(files);
            continue;
        };
        if !packages.contains(&package) {
            continue;
        }
        programs.push(Program {
            is_integration: made.target.kind.contains(&TargetKind::Test),
            is_beside_library: made.target.kind.contains(&TargetKind::Bin)
                && made.target.name == package
                && folder.join("src/lib.rs").is_file(),
            is_harness: !own.contains(&made.target.name),
            target: made.target.name,
            file: file.into(),
            folder: folder.into(),
            built_ns: 0,
            package,
        });
    }
    for program in &mut programs {
        let own = std::slice::from_ref(&program.package);
        let names = packages::loaded(own)
            .into_iter()
            .chain([program.package.as_str()]);
        let files = names.filter_map(|name| beside.get(name)).flatten();
        let files = files.map(PathBuf::as_path).chain([program.file.as_path()]);
        program.built_ns = youngest(files);
    }
    programs.sort_by_key(Program::name);
    Ok(programs)
}

/// When the youngest of these files was made, in nanoseconds since 1970; those that are not there have no part in it.
fn youngest<'a>(files: impl Iterator<Item = &'a Path>) -> u64 {
    let times = files.filter_map(|file| {
        let made = file.metadata().ok()?.modified().ok()?;
        let since = made
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        u64::try_from(since.as_nanos()).ok()
    });
    times.max().unwrap_or(0)
}
