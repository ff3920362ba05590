//! Emulated arm64 boards: QEMU with Debian's kernel, and a first file system that holds busybox and adb's daemon.
//!
//! A board has no disk and no other network; a loopback port leads to its daemon. Its device tree contains
//! `linux,dummy-virt`, by which the runner recognizes the emulation.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use cpio::newc::{Builder, ModeFileType, trailer};

use crate::places::Board;
use crate::program::{Running, start};

/// Names of the boards; the first has sensors where there is a module for them.
pub(crate) const NAMES: [&str; 2] = ["board-a76", "board-a53"];
const PROCESSORS: [&str; 2] = ["cortex-a76", "cortex-a53"];
/// Ports of the loopback that lead to the boards' daemons.
const PORTS: [u16; 2] = [15_551, 15_552];
/// Modules of the network card, in the order of loading.
const MODULES: [&str; 6] = [
    "virtio_pci_modern_dev.ko",
    "virtio_pci_legacy_dev.ko",
    "virtio_pci.ko",
    "failover.ko",
    "net_failover.ko",
    "virtio_net.ko",
];
/// What the sensors' module needs before it.
const GOVERNOR: &str = "governor_simpleondemand.ko";
/// adb's daemon in its package.
const DAEMON: &str = "usr/lib/android-sdk/platform-tools/adbd";

/// First process of a board.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t tmpfs data /data
mkdir -p /data/local/tmp
for module in $(cat /modules/order); do insmod /modules/$module || echo board: $module is not loaded; done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
export PATH=/bin HOME=/ LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu/android
echo board: $(uname -srm)
while :; do /bin/adbd; echo board: adbd ended with $?; sleep 1; done
";

/// The folder of an `adb` that finds its libraries.
pub(crate) fn adb(host: &Path, work: &Path) -> Result<PathBuf> {
    let folder = work.join("bin");
    fs::create_dir_all(&folder)?;
    let script = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH={} exec {} \"$@\"\n",
        libraries(host)?.to_string_lossy(),
        host.join("usr/lib/android-sdk/platform-tools/adb").display()
    );
    let adb = folder.join("adb");
    fs::write(&adb, script)?;
    fs::set_permissions(&adb, fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Where unpacked packages have their libraries.
fn libraries(host: &Path) -> Result<std::ffi::OsString> {
    let folders = [
        "usr/lib/x86_64-linux-gnu",
        "usr/lib/x86_64-linux-gnu/android",
        "lib/x86_64-linux-gnu",
    ];
    std::env::join_paths(folders.map(|folder| host.join(folder))).context("a folder's name has a colon")
}

/// Starts both boards. They are reached once their daemons listen.
pub(crate) fn both(
    host: &Path,
    packages: &Path,
    sensors: Option<&Path>,
    work: &Path,
) -> Result<(Vec<Board>, Vec<Running>)> {
    let folder = work.join("boards");
    fs::create_dir_all(&folder)?;
    let kernel = found(&packages.join("boot"), "vmlinuz-")?;
    let mut boards = Vec::new();
    let mut running = Vec::new();
    for (index, name) in NAMES.into_iter().enumerate() {
        let archive = folder.join(format!("{name}.cpio"));
        fs::write(&archive, file_system(packages, sensors.filter(|_| index == 0))?)?;
        let port = PORTS[index];
        let mut command = Command::new(host.join("usr/bin/qemu-system-aarch64"));
        command
            .env("LD_LIBRARY_PATH", libraries(host)?)
            .arg("-L")
            .arg(host.join("usr/share/qemu"))
            .args([
                "-machine",
                "virt,gic-version=3",
                "-accel",
                "tcg",
                "-cpu",
                PROCESSORS[index],
            ])
            .args(["-smp", "1", "-m", "1024", "-nographic", "-no-reboot"])
            .arg("-kernel")
            .arg(&kernel)
            .arg("-initrd")
            .arg(&archive)
            .args(["-append", "console=ttyAMA0 quiet panic=-1", "-netdev"])
            .arg(format!(
                "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:5555"
            ))
            // without a program to boot from, which would be in another package
            .args(["-device", "virtio-net-pci,netdev=net,romfile="]);
        running.push(start(&mut command, &folder.join(format!("{name}.console")))?);
        boards.push(Board {
            name: name.to_owned(),
            address: "127.0.0.1".to_owned(),
            port,
            tags: vec![
                "via=adb".to_owned(),
                "emulated=true".to_owned(),
                format!("cpu={}", PROCESSORS[index]),
            ],
            emulated: true,
        });
    }
    Ok((boards, running))
}

/// A board's first file system, as an archive that its kernel unpacks.
fn file_system(packages: &Path, sensors: Option<&Path>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in [
        "bin",
        "data",
        "dev",
        "etc",
        "lib",
        "lib/aarch64-linux-gnu",
        "modules",
        "proc",
        "sys",
        "tmp",
        "usr",
        "usr/lib",
        "usr/lib/aarch64-linux-gnu",
        "usr/lib/aarch64-linux-gnu/android",
    ] {
        archive.folder(folder)?;
    }
    archive.file("init", 0o755, INIT.as_bytes())?;
    archive.file("etc/passwd", 0o644, b"root:x:0:0:root:/:/bin/sh\n")?;
    archive.file("etc/group", 0o644, b"root:x:0:\n")?;
    archive.copy("bin/busybox", &packages.join("bin/busybox"))?;
    archive.copy("bin/adbd", &packages.join(DAEMON))?;
    archive.link(
        "lib/ld-linux-aarch64.so.1",
        "aarch64-linux-gnu/ld-linux-aarch64.so.1",
    )?;
    for folder in [
        "lib/aarch64-linux-gnu",
        "usr/lib/aarch64-linux-gnu",
        "usr/lib/aarch64-linux-gnu/android",
    ] {
        let mut entries: Vec<_> = fs::read_dir(packages.join(folder))
            .with_context(|| packages.join(folder).display().to_string())?
            .collect::<std::io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.file_type()? {
                kind if kind.is_symlink() => {
                    archive.link(&name, &fs::read_link(entry.path())?.to_string_lossy())?;
                }
                kind if kind.is_file() => archive.copy(&name, &entry.path())?,
                _ => {}
            }
        }
    }
    let modules = packages.join("lib/modules");
    let mut order = String::new();
    let mut wanted: Vec<&str> = MODULES.to_vec();
    if sensors.is_some() {
        wanted.push(GOVERNOR);
    }
    for name in wanted {
        let path = below(&modules, name)?.with_context(|| format!("{} has no {name}", modules.display()))?;
        archive.copy(&format!("modules/{name}"), &path)?;
        order.push_str(&format!("{name}\n"));
    }
    if let Some(sensors) = sensors {
        archive.copy("modules/sensors.ko", sensors)?;
        order.push_str("sensors.ko\n");
    }
    archive.file("modules/order", 0o644, order.as_bytes())?;
    archive.finish()
}

