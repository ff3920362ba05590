//! The control group of the process that does the work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::settings::Settings;

const ROOT: &str = "/sys/fs/cgroup";

/// Starts this program in a group with so much memory, and passes its result on.
pub(crate) fn run_inside(settings: &Settings) -> Result<()> {
    let bytes = settings.group_mib << 20;
    let mut reasons = Vec::new();
    for made in [version_1(bytes), version_2(bytes)] {
        let folder = match made {
            Ok(folder) => folder,
            Err(error) => {
                reasons.push(format!("{error:#}"));
                continue;
            }
        };
        println!("control group {}, {} MiB", folder.display(), settings.group_mib);
        let group = folder.display().to_string();
        let status = own(settings)?.args(["--group", &group]).status();
        let killed = killed(&folder);
        remove(&folder)?;
        let status = status?;
        if killed > 0 || !status.success() {
            bail!(
                "the process in the group ended with {status}; the kernel killed {killed} processes of the group"
            );
        }
        return Ok(());
    }
    let scope = Command::new("systemd-run")
        .args(["--scope", "--quiet", "-p", &format!("MemoryMax={bytes}")])
        .arg(std::env::current_exe()?)
        .args(settings.words())
        .args(["--inside", "yes"])
        .status();
    match scope {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            reasons.push(format!("systemd-run: {status}"));
            bail!("no control group with a memory limit: {}", reasons.join("; "))
        }
        Err(error) => {
            reasons.push(format!("systemd-run: {error}"));
            bail!("no control group with a memory limit: {}", reasons.join("; "))
        }
    }
}

fn own(settings: &Settings) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(settings.words()).args(["--inside", "yes"]);
    Ok(command)
}

/// The path of this process's group, by what the line of `/proc/self/cgroup` begins with.
fn own_path(is_wanted: impl Fn(&str, &str) -> bool) -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        is_wanted(number, controllers).then(|| path.trim_start_matches('/').to_owned())
    })
}

fn made(parent: &Path) -> Result<PathBuf> {
    let folder = parent.join(format!("polychip-{}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder)
}

fn limited(folder: PathBuf, file: &str, bytes: u64) -> Result<PathBuf> {
    let file = folder.join(file);
    if let Err(error) = fs::write(&file, bytes.to_string()) {
        let _ = fs::remove_dir(&folder);
        bail!("{}: {error}", file.display());
    }
    Ok(folder)
}

fn version_1(bytes: u64) -> Result<PathBuf> {
    let path = own_path(|_, controllers| controllers.split(',').any(|one| one == "memory"));
    let path = path.context("version 1: this process has no group of the memory controller")?;
    limited(
        made(&Path::new(ROOT).join("memory").join(path))?,
        "memory.limit_in_bytes",
        bytes,
    )
}

fn version_2(bytes: u64) -> Result<PathBuf> {
    let path = own_path(|number, controllers| number == "0" && controllers.is_empty());
    let path = path.context("version 2: this process has no group")?;
    let folder = made(&Path::new(ROOT).join(path))?;
    limited(folder, "memory.max", bytes)
}

/// Removes an empty group; processes that it started may still be ending.
fn remove(folder: &Path) -> Result<()> {
    let mut tries = 0;
    loop {
        match fs::remove_dir(folder) {
            Err(_) if tries < 100 => std::thread::sleep(Duration::from_millis(50)),
            removed => return removed.with_context(|| format!("{} cannot be removed", folder.display())),
        }
        tries += 1;
    }
}

/// Makes this process a member of the group.
pub(crate) fn join(folder: &Path) -> Result<()> {
    let file = folder.join("cgroup.procs");
    // 0 is the process that writes
    fs::write(&file, "0").with_context(|| file.display().to_string())
}

/// The most memory that the group held, as the kernel counted it.
pub(crate) fn peak(folder: &Path) -> Option<u64> {
    let files = ["memory.max_usage_in_bytes", "memory.peak"];
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(folder.join(file)).ok());
    texts.filter_map(|text| text.trim().parse().ok()).next()
}

/// How many processes of the group the kernel killed for lack of memory.
fn killed(folder: &Path) -> u64 {
    let files = ["memory.oom_control", "memory.events"];
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(folder.join(file)).ok());
    let counts = texts.flat_map(|text| {
        let lines: Vec<u64> = text
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .collect();
        lines
    });
    counts.sum()
}
