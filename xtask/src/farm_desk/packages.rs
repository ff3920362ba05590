//! Debian packages for the desk, unpacked without installation.
//!
//! Invariants:
//! 1. apt fetches the packages, and so checks Debian's signatures. It uses separate lists, not the system's.
//! 2. A folder is complete or absent: it is made under another name and then renamed. Its `.stamp` lists the packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::vendor::debian::Apt;
use crate::vendor::wheel::remove;

const SOURCES: &str = "\
deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main
deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian-security bookworm-security main
";

/// QEMU 10 and adb, with the libraries that a bare system lacks.
const HOST: &[&str] = &[
    "qemu-system-arm/bookworm-backports",
    "qemu-system-common/bookworm-backports",
    "qemu-system-data/bookworm-backports",
    "libaio1",
    "libbpf1",
    "libcapstone4",
    "libdaxctl1",
    "libfdt1",
    "libfuse3-3",
    "libibverbs1",
    "libkmod2",
    "libndctl6",
    "libnl-3-200",
    "libnl-route-3-200",
    "libnuma1",
    "libpixman-1-0",
    "libpmem1",
    "librdmacm1",
    "libslirp0",
    "liburing2",
    "libvdeplug2",
    "adb",
    "android-libbase/bookworm",
    "android-libboringssl/bookworm",
    "android-libcutils/bookworm",
    "android-liblog/bookworm",
    "libprotobuf32",
    "libusb-1.0-0",
];

/// The system of a board: a kernel, busybox, adb's daemon, and the libraries that these and the runner need.
const BOARD: &[&str] = &[
    KERNEL,
    "busybox-static:arm64",
    "adbd:arm64/bookworm-backports",
    "android-libbase:arm64/bookworm-backports",
    "android-libboringssl:arm64",
    "android-libcutils:arm64/bookworm-backports",
    "android-liblog:arm64/bookworm-backports",
    "libbrotli1:arm64",
    "libc6:arm64",
    "libcap2:arm64",
    "libgcc-s1:arm64",
    "libgcrypt20:arm64",
    "libgpg-error0:arm64",
    "liblz4-1:arm64",
    "liblzma5:arm64",
    "libprotobuf32:arm64",
    "libstdc++6:arm64",
    "libsystemd0:arm64",
    "libzstd1:arm64",
    "zlib1g:arm64",
];

/// Version of the kernel.
pub(super) const VERSION: &str = "6.1.0-56";
/// The kernel's package, and the headers for building modules, of that version.
const KERNEL: &str = "linux-image-6.1.0-56-arm64:arm64";
const HEADERS: &[&str] = &[
    "linux-headers-6.1.0-56-arm64:arm64",
    "linux-headers-6.1.0-56-common",
    "linux-kbuild-6.1",
];

/// Folders of the unpacked packages.
pub(super) struct Packages {
    pub(super) host: PathBuf,
    pub(super) board: PathBuf,
    pub(super) headers: PathBuf,
}

/// Fetches the packages that are missing.
pub(super) fn fetch(folder: &Path) -> Result<Packages> {
    let mut apt = None;
    let mut one = |name: &str, packages: &[&str]| -> Result<PathBuf> {
        let to = folder.join(name);
        let wanted = packages.join("\n");
        let stamp = fs::read_to_string(to.join(".wanted"));
        if stamp.is_ok_and(|stamp| stamp == wanted) {
            return Ok(to);
        }
        let apt = match &mut apt {
            Some(apt) => apt,
            none => {
                let made = Apt::with(&folder.join("apt"), SOURCES, &["amd64", "arm64"])?;
                made.run("apt-get", &["-qq", "update"], folder)?;
                none.insert(made)
            }
        };
        eprintln!(
            "farm-desk: fetching {} packages into {}",
            packages.len(),
            to.display()
        );
        unpack(apt, &folder.join(format!(".half-{name}")), &to, packages, &wanted)?;
        Ok(to)
    };
    Ok(Packages {
        host: one("host", HOST)?,
        board: one("board", BOARD)?,
        headers: one("headers", HEADERS)?,
    })
}

fn unpack(apt: &Apt, half: &Path, to: &Path, packages: &[&str], wanted: &str) -> Result<()> {
    remove(half)?;
    let (files, content) = (half.join("files"), half.join("content"));
    fs::create_dir_all(&files)?;
    fs::create_dir_all(&content)?;
    let mut arguments = vec!["-qq", "download"];
    arguments.extend(packages);
    apt.run("apt-get", &arguments, &files)?;
    let mut names = Vec::new();
    for file in fs::read_dir(&files)?.flatten() {
        let unpacked = Command::new("dpkg-deb")
            .arg("--extract")
            .arg(file.path())
            .arg(&content)
            .output()
            .context("starting dpkg-deb")?;
        ensure!(
            unpacked.status.success(),
            "{} cannot be unpacked",
            file.path().display()
        );
        names.push(file.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    fs::write(content.join(".stamp"), names.join("\n"))?;
    fs::write(content.join(".wanted"), wanted)?;
    remove(to)?;
    fs::rename(&content, to).with_context(|| format!("making {}", to.display()))?;
    remove(half)
}