/// An archive as Linux takes it for its first file system.
#[derive(Default)]
struct Archive(Vec<u8>, u32);

impl Archive {
    fn add(&mut self, name: &str, kind: ModeFileType, mode: u32, bytes: &[u8]) -> Result<()> {
        self.1 += 1;
        let builder = Builder::new(name).ino(self.1).mode(mode).set_mode_file_type(kind);
        let length = u32::try_from(bytes.len()).with_context(|| format!("{name} is too long"))?;
        let mut writer = builder.write(&mut self.0, length);
        writer.write_all(bytes)?;
        writer.finish()?;
        Ok(())
    }

    fn folder(&mut self, name: &str) -> Result<()> {
        self.add(name, ModeFileType::Directory, 0o755, b"")
    }

    fn file(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        self.add(name, ModeFileType::Regular, mode, bytes)
    }

    fn link(&mut self, name: &str, to: &str) -> Result<()> {
        self.add(name, ModeFileType::Symlink, 0o777, to.as_bytes())
    }

    fn copy(&mut self, name: &str, from: &Path) -> Result<()> {
        let bytes = fs::read(from).with_context(|| from.display().to_string())?;
        self.file(name, 0o755, &bytes)
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        trailer(&mut self.0)?;
        Ok(self.0)
    }
}

/// The one file of a folder whose name begins so.
fn found(folder: &Path, start: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(start))
        .map(|entry| entry.path())
        .collect();
    match &paths[..] {
        [one] => Ok(one.clone()),
        _ => bail!("{} has {} files {start}", folder.display(), paths.len()),
    }
}

/// A file of this name anywhere in a folder.
fn below(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.file_name() == Some(OsStr::new(name)) {
            return Ok(Some(path));
        }
        if path.is_dir()
            && !path.is_symlink()
            && let Some(found) = below(&path, name)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_what_was_put_in() {
        let mut archive = Archive::default();
        archive.folder("bin").unwrap();
        archive.file("bin/init", 0o755, b"words").unwrap();
        archive.link("sh", "bin/init").unwrap();
        let bytes = archive.finish().unwrap();
        let mut rest = &bytes[..];
        let mut found = Vec::new();
        loop {
            let mut reader = cpio::NewcReader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut text = String::new();
            std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
            found.push((name, mode, text));
            rest = reader.finish().unwrap();
        }
        let expected = [
            ("bin", 0o040_755, ""),
            ("bin/init", 0o100_755, "words"),
            ("sh", 0o120_777, "bin/init"),
        ];
        let found: Vec<(&str, u32, &str)> = found
            .iter()
            .map(|(name, mode, text)| (&**name, *mode, &**text))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_module_is_found_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("6.1/kernel")).unwrap();
        let path = folder.path().join("6.1/kernel/a.ko");
        fs::write(&path, "").unwrap();
        assert_eq!(below(folder.path(), "a.ko").unwrap(), Some(path));
        assert_eq!(below(folder.path(), "b.ko").unwrap(), None);
        assert!(
            found(folder.path(), "vmlinuz-")
                .unwrap_err()
                .to_string()
                .contains("has 0 files")
        );
    }
}
