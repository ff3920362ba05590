//! `cargo xtask guest`: the dma-buf tests in a virtual machine, whose Linux provides dma-bufs and whose software
//! Vulkan driver imports them.
//!
//! Invariants:
//! 1. The command passes only if every test of the suite ran in the guest and passed; a skipped test fails it.
//! 2. The machine is unchanged, and the guest has no network and no disk: everything is in its memory.
//!
//! Not here: the tests (`device-tests/tests/gpu_zero_copy.rs`), the kernel and the driver (`vendor`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::root::root;
use crate::vendor::debian;

const QEMU: &str = "qemu-system-x86_64";
/// Seconds after which the guest counts as stuck.
const PATIENCE: &str = "150";
/// QEMU 7.2 emulates the processor not always rightly, and the guest's kernel then stops, most often while it starts:
/// so often the guest is started before that counts.
const BOOTS: u32 = 5;
/// What the kernel says when it stops for such a reason.
const STOPPED: [&str; 2] = ["Kernel panic", "Oops:"];
/// What the guest says last, with the exit status of the tests behind it.
const VERDICT: &str = "guest: exit status ";

/// First process of the guest.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t tmpfs tmp /tmp
export VK_DRIVER_FILES=/opt/lvp.json XDG_RUNTIME_DIR=/tmp LD_LIBRARY_PATH=/lib/x86_64-linux-gnu
/bin/busybox echo guest: $(/bin/busybox uname -sr), $(/bin/busybox ls /dev/udmabuf /dev/dma_heap/*)
/opt/test --color never --test-threads 1
/bin/busybox echo guest: exit status $?
/bin/busybox poweroff -f
";

/// Why the guest cannot be started here, if so.
pub(crate) fn missing() -> Option<String> {
    let runs = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !runs(QEMU, "--version") {
        return Some(format!("{QEMU} is not installed (Debian: qemu-system-x86)"));
    }
    if !runs("busybox", "true") {
        return Some("busybox is not installed (Debian: busybox-static)".to_owned());
    }
    if debian::mesa_library().is_none() {
        return Some("Mesa 25 is missing (fetch it with `cargo xtask vendor mesa`)".to_owned());
    }
    if debian::kernel().is_none() {
        return Some("the kernel is missing (fetch it with `cargo xtask vendor kernel`)".to_owned());
    }
    None
}

/// Builds the tests, starts the guest, and says what they came to.
pub(crate) fn run() -> Result<()> {
    if let Some(why) = missing() {
        bail!("the guest cannot be started: {why}");
    }
    let folder = root().join("target/guest");
    let files = folder.join("root");
    match fs::remove_dir_all(&files) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => fs::create_dir_all(&files)?,
    }
    fill(&files)?;
    let archive = folder.join("initramfs");
    // one command, so that no archive is left half written
    let packed = Command::new("sh")
        .args(["-c", "find . | busybox cpio -o -H newc > ../initramfs"])
        .current_dir(&files)
        .stderr(Stdio::null())
        .status()
        .context("starting sh")?;
    ensure!(packed.success(), "{} cannot be written", archive.display());
    fs::remove_dir_all(&files)?;
    let console = folder.join("console");
    let mut said = String::new();
    for boots in 1..=BOOTS {
        said = boot(&archive)?;
        fs::write(&console, &said)?;
        if said.contains(VERDICT) || !STOPPED.iter().any(|words| said.contains(words)) {
            break;
        }
        eprintln!("guest: its kernel stopped ({boots} of at most {BOOTS} times)");
    }
    let told = said.lines().skip_while(|line| !line.contains("guest: "));
    for line in told.clone() {
        eprintln!("{line}");
    }
    let verdict = said.lines().find_map(|line| line.trim().strip_prefix(VERDICT));
    match verdict.map(str::trim) {
        Some("0") => {}
        Some(status) => bail!("the tests ended with status {status} in the guest"),
        None => bail!(
            "the guest did not finish within {PATIENCE} s, or its kernel stopped {BOOTS} times: {}",
            console.display()
        ),
    }
    ensure!(
        told.clone().any(|line| line.contains(" 0 failed; 0 ignored")),
        "tests were skipped in the guest"
    );
    Ok(())
}

/// The tests as a program, built as CI builds them.
fn tests() -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--release", "--package", "polychip-device-tests"])
        .args(["--test", "gpu_zero_copy", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "the tests do not build");
    for message in cargo_metadata::Message::parse_stream(output.stdout.as_slice()) {
        if let cargo_metadata::Message::CompilerArtifact(artifact) = message?
            && let Some(program) = artifact.executable
            && artifact.target.name == "gpu_zero_copy"
        {
            return Ok(program.into_std_path_buf());
        }
    }
    bail!("cargo named no program for the tests")
}

/// The guest's files: the tests, the driver, the loader of Vulkan, and the libraries that they name.
fn fill(files: &Path) -> Result<()> {
    for folder in ["bin", "dev", "proc", "sys", "tmp", "opt", "lib/x86_64-linux-gnu"] {
        fs::create_dir_all(files.join(folder))?;
    }
    let library = debian::mesa_library().context("Mesa 25 is not there")?;
    let loader = vulkan_loader()?;
    let program = tests()?;
    let stripped = Command::new("strip")
        .arg("--strip-debug")
        .arg(&program)
        .arg("-o")
        .arg(files.join("opt/test"))
        .status()
        .context("starting strip")?;
    ensure!(stripped.success(), "{} cannot be stripped", program.display());
    let inside = Path::new("/opt/libvulkan_lvp.so");
    fs::copy(&library, files.join("opt/libvulkan_lvp.so"))?;
    fs::write(files.join("opt/lvp.json"), debian::driver_file(inside))?;
    fs::copy(&loader, files.join("lib/x86_64-linux-gnu/libvulkan.so.1"))?;
    let busybox = which("busybox")?;
    fs::copy(&busybox, files.join("bin/busybox"))?;
    let mut needed = BTreeSet::new();
    for binary in [&program, &library, &loader, &busybox] {
        needed.extend(libraries(binary)?);
    }
    for library in needed {
        let to = files.join(library.strip_prefix("/").unwrap_or(&library));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(&library, &to).with_context(|| format!("copying {}", library.display()))?;
    }
    let init = files.join("init");
    fs::write(&init, INIT)?;
    let runnable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&init, runnable)?;
    Ok(())
}

/// Where a program lies.
fn which(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .with_context(|| format!("{program} is not on the path"))
}

/// Where this machine's loader of Vulkan lies.
fn vulkan_loader() -> Result<PathBuf> {
    let known = [
        "/usr/lib/x86_64-linux-gnu/libvulkan.so.1",
        "/usr/lib64/libvulkan.so.1",
    ];
    let found = known.into_iter().map(PathBuf::from).find(|path| path.is_file());
    found.context("libvulkan.so.1 is not installed (Debian: libvulkan1)")
}

/// The libraries that a binary needs, by their paths; none where it is static.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(binary).output().context("starting ldd")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let missing = said.lines().find(|line| line.contains("not found"));
    ensure!(
        missing.is_none(),
        "{} needs a missing library: {}",
        binary.display(),
        missing.unwrap_or_default().trim()
    );
    let words = said
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'));
    Ok(words.map(PathBuf::from).collect())
}

/// What the guest printed until it was switched off.
fn boot(archive: &Path) -> Result<String> {
    let kernel = debian::kernel().context("the kernel is not there")?;
    // a processor that QEMU 7.2 emulates well: with `-cpu max` the guest stops at once, with `cx16` often
    let output = Command::new("timeout")
        .args([PATIENCE, QEMU])
        .args([
            "-accel",
            "tcg,thread=single",
            "-cpu",
            "Nehalem,-cx16",
            "-m",
            "2048",
        ])
        .args(["-nographic", "-no-reboot", "-net", "none"])
        .arg("-kernel")
        .arg(&kernel)
        .arg("-initrd")
        .arg(archive)
        .args(["-append", "console=ttyS0 quiet panic=-1"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting timeout")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
