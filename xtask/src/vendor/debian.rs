//! Packages of Debian's backports, and its compiler, unpacked aside: nothing of them is installed.
//!
//! Invariants:
//! 1. apt fetches, and so checks the signatures, with lists of its own below `target/vendor`.
//! 2. A folder is whole or absent: it is made under another name and renamed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
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

/// Where Debian 12's compiler comes from, for this machine and for aarch64.
const COMPILER_SOURCE: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64,arm64] \
                               http://deb.debian.org/debian-security bookworm-security main\n";

/// The folder of Debian's Rust compiler, and of its standard library for aarch64.
const COMPILER: &str = "target/vendor/aarch64";

/// Starts a program of the compiler's with its own libraries, from wherever the folder lies. Not in `sh`, which may be one that
/// drops variables whose names hold a hyphen: `CARGO_BIN_EXE_polychip-conform`.
const START: &str = "#!/bin/bash\n\
                     here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd)\n\
                     LD_LIBRARY_PATH=$here/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \\\n  \
                     exec \"$here/usr/bin/$(basename -- \"$0\")\" \"$@\"\n";

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

/// The compiler that has aarch64's standard library, where it was fetched.
pub(crate) fn compiler() -> Option<PathBuf> {
    let folder = root().join(COMPILER);
    let rustc = folder.join("rustc");
    // one that an earlier version left starts it otherwise
    let is_current = fs::read_to_string(&rustc).is_ok_and(|text| text == START);
    (is_current && folder.join(".stamp").is_file()).then_some(rustc)
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

/// Fetches Debian's Rust compiler for this machine with its standard library for aarch64, and gives the folder. rustup has
/// that library too; this is for machines that reach Debian's packages only.
pub(crate) fn install_compiler() -> Result<PathBuf> {
    let to = root().join(COMPILER);
    if compiler().is_some() {
        eprintln!("vendor: {} is up to date", to.display());
        return Ok(to);
    }
    if to.join(".stamp").is_file() {
        starters(&to)?;
        eprintln!("vendor: {} is started anew", to.display());
        return Ok(to);
    }
    eprintln!("vendor: Debian's rustc-web is under MIT or Apache-2.0, LLVM under Apache-2.0 with exceptions");
    let vendor = root().join("target/vendor");
    let half = vendor.join(format!(".half-aarch64-{}", std::process::id()));
    remove(&half)?;
    fs::create_dir_all(&half).with_context(|| format!("creating {}", half.display()))?;
    let result = fill_compiler(&vendor.join("debian-compiler"), &half).and_then(|()| {
        remove(&to)?;
        fs::rename(half.join("content"), &to).with_context(|| format!("making {}", to.display()))
    });
    let removed = remove(&half);
    result.and(removed)?;
    Ok(to)
}

/// Writes what starts the compiler's programs into its folder.
fn starters(folder: &Path) -> Result<()> {
    for program in ["rustc", "rustdoc"] {
        let (script, half) = (folder.join(program), folder.join(format!("{program}.half")));
        fs::write(&half, START).with_context(|| format!("writing {}", half.display()))?;
        fs::set_permissions(&half, fs::Permissions::from_mode(0o755))?;
        fs::rename(&half, &script).with_context(|| format!("making {}", script.display()))?;
    }
    Ok(())
}

fn fill_compiler(lists: &Path, half: &Path) -> Result<()> {
    let apt = Apt::with(lists, COMPILER_SOURCE, &["amd64", "arm64"])?;
    apt.run("apt-get", &["-qq", "update"], half)?;
    let needed = |package: &str, start: &str| -> Result<String> {
        let said = apt.run("apt-cache", &["depends", "--important", package], half)?;
        let named = said.lines().find_map(|line| {
            let name = line.trim().strip_prefix("Depends: ")?;
            name.starts_with(start).then(|| name.to_owned())
        });
        named.with_context(|| format!("{package} depends on nothing named {start}"))
    };
    // their names hold versions
    let library = needed("libstd-rust-web-dev", "libstd-rust-web-")?;
    let llvm = needed(&library, "libllvm")?;
    let names = [
        "rustc-web",
        "libstd-rust-web-dev",
        "libstd-rust-web-dev:arm64",
        &library,
        &llvm,
    ];
    apt.run("apt-get", &[&["-qq", "download"], &names[..]].concat(), half)?;
    let content = half.join("content");
    let debs = with_ending(half, "deb")?;
    ensure!(
        debs.len() == names.len(),
        "apt left {} packages of {}",
        debs.len(),
        names.len()
    );
    for deb in &debs {
        extract(deb, &content)?;
    }
    starters(&content)?;
    let version = Command::new(content.join("rustc"))
        .arg("--version")
        .output()
        .context("starting Debian's rustc")?;
    ensure!(
        version.status.success(),
        "Debian's rustc does not start: {}",
        String::from_utf8_lossy(&version.stderr).trim()
    );
    // last, because it marks the folder as complete
    fs::write(content.join(".stamp"), version.stdout)?;
    Ok(())
}

fn extract(deb: &Path, to: &Path) -> Result<()> {
    let unpacked = Command::new("dpkg-deb")
        .arg("--extract")
        .arg(deb)
        .arg(to)
        .output()
        .context("starting dpkg-deb")?;
    ensure!(unpacked.status.success(), "{} cannot be unpacked", deb.display());
    Ok(())
}

fn fill(package: &Package, lists: &Path, half: &Path) -> Result<()> {
    let apt = Apt::with(lists, SOURCE, &[])?;
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
    extract(&deb, &all)?;
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
    let mut found = with_ending(folder, ending)?;
    ensure!(found.len() == 1, "apt left {} packages", found.len());
    Ok(found.remove(0))
}

/// The files of a folder with this ending.
fn with_ending(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    Ok(fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == ending))
        .collect())
}

/// apt with lists of its own, beside the system's.
pub(crate) struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// With lists in this folder, of these sources; of these architectures, where they are not the system's.
    pub(crate) fn with(folder: &Path, sources: &str, architectures: &[&str]) -> Result<Apt> {
        for below in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(below))
                .with_context(|| format!("creating {}", folder.display()))?;
        }
        let source = folder.join("sources.list");
        fs::write(&source, sources)?;
        fs::write(folder.join("status"), "")?;
        let set = |name: &str, path: PathBuf| format!("{name}={}", path.display());
        let mut options = vec![
            set("Dir::Etc::SourceList", source),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            set("Dir::State", folder.join("state")),
            set("Dir::State::status", folder.join("status")),
            set("Dir::Cache", folder.join("cache")),
            // the builder may not be root, and apt's own user may not write here
            "APT::Sandbox::User=root".to_owned(),
        ];
        options.extend(
            architectures
                .iter()
                .map(|name| format!("APT::Architectures::={name}")),
        );
        Ok(Apt { options })
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
