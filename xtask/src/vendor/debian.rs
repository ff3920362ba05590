//! Packages of Debian's backports, unpacked aside: nothing of them is installed.
//!
//! Invariants:
//! 1. apt fetches, and so checks the signatures, with lists of its own below `target/vendor/debian`.
//! 2. A folder is whole or absent: it is made under another name and renamed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::wheel::remove;
use crate::root::root;

/// What is taken out of a package.
pub(super) struct Package {
    /// Name, with `=VERSION` where it is pinned.
    name: &'static str,
    /// Whether the package is empty and depends on the one that is wanted.
    meta: bool,
    folder: &'static str,
    licence: &'static str,
    /// Folder in the package, beginning of the files' names in it.
    files: &'static [(&'static str, &'static str)],
}

/// Mesa's Vulkan driver in software; the libraries that it needs are Debian 12's.
pub(super) const MESA: Package = Package {
    name: "mesa-vulkan-drivers=25.0.7-2~bpo12+1",
    meta: false,
    folder: "mesa",
    licence: "MIT",
    files: &[
        ("usr/lib/x86_64-linux-gnu", "libvulkan_lvp.so"),
        ("usr/share/doc/mesa-vulkan-drivers", "copyright"),
    ],
};

/// A Linux with `/dev/udmabuf` and `/dev/dma_heap` built in.
pub(super) const KERNEL: Package = Package {
    name: "linux-image-cloud-amd64",
    meta: true,
    folder: "kernel",
    licence: "GPL-2.0",
    files: &[("boot", "vmlinuz-")],
};

const SOURCE: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                      http://deb.debian.org/debian bookworm-backports main\n";

/// The folder of a package that was fetched.
fn folder(package: &Package) -> PathBuf {
    root().join("target/vendor").join(package.folder)
}

fn there(package: &Package) -> bool {
    let stamp = fs::read_to_string(folder(package).join(".stamp"));
    stamp.is_ok_and(|stamp| stamp == package.name)
}

/// The file that names Mesa's driver to Vulkan's loader, where it was fetched.
pub(crate) fn mesa() -> Option<PathBuf> {
    there(&MESA).then(|| folder(&MESA).join("lvp.json"))
}

/// The driver itself, where it was fetched.
pub(crate) fn mesa_library() -> Option<PathBuf> {
    there(&MESA).then(|| folder(&MESA).join(MESA.files[0].1))
}

/// The kernel, where it was fetched.
pub(crate) fn kernel() -> Option<PathBuf> {
    there(&KERNEL).then(|| folder(&KERNEL).join("vmlinuz"))
}

/// What Vulkan's loader reads, for a driver at this path.
pub(crate) fn driver_file(library: &Path) -> String {
    let library = library.display();
    format!(
        "{{\"file_format_version\": \"1.0.0\", \"ICD\": {{\"library_path\": \"{library}\", \"api_version\": \"1.3.0\"}}}}\n"
    )
}

/// Fetches a package where it is not there, and gives its folder.
pub(super) fn install(package: &Package) -> Result<PathBuf> {
    let to = folder(package);
    if there(package) {
        eprintln!("vendor: {} is up to date", to.display());
        return Ok(to);
    }
    eprintln!("vendor: {} is under {}", package.name, package.licence);
    let vendor = root().join("target/vendor");
    let half = vendor.join(format!(".half-{}-{}", package.folder, std::process::id()));
    remove(&half)?;
    fs::create_dir_all(&half).with_context(|| format!("creating {}", half.display()))?;
    let result = fill(package, &vendor.join("debian"), &half).and_then(|()| {
        remove(&to)?;
        fs::rename(half.join("content"), &to).with_context(|| format!("making {}", to.display()))
    });
    let removed = remove(&half);
    result.and(removed)?;
    if package.folder == MESA.folder {
        // names the library where it now lies
        fs::write(to.join("lvp.json"), driver_file(&to.join(MESA.files[0].1)))?;
    }
    fs::write(to.join(".stamp"), package.name)?;
    Ok(to)
}

fn fill(package: &Package, lists: &Path, half: &Path) -> Result<()> {
    let apt = Apt::new(lists)?;
    apt.run("apt-get", &["-qq", "update"], half)?;
    let mut name = package.name.to_owned();
    if package.meta {
        let said = apt.run("apt-cache", &["depends", "--important", package.name], half)?;
        let wanted = said
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: "));
        name = wanted
            .with_context(|| format!("{} depends on nothing", package.name))?
            .trim_matches(['<', '>'])
            .to_owned();
    }
    apt.run("apt-get", &["-qq", "download", &name], half)?;
    let deb = only(half, "deb")?;
    let all = half.join("all");
    let unpacked = Command::new("dpkg-deb")
        .arg("--extract")
        .arg(&deb)
        .arg(&all)
        .output()
        .context("starting dpkg-deb")?;
    ensure!(unpacked.status.success(), "{} cannot be unpacked", deb.display());
    let content = half.join("content");
    fs::create_dir(&content)?;
    for (from, start) in package.files {
        let from = all.join(from);
        let mut found: Vec<_> = fs::read_dir(&from)
            .with_context(|| format!("reading {}", from.display()))?
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
            .collect();
        ensure!(
            found.len() == 1,
            "{} has {} files {start}",
            deb.display(),
            found.len()
        );
        fs::rename(found.remove(0).path(), content.join(start.trim_end_matches('-')))?;
    }
    Ok(())
}

/// The one file of a folder with this ending.
fn only(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == ending))
        .collect();
    ensure!(found.len() == 1, "apt left {} packages", found.len());
    Ok(found.remove(0))
}

/// apt with lists of its own, beside the system's.
pub(crate) struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(folder: &Path) -> Result<Apt> {
        Apt::with(folder, SOURCE, &[])
    }

    /// With lists in this folder, of these sources; for these architectures, where they are not the system's.
    pub(crate) fn with(folder: &Path, sources: &str, architectures: &[&str]) -> Result<Apt> {
        for below in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(below))
                .with_context(|| format!("creating {}", folder.display()))?;
        }
        let source = folder.join("sources.list");
        fs::write(&source, sources)?;
        fs::write(folder.join("status"), "")?;
        let set = |name: &str, path: PathBuf| format!("{name}={}", path.display());
        let architectures = architectures
            .iter()
            .map(|name| format!("APT::Architectures::={name}"));
        Ok(Apt {
            options: [
                set("Dir::Etc::SourceList", source),
                "Dir::Etc::SourceParts=/dev/null".to_owned(),
                set("Dir::State", folder.join("state")),
                set("Dir::State::status", folder.join("status")),
                set("Dir::Cache", folder.join("cache")),
                // whoever builds may not be root, and apt's own user may not write here
                "APT::Sandbox::User=root".to_owned(),
            ]
            .into_iter()
            .chain(architectures)
            .collect(),
        })
    }

    /// Runs one of its programs in a folder; what it prints.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<String> {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        let output = command
            .args(arguments)
            .current_dir(folder)
            .output()
            .with_context(|| format!("starting {program}: this needs Debian or a system made of it"))?;
        ensure!(
            output.status.success(),
            "{program} {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
                .lines()
                .last()
                .unwrap_or_default()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
